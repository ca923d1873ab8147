//! Segments that others take the place of, under a log in use.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use alluvium_log_manager::{Isolation, Log, LogError};
use alluvium_record_format::Offset;
use alluvium_segment::replace::Replacement;
use alluvium_segment::{ActiveSegment, Birth, IoCall, IoVerdict, Segment, SegmentConfig, Suffix};

use crate::batches::{NOW, at_offset, batch, l3, sequenced};
use crate::disk::{Disk, append, bases, follow, read};

/// A log with segments 0, 3 and 6, and an empty active one at 9; watermark at the end.
pub(crate) fn three_sealed(disk: &Disk) -> Log {
    let log = disk.open_clean();
    for each in l3() {
        follow(&log, &each);
        log.roll().unwrap();
    }
    log.update_high_watermark(log.log_end_offset()).unwrap();
    disk.tasks.run_due();
    log
}

/// A finished segment with the suffix `.cleaned` and one record at each of these offsets.
fn cleaned(log: &Log, base: i64, offsets: &[i64]) -> Arc<Segment> {
    let mut active = ActiveSegment::create_suffixed(
        log.dir(),
        Offset::new(base),
        Suffix::Cleaned,
        SegmentConfig::new(),
        Birth::at(NOW),
    )
    .unwrap();
    for offset in offsets {
        active.append(&at_offset(batch(&[(None, NOW.get())]), *offset)).unwrap();
    }
    let segment = active.seal().unwrap();
    segment.flush().unwrap();
    segment
}

/// Segments 0 and 3 by one that holds offsets 2 and 4.
pub(crate) fn first_two(log: &Log) -> Replacement {
    let old = log.cleaning_view().unwrap().segments[..2].to_vec();
    Replacement::new(log.dir(), vec![cleaned(log, 0, &[2, 4])], old).unwrap()
}

/// The batches of the whole log.
fn all(log: &Log) -> Vec<(i64, i64)> {
    let mut found = Vec::new();
    let mut next = log.log_start_offset().get();
    while next < log.log_end_offset().get() {
        found.extend(read(log, next).unwrap());
        next = found.last().map_or(i64::MAX, |(_, last)| last + 1);
    }
    found
}

#[test]
fn reads_after_a_replacement_see_the_new_segments_and_those_before_go_on() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    let before = log.read(Offset::new(0), 1 << 20, Isolation::LogEnd, true).unwrap();
    log.replace_segments(first_two(&log)).unwrap();

    assert_eq!(all(&log), [(2, 2), (4, 4), (6, 8)]);
    assert_eq!(bases(&log), [0, 6, 9]);
    assert_eq!(
        log.size_bytes(),
        log.segments().iter().map(|(_, size)| u64::from(*size)).sum::<u64>()
    );
    disk.clock.advance_ms(1000);
    disk.tasks.run_due();
    let old = disk.names().into_iter().filter(|name| name.contains('.') && !is_final(name));
    assert_eq!(old.collect::<Vec<_>>(), [""; 0], "the old files are gone");
    assert!(!disk.names().contains(&"00000000000000000003.snapshot".to_owned()));
    let mut bytes = Vec::new();
    before.slice.unwrap().read_to(&mut bytes).unwrap();
    assert_eq!(bytes, l3()[0], "who held the old bytes still reads them");

    append(&log, &batch(&[(None, NOW.get())]));
    drop(log);
    let log = disk.open_unclean();
    assert_eq!(all(&log), [(2, 2), (4, 4), (6, 8), (9, 9)]);
}

fn is_final(name: &str) -> bool {
    !["cleaned", "swap", "deleted"].iter().any(|suffix| name.ends_with(suffix))
}

#[test]
fn where_retention_was_quicker_nothing_changes_and_the_new_files_go() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    let replacement = first_two(&log);
    log.increment_log_start_offset(Offset::new(3)).unwrap();
    log.delete_old_segments().unwrap();
    let names = disk.names();
    assert!(names.contains(&"00000000000000000000.log.cleaned".to_owned()), "{names:?}");
    let refused = log.replace_segments(replacement).unwrap_err();
    assert!(matches!(refused, LogError::SegmentsChanged { .. }), "{refused:?}");
    assert_eq!(bases(&log), [3, 6, 9]);
    assert_eq!(all(&log), [(3, 5), (6, 8)]);
    assert!(!disk.names().iter().any(|name| name.ends_with(".cleaned")), "{:?}", disk.names());
}

#[test]
fn neither_the_active_segment_nor_offsets_outside_the_old_ones_are_replaced() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    let segments = log.cleaning_view().unwrap().segments;
    let cases: [(i64, &[usize]); 5] =
        [(6, &[2, 3]), (6, &[0, 1]), (0, &[1]), (0, &[0, 2]), (0, &[])];
    for (base, old) in cases {
        let old = old.iter().map(|index| Arc::clone(&segments[*index])).collect();
        let new = vec![cleaned(&log, base, &[base])];
        let refused = log.replace_segments(Replacement::new(log.dir(), new, old).unwrap());
        assert!(matches!(refused, Err(LogError::SegmentsChanged { .. })), "{refused:?}");
    }
    assert_eq!(all(&log), [(0, 2), (3, 5), (6, 8)]);
}

