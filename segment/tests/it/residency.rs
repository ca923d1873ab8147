//! Which pages are in memory. The files lie below the build directory: a file system in memory
//! lets no page go.

use std::fs::File;
use std::os::unix::fs::FileExt;

use alluvium_record_format::Position;
use alluvium_segment::page_cache::{
    drop_pages, is_resident, read_uncached, residency, will_need, write_uncached,
};
use alluvium_segment::{FileKind, SegmentError};
use rustix::fs::{Advice, fadvise};

use crate::support::{Fixture, every_batch, one};

const PAGES: u64 = 64;

fn page() -> u64 {
    u64::try_from(rustix::param::page_size()).unwrap()
}

/// A file of whole pages on disk, none of them in memory; the kernel does not read ahead in it.
fn cold() -> File {
    let file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let bytes = vec![7; usize::try_from(PAGES * page()).unwrap()];
    file.write_all_at(&bytes, 0).unwrap();
    chill(&file);
    file
}

fn chill(file: &File) {
    file.sync_all().unwrap();
    fadvise(file, 0, None, Advice::Random).unwrap();
    drop_pages(file, &(0..PAGES * page())).unwrap();
}

#[test]
fn the_pages_that_were_read_and_no_others_are_in_memory() {
    let file = cold();
    let before = residency(&file, 0..PAGES * page()).unwrap();
    assert_eq!((before.page_count, before.resident_count()), (PAGES, 0));
    for number in [3, 4, 9] {
        file.read_exact_at(&mut [0], number * page() + 17).unwrap();
    }
    let after = residency(&file, 0..PAGES * page()).unwrap();
    assert_eq!(after.resident, [3..5, 9..10]);
    assert_eq!(after.resident_in(4..10), 2);
    assert!(after.is_resident(4) && !after.is_resident(5) && !after.is_resident(63));
    assert!(is_resident(&file, 3 * page()..5 * page()).unwrap());
    assert!(!is_resident(&file, 3 * page()..5 * page() + 1).unwrap());
    assert!(is_resident(&file, 5..5).unwrap());
}

#[test]
fn a_part_of_a_file_tells_of_its_own_pages() {
    let file = cold();
    for number in [3, 4, 9] {
        file.read_exact_at(&mut [0], number * page()).unwrap();
    }
    let found = |first: u64, end: u64| {
        let found = residency(&file, first * page()..end * page()).unwrap();
        (found.page_count, found.resident.into_iter().flatten().collect::<Vec<_>>())
    };
    assert_eq!(found(4, 12), (8, vec![4, 9]));
    assert_eq!(found(4, 9), (5, vec![4]));
    assert_eq!(found(3, 5), (2, vec![3, 4]));
    assert_eq!(found(5, 9), (4, vec![]));
}

#[test]
fn pages_that_wait_for_the_disk_are_dirty_until_they_are_synced() {
    let file = cold();
    file.write_all_at(&[1], 2 * page()).unwrap();
    let written = residency(&file, 0..PAGES * page()).unwrap();
    assert_eq!(written.resident_count(), 1);
    assert_ne!(written.dirty_count, Some(0));
    file.sync_all().unwrap();
    let synced = residency(&file, 0..PAGES * page()).unwrap();
    assert_eq!(synced.resident_count(), 1);
    assert!(synced.dirty_count.is_none_or(|count| count == 0), "{synced:?}");
}

#[test]
fn bytes_behind_the_end_of_the_file_are_not_in_memory() {
    let file = cold();
    assert!(!is_resident(&file, PAGES * page()..(PAGES + 1) * page()).unwrap());
}

#[test]
fn what_is_asked_for_ahead_of_a_read_comes() {
    let file = cold();
    will_need(&file, &(0..8 * page())).unwrap();
    file.read_exact_at(&mut vec![0; usize::try_from(8 * page()).unwrap()], 0).unwrap();
    assert!(is_resident(&file, 0..8 * page()).unwrap());
}

#[test]
fn an_uncached_read_leaves_the_cache_as_it_was() {
    let file = cold();
    file.read_exact_at(&mut [0], 20 * page()).unwrap();
    let mut buffer = vec![0; usize::try_from(8 * page()).unwrap()];
    assert_eq!(read_uncached(&file, &mut buffer, 0).unwrap(), buffer.len());
    assert!(buffer.iter().all(|byte| *byte == 7));
    let after = residency(&file, 0..PAGES * page()).unwrap();
    assert!(after.is_resident(20) && after.resident_count() == 1, "{after:?}");
    assert_eq!(read_uncached(&file, &mut buffer, PAGES * page()).unwrap(), 0);
}

#[test]
fn an_uncached_write_is_read_back_and_goes_once_it_is_on_disk() {
    let file = cold();
    let bytes = vec![9; usize::try_from(4 * page()).unwrap()];
    assert_eq!(write_uncached(&file, &bytes, 8 * page()).unwrap(), bytes.len());
    file.sync_all().unwrap();
    drop_pages(&file, &(8 * page()..12 * page())).unwrap();
    assert!(!is_resident(&file, 8 * page()..9 * page()).unwrap());
    let mut back = vec![0; bytes.len()];
    file.read_exact_at(&mut back, 8 * page()).unwrap();
    assert!(back == bytes);
}

#[test]
fn a_segment_tells_of_its_log_and_of_each_file() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&one()).unwrap();
    let segment = active.seal().unwrap();
    let log = segment.residency().unwrap();
    assert_eq!((log.page_count, log.resident_count()), (1, 1));
    assert_eq!(segment.file_residency(FileKind::Log).unwrap(), Some(log));
    let times = segment.file_residency(FileKind::TimeIndex).unwrap().unwrap();
    assert_eq!((times.page_count, times.resident_count()), (1, 1));
    assert!(segment.file_residency(FileKind::TransactionIndex).unwrap().is_none());
}

#[test]
fn an_empty_segment_has_no_pages() {
    let fixture = Fixture::new();
    let active = fixture.create(0, every_batch());
    let log = active.segment().residency().unwrap();
    assert_eq!((log.page_count, log.resident.len()), (0, 0));
}

#[test]
fn a_segment_whose_log_is_gone_says_so() {
    let fixture = Fixture::new();
    fixture.put("00000000000000000000.log", &one());
    let segment = fixture.open(0);
    std::fs::remove_file(fixture.path("00000000000000000000.log")).unwrap();
    let error = segment.residency().unwrap_err();
    assert!(matches!(error, SegmentError::Gone { .. }), "{error}");
}

#[test]
fn an_uncached_walk_and_append_leave_the_log_out_of_memory() {
    let fixture = Fixture::on_disk();
    let mut active = fixture.create(0, every_batch());
    active.set_uncached(true);
    active.append(&one()).unwrap();
    let segment = active.seal().unwrap();
    segment.flush().unwrap();
    let log = segment.log_file().unwrap();
    drop_pages(&log, &(0..segment.size_bytes().into())).unwrap();
    let mut walker = segment.walk(Position::new(0)).unwrap().uncached();
    let entry = walker.next_entry().unwrap().unwrap();
    assert_eq!(entry.bytes(), one());
    assert_eq!(segment.residency().unwrap().resident_count(), 0);
}
