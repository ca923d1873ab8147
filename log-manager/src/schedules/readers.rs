//! Readers beside a writer that rolls, cuts, deletes and swaps, without a lock.

use std::collections::BTreeMap;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::replace::Replacement;
use alluvium_segment::{ActiveSegment, Birth, SegmentConfig, Suffix};
use shuttle::thread;

use super::explore;
use super::fixture::{Fixture, append, batch, read};
use crate::{ErrorCode, Isolation, Log};

/// Reads on from `next` to what is there, gapless and in order, and returns the offset after it.
fn follow(log: &Log, mut next: Offset, isolation: Isolation) -> Offset {
    loop {
        let found = read(log, next, isolation).unwrap();
        if found.is_empty() {
            return next;
        }
        for (offset, value) in found {
            assert_eq!(offset, next, "a gap, or a record again");
            assert_eq!(value, offset.get().to_be_bytes());
            next = Offset::new(offset.get() + 1);
        }
    }
}

fn append_numbered(log: &Log, count: i64) {
    for _ in 0..count {
        append(log, &log.log_end_offset().get().to_be_bytes());
    }
}

#[test]
fn a_reader_beside_appends_and_rolls_sees_every_record_once_and_in_order() {
    explore(|| {
        let Fixture { log, tasks, .. } = &Fixture::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                append_numbered(log, 2);
                log.update_high_watermark(Offset::new(1)).unwrap();
                log.roll().unwrap();
                append_numbered(log, 1);
                log.update_high_watermark(Offset::new(3)).unwrap();
                log.roll().unwrap();
                append_numbered(log, 1);
            });
            scope.spawn(|| tasks.run_due());
            for isolation in [Isolation::LogEnd, Isolation::HighWatermark] {
                scope.spawn(move || {
                    let mut next = Offset::new(0);
                    for _ in 0..4 {
                        next = follow(log, next, isolation);
                    }
                });
            }
        });
        assert_eq!(follow(log, Offset::new(0), Isolation::LogEnd), Offset::new(4));
        assert_eq!(follow(log, Offset::new(0), Isolation::HighWatermark), Offset::new(3));
    });
}

#[test]
fn a_reader_below_the_watermark_never_sees_what_a_truncation_takes_back() {
    explore(|| {
        let Fixture { log, .. } = &Fixture::new();
        append(log, b"kept");
        log.update_high_watermark(Offset::new(1)).unwrap();
        log.roll().unwrap();
        append(log, b"lost");
        append(log, b"lost");
        thread::scope(|scope| {
            scope.spawn(|| {
                log.truncate_to(Offset::new(1)).unwrap();
                append(log, b"kept");
                log.update_high_watermark(Offset::new(2)).unwrap();
                append(log, b"late");
            });
            scope.spawn(|| {
                for _ in 0..3 {
                    for (_, value) in read(log, Offset::new(0), Isolation::HighWatermark).unwrap() {
                        assert_eq!(value, b"kept");
                    }
                    // The first of the new ones, or nothing yet.
                    for (offset, value) in
                        read(log, Offset::new(1), Isolation::HighWatermark).unwrap()
                    {
                        assert_eq!((offset.get(), &value[..]), (1, &b"kept"[..]));
                    }
                }
            });
        });
    });
}

#[test]
fn a_reader_at_the_end_beside_a_truncation_sees_the_old_end_or_the_new_one() {
    explore(|| {
        let Fixture { log, .. } = &Fixture::new();
        append(log, b"0 old");
        log.roll().unwrap();
        append(log, b"1 old");
        append(log, b"2 old");
        thread::scope(|scope| {
            scope.spawn(|| {
                log.truncate_to(Offset::new(1)).unwrap();
                append(log, b"1 new");
            });
            scope.spawn(|| {
                for _ in 0..3 {
                    let found = match read(log, Offset::new(1), Isolation::LogEnd) {
                        Ok(found) => found,
                        Err(error) => panic!("offset 1 is never out of range: {error:?}"),
                    };
                    let values: Vec<&[u8]> = found.iter().map(|(_, value)| &value[..]).collect();
                    let possible: [&[&[u8]]; 4] =
                        [&[], &[b"1 old"], &[b"1 old", b"2 old"], &[b"1 new"]];
                    assert!(possible.contains(&&values[..]), "{values:?}");
                }
            });
        });
    });
}

