//! Readers beside the writer.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_sparse_index::{OffsetEntry, OffsetIndexFile, TimeEntry, TimeIndexFile};

use crate::support::{Dir, at, time};

/// Tells the readers that the writer is at its end, also where it panicked: they go on for ever
/// otherwise, and so does the test.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Entry `number` of both indexes, from 1: offset 10 for each, position 100 for each.
const ENTRIES: u32 = 20_000;

#[test]
fn a_reader_finds_every_entry_that_was_appended_before_it_looked() {
    let dir = Dir::new();
    let (offsets, times) = (dir.offset_index(0, 1 << 20), dir.time_index(0, 1 << 20));
    let (appended, barrier) = (AtomicU32::new(0), Barrier::new(4));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(&done);
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
                while !done.load(Ordering::Acquire) {
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

/// Entry `number` of round `round`: every round has other offsets, and its number in the values.
fn entries(number: u32, round: u32) -> (OffsetEntry, TimeEntry) {
    let offset = i64::from(number * (10 + round % 4));
    (at(offset, number * 100 + round), time(i64::from(number) * 1000 + i64::from(round), offset))
}

/// Truncation, shrinking, growing and new entries in the same slots: a reader sees the entries
/// of one time only, and the pages that it stands on never go away.
#[test]
fn a_reader_never_mixes_entries_of_two_times_nor_meets_a_missing_page() {
    const PER_ROUND: u32 = 10_000; // enough for the look-ups of a large index
    let dir = Dir::new();
    let (offsets, times) = (dir.offset_index(0, 1 << 18), dir.time_index(0, 1 << 18));
    let (done, barrier) = (AtomicBool::new(false), Barrier::new(4));
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ends = Ends(&done);
            barrier.wait();
            for round in 0..30 {
                for number in 1..=PER_ROUND {
                    let (offset_entry, time_entry) = entries(number, round);
                    offsets.append(offset_entry).unwrap();
                    times.maybe_append(time_entry).unwrap();
                }
                let cut = Offset::new(i64::from(round % 3) * 40_000);
                offsets.truncate_to(cut).unwrap();
                times.truncate_to(cut).unwrap();
                offsets.trim_to_valid_size().unwrap();
                times.trim_to_valid_size().unwrap();
                // Entries that stayed are of the wrong round.
                offsets.reset(1 << 18).unwrap();
                times.reset(1 << 18).unwrap();
            }
        });
        for reader in 0..3 {
            let (offsets, times, barrier, done) = (&offsets, &times, &barrier, &done);
            scope.spawn(move || {
                barrier.wait();
                let mut target = reader;
                while !done.load(Ordering::Acquire) {
                    target = (target * 31 + 17) % 100_020;
                    check_offsets(offsets, target);
                    check_times(times, target * 100);
                }
            });
        }
    });
}

fn check_offsets(index: &OffsetIndexFile, target: i64) {
    let (floor, next) = index.lookup_pair(Offset::new(target));
    assert!(floor.is_none_or(|floor| floor.offset.get() <= target), "{floor:?} for {target}");
    assert!(next.is_none_or(|next| next.offset.get() > target), "{next:?} for {target}");
    let numbers = [floor, next].map(|entry| {
        let entry = entry?;
        let (number, round) = (entry.position.get() / 100, entry.position.get() % 100);
        assert_eq!(entry, entries(number, round).0);
        Some((number, round))
    });
    if let [Some(floor), Some(next)] = numbers {
        assert_eq!(next, (floor.0 + 1, floor.1), "for {target}");
    }
}

fn check_times(index: &TimeIndexFile, target: i64) {
    let Some(found) = index.lookup(Timestamp::new(target)) else { return };
    assert!(found.timestamp.get() <= target);
    let [number, round] = [found.timestamp.get() / 1000, found.timestamp.get() % 1000];
    assert_eq!(found, entries(number.try_into().unwrap(), round.try_into().unwrap()).1);
}
