//! Cleaning beside writers and readers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use alluvium_cleaner::Outcome;
use alluvium_log_manager::{CleaningGate, Isolation, Log, NewLog};
use alluvium_record_format::{Entries, Entry, Offset, Position};

use crate::broker::{Broker, append, bases, settings, t, values};
use crate::support::records_of;

const KEYS: u64 = 20;
const APPENDS: u64 = 3000;
const APPENDS_A_SEGMENT: u64 = 25;

/// Reads on from `next` to the high watermark into `seen`: offsets rise, checksums are right, and
/// the value of a key never grows old.
fn read_on(log: &Log, mut next: Offset, seen: &mut BTreeMap<Vec<u8>, u64>) -> Offset {
    loop {
        let fetched = log.read(next, 2048, Isolation::HighWatermark, true).unwrap();
        let Some(slice) = fetched.slice.filter(|slice| !slice.is_empty()) else { return next };
        let mut bytes = Vec::new();
        slice.read_to(&mut bytes).unwrap();
        for entry in Entries::new(&bytes, Position::new(0)).map_while(Result::ok) {
            let Entry::Batch(batch) = entry else { panic!("an old format") };
            batch.verify_crc().unwrap();
            if batch.header().last_offset() < next {
                continue;
            }
            for record in records_of(&batch) {
                if record.offset < next.get() {
                    continue;
                }
                let value = String::from_utf8(record.value.unwrap()).unwrap().parse().unwrap();
                let before = seen.insert(record.key.unwrap(), value);
                assert!(before.is_none_or(|before| before < value), "an old value came back");
            }
            next = batch.header().next_offset();
        }
    }
}

/// Reads the log from its start again and again; what the last read found that began after the
/// last append.
fn read_again(log: &Log, done: &AtomicBool) -> BTreeMap<Vec<u8>, u64> {
    loop {
        let is_last = done.load(Ordering::Acquire);
        let mut seen = BTreeMap::new();
        let mut next = Offset::new(0);
        for _ in 0..3 {
            next = read_on(log, next, &mut seen);
        }
        if is_last {
            return seen;
        }
    }
}

/// Every reader, whenever it began, ends with the last value of every key.
#[test]
fn readers_see_the_right_values_while_the_log_is_cleaned() {
    let broker = Broker::new(1);
    let log = broker.logs.get_or_create(&t(0), &NewLog::new()).unwrap();
    let (done, cleaned) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2).map(|_| scope.spawn(|| read_again(&log, &done))).collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                match broker.cleaner.tick().outcome {
                    Outcome::Cleaned(_) => {
                        cleaned.fetch_add(1, Ordering::Relaxed);
                    }
                    Outcome::Idle => thread::yield_now(),
                    other => panic!("{other:?}"),
                }
            }
        });
        for count in 0..APPENDS {
            append(&log, &[(&format!("k{}", count % KEYS), Some(&*count.to_string()))]);
            if count % APPENDS_A_SEGMENT == 0 {
                log.roll().unwrap();
            }
        }
        done.store(true, Ordering::Release);
        let expected: BTreeMap<Vec<u8>, u64> = (APPENDS - KEYS..APPENDS)
            .map(|count| (format!("k{}", count % KEYS).into_bytes(), count))
            .collect();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), expected);
        }
    });
    assert!(cleaned.load(Ordering::Relaxed) > 0);
    assert!(bases(&log).len() < usize::try_from(APPENDS / APPENDS_A_SEGMENT).unwrap());
}

/// Waits until `what` holds, for half a minute at most.
fn eventually(what: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !what() {
        assert!(Instant::now() < deadline, "it never came");
        thread::yield_now();
    }
}

#[test]
fn threads_clean_all_logs_and_come_and_go() {
    let broker = Broker::new(1);
    for number in 0..6 {
        broker.dirty(number, 3);
    }
    assert_eq!(broker.cleaner.stats().dead_threads, 0);
    broker.cleaner.reconfigure(settings().threads(3)).unwrap();
    broker.cleaner.start_threads().unwrap();
    eventually(|| (0..6).all(|number| broker.checkpoint(1, &t(number)) == Some(3)));
    broker.cleaner.reconfigure(settings().threads(1)).unwrap();
    broker.dirty(7, 3);
    eventually(|| broker.checkpoint(1, &t(7)) == Some(3));
    broker.cleaner.reconfigure(settings().threads(2)).unwrap();
    eventually(|| broker.cleaner.stats().dead_threads == 0);
    broker.cleaner.stop();
    broker.dirty(8, 3);
    assert_eq!(broker.checkpoint(1, &t(8)), None);
    broker.cleaner.start_threads().unwrap();
    eventually(|| broker.checkpoint(1, &t(8)) == Some(3));
}

/// A thread that was told to end, and is wanted again before it has, is not taken for one that
/// stays.
#[test]
fn threads_that_are_wanted_again_at_once_come_back() {
    let broker = Broker::new(1);
    broker.cleaner.reconfigure(settings().threads(2)).unwrap();
    broker.cleaner.start_threads().unwrap();
    for _ in 0..300 {
        broker.cleaner.reconfigure(settings().threads(0)).unwrap();
        assert!(!broker.gate.runs_retention());
        broker.cleaner.reconfigure(settings().threads(2)).unwrap();
        assert!(broker.gate.runs_retention());
        assert_eq!(broker.cleaner.stats().dead_threads, 0);
    }
    broker.dirty(0, 3);
    eventually(|| broker.checkpoint(1, &t(0)) == Some(3));
}

/// The rate is a byte a second: only an end that is asked for gets the cleaning out of its wait.
#[test]
fn a_log_that_is_deleted_ends_the_cleaning_that_waits_for_its_rate() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    broker.cleaner.reconfigure(settings().max_bytes_per_second(Some(1))).unwrap();
    broker.cleaner.start_threads().unwrap();
    eventually(|| broker.gate.in_progress() == [t(0)]);
    broker.logs.delete(&t(0)).unwrap();
    assert!(broker.gate.in_progress().is_empty());
    assert!(!crate::broker::files(&log).iter().any(|name| name.ends_with(".cleaned")));
    assert!(broker.cleaner.uncleanable().is_empty());
}

#[test]
fn a_stop_ends_a_cleaning_that_waits_for_its_rate() {
    let broker = Broker::new(1);
    let log = broker.dirty(0, 3);
    broker.cleaner.reconfigure(settings().max_bytes_per_second(Some(1))).unwrap();
    broker.cleaner.start_threads().unwrap();
    eventually(|| broker.gate.in_progress() == [t(0)]);
    broker.cleaner.stop();
    assert!(broker.gate.in_progress().is_empty());
    assert_eq!(values(&log)[&b"k"[..]], b"2");
    assert!(!broker.gate.is_paused(&t(0)));
    assert!(!broker.gate.runs_retention());
}