/// Whatever call fails, the directory goes offline, and the next start has the old records or
/// the new ones, whole.
#[test]
fn a_replacement_that_fails_at_any_call_leaves_the_old_or_the_new_segments() {
    for failing in 0.. {
        let disk = Disk::new();
        let log = three_sealed(&disk);
        let replacement = first_two(&log);
        let mut left = failing;
        disk.faults.set(move |call| match call {
            IoCall::Rename { .. } | IoCall::SyncDir { .. } if left == 0 => {
                IoVerdict::Fail(io::Error::other("a fault"))
            }
            IoCall::Rename { .. } | IoCall::SyncDir { .. } => {
                left -= 1;
                IoVerdict::Proceed
            }
            _ => IoVerdict::Proceed,
        });
        let replaced = log.replace_segments(replacement);
        disk.faults.clear();
        if replaced.is_ok() {
            assert!(failing > 12, "{failing}");
            return;
        }
        assert!(matches!(replaced, Err(LogError::Offline { .. })), "{replaced:?}");
        assert!(matches!(read(&log, 6), Err(LogError::Offline { .. })));
        drop(log);
        let log = disk.open_unclean();
        let found = all(&log);
        let (old, new) = ([(0, 2), (3, 5), (6, 8)], [(2, 2), (4, 4), (6, 8)]);
        assert!(found == old || found == new, "after {failing} calls: {found:?}");
    }
}

/// Readers and the writer beside fifty replacements; every read holds whole batches in order.
#[test]
fn readers_never_miss_a_record_that_stays() {
    let disk = Disk::with(|config| config.file_delete_delay_ms(0));
    let log = three_sealed(&disk);
    let (done, reads) = (AtomicBool::new(false), Mutex::new(0_u32));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let found = all(&log);
                    assert!(found.is_sorted(), "{found:?}");
                    assert!(found.iter().any(|(first, last)| *first <= 2 && 2 <= *last));
                    assert!(found.contains(&(6, 8)), "{found:?}");
                    *reads.lock().unwrap() += 1;
                }
            });
        }
        for _ in 0..50 {
            let sealed = log.segment_count() - 2;
            let old = log.cleaning_view().unwrap().segments[..sealed].to_vec();
            let new = vec![cleaned(&log, 0, &[2, 4])];
            log.replace_segments(Replacement::new(log.dir(), new, old).unwrap()).unwrap();
            disk.tasks.run_due();
            append(&log, &batch(&[(None, NOW.get())]));
        }
        let seen = *reads.lock().unwrap();
        while *reads.lock().unwrap() == seen {
            thread::yield_now();
        }
        done.store(true, Ordering::Release);
    });
    assert_eq!(log.log_end_offset(), Offset::new(59));
}

/// Found by `cargo xtask crash`: a record went because of a newer one of its key, or because of the
/// last word of its producer, which a power failure took away again.
#[test]
fn what_a_cleaning_relies_on_is_durable_before_the_old_segments_go() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    append(&log, &sequenced(1, 0, &[NOW.get()]));
    // What flushes behind a roll has not run.
    let active = log.roll().unwrap();
    let end = log.log_end_offset();
    let replacement = first_two(&log);
    disk.faults.calls.lock().unwrap().clear();
    log.replace_segments(replacement).unwrap();
    assert_eq!(log.recovery_point(), end);
    let calls = disk.faults.calls.lock().unwrap();
    let at = |wanted: &str| calls.iter().position(|call| call == wanted).unwrap();
    let renamed = calls.iter().position(|call| call.starts_with("rename")).unwrap();
    for file in ["00000000000000000009.log".to_owned(), format!("{active:0>20}.snapshot")] {
        let file = format!("sync {file}");
        assert!(at(&file) < renamed, "{file} in {calls:?}");
    }
}

/// A flush that finds no record to sync has synced the bytes of the snapshot, not its name.
#[test]
fn the_name_of_a_snapshot_is_durable_before_a_cleaning_relies_on_it() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    append(&log, &sequenced(1, 0, &[NOW.get()]));
    disk.tasks.run_due();
    let replacement = first_two(&log);
    log.flush(false).unwrap();
    disk.faults.calls.lock().unwrap().clear();
    let active = log.roll().unwrap();
    disk.tasks.run_due();
    log.replace_segments(replacement).unwrap();
    let calls = disk.faults.calls.lock().unwrap();
    let at = |wanted: &str| calls.iter().position(|call| call == wanted).unwrap();
    let renamed = calls.iter().position(|call| call.contains(".swap")).unwrap();
    let (kept, named) = (at(&format!("sync {active:0>20}.snapshot")), at("sync-dir"));
    assert!(kept < named && named < renamed, "{calls:?}");
}

#[test]
fn a_cleaner_sees_bounds_and_producers() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    append(&log, &sequenced(7, 0, &[NOW.get(), NOW.get()]));
    let view = log.cleaning_view().unwrap();
    assert_eq!(view.active().unwrap().base_offset(), Offset::new(9));
    assert_eq!(view.segments.len(), 4);
    assert_eq!((view.log_start_offset, view.log_end_offset), (Offset::new(0), Offset::new(11)));
    assert_eq!((view.high_watermark, view.last_stable_offset), (Offset::new(9), Offset::new(9)));
    let producers = log.active_producers().unwrap();
    let last: Vec<_> = producers.iter().filter_map(|producer| producer.last_batch()).collect();
    assert_eq!(last.iter().map(|batch| batch.last_offset.get()).collect::<Vec<_>>(), [10]);
    log.close().unwrap();
    assert!(matches!(log.cleaning_view(), Err(LogError::Closed { .. })));
}
