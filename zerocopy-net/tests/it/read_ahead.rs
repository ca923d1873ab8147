//! Advice on pages: what it brings in, and what it lets go.

use alluvium_segment::page_cache::{is_resident, residency};
use alluvium_zerocopy_net::ReadAhead;

use crate::support::{cold_file_of, pattern, slice};

const MIB: u64 = 1024 * 1024;

/// A file of 12 MiB on disk, of which nothing is in memory.
fn cold() -> std::sync::Arc<std::fs::File> {
    cold_file_of(&pattern(12 * 1024 * 1024))
}

#[test]
fn a_reader_counts_as_in_order_from_its_third_slice_in_a_row() {
    let file = cold();
    let mut ahead = ReadAhead::new();
    let seen: Vec<_> = (0..4)
        .map(|index| {
            ahead.note(&slice(&file, 5 * MIB + index * 1000, 1000));
            ahead.is_in_order()
        })
        .collect();
    assert_eq!(seen, [false, false, true, true]);
    ahead.note(&slice(&file, 0, 1000));
    assert!(!ahead.is_in_order());
}

#[test]
fn a_reader_that_repeats_the_batch_which_was_cut_goes_in_order() {
    let file = cold();
    let mut ahead = ReadAhead::new();
    for index in 0..3 {
        ahead.note(&slice(&file, index * 900, 1000));
    }
    assert!(ahead.is_in_order());
    ahead.note(&slice(&file, 1800, 1000));
    assert!(!ahead.is_in_order(), "the same slice again");
}

#[test]
fn a_reader_that_finds_nothing_at_the_end_goes_on_in_order() {
    let file = cold();
    let mut ahead = ReadAhead::new();
    for index in 0..6 {
        ahead.note(&slice(&file, index * 1000, 1000));
        // All is read; a poll later there is more.
        ahead.note(&slice(&file, (index + 1) * 1000, 0));
    }
    assert!(ahead.is_in_order());
}

#[test]
fn the_start_of_another_file_continues_a_reader_that_rolls_over() {
    let (first, second) = (cold(), cold());
    let mut ahead = ReadAhead::new();
    ahead.note(&slice(&first, 11 * MIB, MIB / 2));
    ahead.note(&slice(&first, 11 * MIB + MIB / 2, MIB / 2));
    ahead.note(&slice(&second, 0, 1000));
    assert!(ahead.is_in_order());
}

#[test]
fn nothing_is_brought_in_for_a_reader_that_jumps() {
    let file = cold();
    let mut ahead = ReadAhead::new();
    for position in [3 * MIB, 7 * MIB, 9 * MIB, 4 * MIB] {
        ahead.note(&slice(&file, position, 1000));
    }
    assert_eq!(residency(&file, 0..12 * MIB).unwrap().resident_count(), 0);
}

#[test]
fn pages_brought_in_for_a_reader_go_behind_it_and_others_stay() {
    use std::os::unix::fs::FileExt;
    let file = cold();
    // Somebody else reads the last MiB.
    file.read_exact_at(&mut vec![0; 1024 * 1024], 11 * MIB).unwrap();
    let mut ahead = ReadAhead::new().dropping_behind();
    let mut buffer = vec![0; 256 * 1024];
    for index in 0..48 {
        let position = index * 256 * 1024;
        ahead.note(&slice(&file, position, 256 * 1024));
        file.read_exact_at(&mut buffer, position).unwrap();
    }
    drop(ahead);
    let left = residency(&file, 0..12 * MIB).unwrap();
    let page = left.page_bytes;
    // Before it counted as going in order, what it read stays.
    let behind = left.resident_in(MIB / page..10 * MIB / page);
    assert!(behind * page <= 2 * MIB, "{behind} pages stay: {left:?}");
}

#[test]
fn a_reader_without_the_option_lets_nothing_go() {
    use std::os::unix::fs::FileExt;
    let file = cold();
    let mut ahead = ReadAhead::new();
    let mut buffer = vec![0; 1024 * 1024];
    for position in (0..12).map(|index| index * MIB) {
        ahead.note(&slice(&file, position, MIB));
        file.read_exact_at(&mut buffer, position).unwrap();
    }
    drop(ahead);
    assert!(is_resident(&file, 0..12 * MIB).unwrap());
}
