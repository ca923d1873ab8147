//! Readers beside the writer.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_sparse_index::{OffsetEntry, OffsetIndexFile, TimeIndexFile};

use crate::support::{Dir, at, time};

/// Entry `number` of both indexes, from 1: offset 10 for each, position 100 for each.
const ENTRIES: u32 = 20_000;

#[test]
fn a_reader_finds_every_entry_that_was_appended_before_it_looked() {
    let dir = Dir::new();
    let (offsets, times) = (dir.offset_index(0, 1 << 20), dir.time_index(0, 1 << 20));
    let (appended, barrier) = (AtomicU32::new(0), Barrier::new(4));
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            for number in 1..=ENTRIES {
                offsets.append(at(i64::from(number) * 10, number * 100)).unwrap();
                times.maybe_append(time(i64::from(number) * 7, i64::from(number) * 10)).unwrap();
                appended.store(number, Ordering::Release);
            }
        });
        for _ in 0..3 {
            scope.spawn(|| {
                barrier.wait();
                let mut step = 0;
                while appended.load(Ordering::Acquire) < ENTRIES {
                    let number = i64::from(appended.load(Ordering::Acquire));
                    step = (step + 7) % (number + 1);
                    let position = u32::try_from(step).unwrap() * 100;
                    assert_eq!(offsets.lookup(Offset::new(step * 10 + 3)), at(step * 10, position));
                    let found = times.lookup(Timestamp::new(step * 7 + 6));
                    assert_eq!(found, (step > 0).then(|| time(step * 7, step * 10)));
                }
            });
        }
    });
}

/// Truncation, shrinking, growing and new entries in the same slots: a reader sees the entries
/// of one time only, and the pages that it stands on never go away.
#[test]
fn a_reader_never_mixes_entries_of_two_times_nor_meets_a_missing_page() {
    const PER_ROUND: u32 = 3_000;
    let dir = Dir::new();
    let (offsets, times) = (dir.offset_index(0, 1 << 16), dir.time_index(0, 1 << 16));
    let (done, barrier) = (AtomicBool::new(false), Barrier::new(4));
    // In round R, entry N has position 100 N + R, and timestamp 1000 N + R.
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            for round in 0..60 {
                for number in 1..=PER_ROUND {
                    let offset = i64::from(number) * 10;
                    offsets.append(at(offset, number * 100 + round)).unwrap();
                    let timestamp = i64::from(number) * 1000 + i64::from(round);
                    times.maybe_append(time(timestamp, offset)).unwrap();
                }
                let cut = Offset::new(i64::from(round % 3) * 10_000);
                // Entries that stay must be of the next round too, so all go in the end.
                offsets.truncate_to(cut).unwrap();
                times.truncate_to(cut).unwrap();
                offsets.trim_to_valid_size().unwrap();
                times.trim_to_valid_size().unwrap();
                offsets.reset(1 << 16).unwrap();
                times.reset(1 << 16).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        for reader in 0..3 {
            let (offsets, times, barrier, done) = (&offsets, &times, &barrier, &done);
            scope.spawn(move || {
                barrier.wait();
                let mut target = reader;
                while !done.load(Ordering::Acquire) {
                    target = (target * 31 + 17) % 30_020;
                    check_offsets(offsets, target);
                    check_times(times, target * 100);
                }
            });
        }
    });
}

fn check_offsets(index: &OffsetIndexFile, target: i64) {
    let (floor, next) = index.lookup_pair(Offset::new(target));
    assert!(floor.is_none_or(|floor| floor.offset.get() <= target));
    assert!(next.is_none_or(|next| next.offset.get() > target));
    let (Some(floor), Some(next)) = (floor, next) else { return };
    let round = |entry: OffsetEntry| i64::from(entry.position.get()) - entry.offset.get() * 10;
    assert_eq!(round(floor), round(next), "{floor:?} {next:?}");
    assert_eq!(next.offset.get(), floor.offset.get() + 10);
}

fn check_times(index: &TimeIndexFile, target: i64) {
    let Some(found) = index.lookup(Timestamp::new(target)) else { return };
    let round = found.timestamp.get() - found.offset.get() * 100;
    assert!((0..60).contains(&round), "{found:?}");
    assert!(found.timestamp.get() <= target);
}
