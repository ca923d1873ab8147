//! Walks over the entries of a log.

use alluvium_record_format::{CorruptClass, Position};
use alluvium_segment::{BatchWalker, SegmentError};

use crate::support::{Fixture, batch_at, three};

const LOG: &str = "00000000000000000000.log";

/// The entries from here on, and where the walk ended.
fn entries(mut walker: BatchWalker) -> (Vec<Vec<u8>>, u32) {
    let mut entries = Vec::new();
    while let Some(entry) = walker.next_entry().unwrap() {
        entries.push(entry.bytes().to_vec());
    }
    (entries, walker.position().get())
}

/// A MiB and more, read 256 KiB at a time: most entries cross from one block to the next somewhere.
#[test]
fn a_walk_gives_every_entry_of_a_long_log_from_any_of_them_on() {
    let batches: Vec<_> =
        (0..40).zip(1..).map(|(base, size)| batch_at(base, &[1000], 1500 * size)).collect();
    let log = batches.concat();
    let fixture = Fixture::new();
    fixture.put(LOG, &log);
    let segment = fixture.open(0);
    assert!(log.len() > 1024 * 1024);
    for from in [0, 1, 13, 39, 40] {
        let start = u32::try_from(batches[..from].concat().len()).unwrap();
        let (found, end) = entries(segment.walk(Position::new(start)).unwrap());
        assert!(found == batches[from..], "from batch {from}");
        assert_eq!(end, segment.size_bytes());
    }
}

#[test]
fn a_walk_ends_where_an_entry_is_cut_off_and_says_so() {
    let fixture = Fixture::new();
    fixture.put(LOG, &three()[..300]);
    let mut walker = fixture.open(0).walk(Position::new(0)).unwrap();
    for _ in 0..2 {
        assert!(walker.next_entry().unwrap().is_some());
    }
    assert!(walker.next_entry().unwrap().is_none());
    assert_eq!(walker.position(), Position::new(236));
    assert_eq!(walker.tail().unwrap().class(), CorruptClass::Incomplete);
}

#[test]
fn a_walk_fails_at_bytes_that_are_no_entry_and_ends_there() {
    let fixture = Fixture::new();
    let mut log = three();
    log[118 + 16] = 3;
    fixture.put(LOG, &log);
    let mut walker = fixture.open(0).walk(Position::new(0)).unwrap();
    assert!(walker.next_entry().unwrap().is_some());
    let failed = walker.next_entry().map(|entry| entry.is_some());
    assert!(matches!(failed, Err(SegmentError::Corrupt { .. })), "{failed:?}");
    assert!(walker.next_entry().unwrap().is_none());
    assert_eq!((walker.position(), walker.tail()), (Position::new(118), None));
}