#[test]
fn a_reader_beside_deletion_gets_its_records_or_is_told_where_the_log_begins() {
    explore(|| {
        let Fixture { log, tasks, .. } = &Fixture::new();
        for _ in 0..3 {
            append_numbered(log, 1);
            log.roll().unwrap();
        }
        log.update_high_watermark(Offset::new(3)).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                log.increment_log_start_offset(Offset::new(2)).unwrap();
                log.delete_old_segments().unwrap();
            });
            scope.spawn(|| {
                for _ in 0..3 {
                    tasks.run_due();
                }
            });
            scope.spawn(|| {
                for start in [0, 1, 2, 0] {
                    match read(log, Offset::new(start), Isolation::HighWatermark) {
                        Ok(found) => assert_eq!(found[0].1, start.to_be_bytes()),
                        Err(error) => {
                            assert_eq!(error.code(), ErrorCode::OffsetOutOfRange, "{error:?}");
                            assert!(log.log_start_offset() > Offset::new(start));
                        }
                    }
                }
            });
        });
    });
}

/// What a cleaning of the first two segments leaves: the second record alone.
fn cleaned(log: &Log) -> Replacement {
    let create = ActiveSegment::create_suffixed;
    let (config, birth) = (SegmentConfig::new(), Birth::default());
    let mut active = create(log.dir(), Offset::new(0), Suffix::Cleaned, config, birth).unwrap();
    active.append(&batch(Offset::new(1), &1_i64.to_be_bytes())).unwrap();
    let new = active.seal().unwrap();
    new.flush().unwrap();
    let old = log.cleaning_view().unwrap().segments[..2].to_vec();
    Replacement::new(log.dir(), vec![new], old).unwrap()
}

#[test]
fn a_reader_beside_a_replacement_sees_all_old_records_or_the_new_ones() {
    explore(|| {
        let Fixture { log, tasks, .. } = &Fixture::new();
        for _ in 0..2 {
            append_numbered(log, 1);
            log.roll().unwrap();
        }
        append_numbered(log, 1);
        log.update_high_watermark(Offset::new(3)).unwrap();
        let replacement = cleaned(log);
        thread::scope(|scope| {
            scope.spawn(|| log.replace_segments(replacement).unwrap());
            scope.spawn(|| {
                for _ in 0..3 {
                    tasks.run_due();
                }
            });
            scope.spawn(|| {
                for _ in 0..3 {
                    let found = read(log, Offset::new(0), Isolation::HighWatermark).unwrap();
                    assert!([0, 1].contains(&found[0].0.get()), "{found:?}");
                    let found = read(log, Offset::new(1), Isolation::HighWatermark).unwrap();
                    assert_eq!(found[0].0.get(), 1, "compaction keeps it");
                }
            });
        });
    });
}

#[test]
fn a_reader_of_the_watermark_never_moves_it_beside_the_writer() {
    explore(|| {
        let Fixture { log, .. } = &Fixture::new();
        append_numbered(log, 3);
        // Its place is not known: the first reader looks it up and publishes it.
        log.update_high_watermark(Offset::new(1)).unwrap();
        let seen: Arc<shuttle::sync::Mutex<BTreeMap<i64, i64>>> = Arc::default();
        thread::scope(|scope| {
            scope.spawn(|| {
                log.update_high_watermark(Offset::new(2)).unwrap();
                log.update_high_watermark(Offset::new(3)).unwrap();
            });
            for reader in 0..2 {
                let seen = Arc::clone(&seen);
                scope.spawn(move || {
                    let mut last = 0;
                    for _ in 0..3 {
                        let next = follow(log, Offset::new(0), Isolation::HighWatermark).get();
                        assert!(next >= last, "the watermark went back from {last} to {next}");
                        last = next;
                    }
                    seen.lock().unwrap().insert(reader, last);
                });
            }
        });
        assert_eq!(log.high_watermark(), Offset::new(3));
        assert_eq!(seen.lock().unwrap().len(), 2);
    });
}
