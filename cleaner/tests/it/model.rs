//! A log that grows, is cleaned and crashes, beside all that it must hold.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use alluvium_cleaner::{CleanError, CleanOptions, CleanReport, Cleaner, CleanerConfig, Offline};
use alluvium_record_format::{
    BatchSettings, Codec, Offset, ProducerEpoch, ProducerId, Sequence, TxnOutcome,
};
use alluvium_segment::{FileKind, Io, SegmentFileName, Suffix};
use alluvium_sparse_index::AbortedTxn;
use tempfile::TempDir;

use crate::crash::{Crash, start};
use crate::support::{
    Fixture, Found, NOW, RETENTION, aborted, batch_of, each_batch, marker, options_at, records_of,
};

/// One cleaning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// Since the last one.
    pub(crate) after_ms: i64,
    /// Keys that the map has room for.
    pub(crate) map_keys: usize,
    /// Segments at the end of the log that it must leave alone.
    pub(crate) spared: usize,
}

/// Where a crash stops a cleaning, and what the start that follows knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    /// System calls that change a file, up to the crash.
    pub(crate) changes: usize,
    /// Nothing is known to be durable.
    pub(crate) is_unclean: bool,
}

type Pairs = Vec<(String, Option<String>)>;

pub(crate) struct Model {
    fixture: Fixture,
    crash: Arc<Crash>,
    log_dir: TempDir,
    /// Bases of the segments that were ever written, the next one included.
    bases: Vec<i64>,
    next: i64,
    pending: Vec<Vec<u8>>,
    pending_aborted: Vec<AbortedTxn>,
    /// What the transactions hold that have not ended, by producer and offset.
    open: BTreeMap<i64, BTreeMap<i64, Pairs>>,
    /// Offset and value of the last committed record of each key.
    last: BTreeMap<Vec<u8>, (i64, Option<Vec<u8>>)>,
    now: i64,
    dirty: i64,
    /// The cleaning that first saw a tombstone, by its offset.
    seen: BTreeMap<i64, i64>,
}

impl Model {
    pub(crate) fn new() -> Self {
        let log_dir = tempfile::tempdir().unwrap();
        fs::create_dir(log_dir.path().join("t-0")).unwrap();
        let crash = Arc::new(Crash { left: AtomicUsize::new(usize::MAX) });
        let fixture = Fixture::at(log_dir.path(), Io::with_hook(Arc::clone(&crash) as _));
        Self {
            fixture,
            crash,
            log_dir,
            bases: vec![0],
            next: 0,
            pending: Vec::new(),
            pending_aborted: Vec::new(),
            open: BTreeMap::new(),
            last: BTreeMap::new(),
            now: NOW,
            dirty: 0,
            seen: BTreeMap::new(),
        }
    }

    pub(crate) fn batch(&mut self, codec: Codec, pairs: &[(u8, bool)]) {
        let first = self.next;
        let settings = BatchSettings::new(Offset::new(first)).codec(codec);
        let pairs = self.append(settings, pairs);
        self.commit(first, &pairs);
    }

    pub(crate) fn in_transaction(&mut self, id: i64, codec: Codec, pairs: &[(u8, bool)]) {
        let first = self.next;
        let settings = BatchSettings::new(Offset::new(first))
            .codec(codec)
            .producer(ProducerId::new(id), ProducerEpoch::new(0), Some(Sequence::new(0)))
            .transactional(true);
        let pairs = self.append(settings, pairs);
        self.open.entry(id).or_default().insert(first, pairs);
    }

    /// Ends the transaction of a producer, if it has one.
    pub(crate) fn end(&mut self, id: i64, commits: bool) {
        let Some(batches) = self.open.remove(&id) else { return };
        let outcome = if commits { TxnOutcome::Commit } else { TxnOutcome::Abort };
        self.pending.push(marker(self.next, id, outcome));
        if commits {
            for (first, pairs) in &batches {
                self.commit(*first, pairs);
            }
        } else {
            let (first, last) = (*batches.first_key_value().unwrap().0, self.next);
            // Up to where all is decided once this one is: others may be open since before.
            let stable = self.first_open().unwrap_or(last + 1);
            self.pending_aborted.push(aborted(id, first, last, stable));
        }
        self.next += 1;
    }

    pub(crate) fn roll(&mut self) {
        let base = self.end_of_segments();
        if self.next == base {
            return;
        }
        let segment = self.fixture.sealed(base, &std::mem::take(&mut self.pending));
        for txn in self.pending_aborted.drain(..) {
            segment.append_aborted(txn).unwrap();
        }
        self.bases.push(self.next);
    }

    pub(crate) fn clean(&mut self, pass: Pass) {
        let (before, options, end) = self.prepare(pass);
        let spared = self.files_from(end);
        let report = self.run(pass, &options).unwrap();
        assert!(report.next_dirty_offset.get() > self.dirty || self.dirty == end);
        self.dirty = report.next_dirty_offset.get();
        assert!(self.dirty <= end);
        assert_eq!(self.files_from(end), spared, "above {end}");
        self.check(&before);
    }

    /// Cleans up to a crash, and starts on what it left.
    pub(crate) fn crash(&mut self, pass: Pass, stop: Stop) {
        let (before, options, end) = self.prepare(pass);
        if before.is_empty() {
            return;
        }
        let spared = self.files_from(end);
        let changes = stop.changes;
        let outcome = self.run_to(changes, pass, &options);
        let io = Io::with_hook(Arc::clone(&self.crash) as _);
        let log_dir = self.log_dir.path().to_owned();
        // The old one holds the lock.
        self.fixture = Fixture::new();
        self.fixture = start(&log_dir, io, self.end_of_segments(), stop.is_unclean);
        // Only who comes to an end writes down how far the log is clean.
        if let Ok(report) = outcome {
            self.dirty = report.next_dirty_offset.get();
        }
        assert_eq!(self.logs_from(end), logs_of(spared), "above {end}");
        let is_leftover = |name: &String| {
            let suffix = SegmentFileName::parse(name).map(|name| name.suffix);
            matches!(suffix, Some(Suffix::Cleaned | Suffix::Swap))
        };
        assert!(!self.fixture.names().iter().any(is_leftover), "{:?}", self.fixture.names());
        self.check(&before);
    }

    fn append(&mut self, settings: BatchSettings, pairs: &[(u8, bool)]) -> Pairs {
        let name = |(at, (key, has_value)): (i64, &(u8, bool))| {
            (format!("key-{key}"), has_value.then(|| format!("value-{at}")))
        };
        let pairs: Pairs = (self.next..).zip(pairs).map(name).collect();
        let borrowed: Vec<_> =
            pairs.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect();
        self.pending.push(batch_of(settings, &borrowed));
        self.next += i64::try_from(pairs.len()).unwrap();
        pairs
    }

    /// Records from `first` on are committed; those of higher offsets win.
    fn commit(&mut self, first: i64, pairs: &[(String, Option<String>)]) {
        for (offset, (key, value)) in (first..).zip(pairs) {
            let last = self.last.entry(key.clone().into()).or_insert((-1, None));
            if offset > last.0 {
                *last = (offset, value.clone().map(Into::into));
            }
        }
    }

    /// Lets time pass; all that is there, how to clean it, and the first offset that stays.
    fn prepare(&mut self, pass: Pass) -> (Vec<Found>, CleanOptions, i64) {
        self.roll();
        self.now += pass.after_ms;
        let stable = self.stable();
        // A pass that a crash stopped may have merged segments: those that are there count.
        let segments = self.fixture.segments();
        let mut bases: Vec<i64> = segments.iter().map(|it| it.base_offset().get()).collect();
        bases.push(self.end_of_segments());
        let spared = bases.iter().rev().nth(pass.spared).copied().unwrap_or(0);
        // The segment that holds the first offset of an open transaction stays as a whole.
        let whole = |base: &i64| *base <= spared.min(stable);
        let end = bases.iter().copied().filter(whole).max().unwrap_or(0).max(self.dirty);
        let options = options_at(self.dirty, end, self.now)
            .segment_bytes(600)
            .high_watermark(Offset::new(self.end_of_segments()));
        (self.fixture.records(), options, end)
    }

    fn run(&self, pass: Pass, options: &CleanOptions) -> Result<CleanReport, CleanError> {
        self.run_to(usize::MAX, pass, options)
    }

    /// Cleans with so many changes to files before the process is gone.
    fn run_to(
        &self,
        changes: usize,
        pass: Pass,
        options: &CleanOptions,
    ) -> Result<CleanReport, CleanError> {
        let memory = CleanerConfig::new().map_bytes(pass.map_keys * 24).load_factor(1.0);
        let segments = self.fixture.segments();
        self.crash.left.store(changes, Ordering::Relaxed);
        let outcome = Cleaner::new(memory).clean(&segments, options, &mut Offline);
        drop(segments);
        self.crash.left.store(usize::MAX, Ordering::Relaxed);
        outcome
    }

    fn check(&mut self, before: &[Found]) {
        let has_value = |(key, (_, value)): (&Vec<u8>, &(i64, Option<Vec<u8>>))| {
            value.clone().map(|value| (key.clone(), value))
        };
        let expected: BTreeMap<_, _> = self.last.iter().filter_map(has_value).collect();
        // This reader counts open transactions as committed, so values are compared only when
        // none is open.
        if self.open.is_empty() {
            assert_eq!(self.fixture.values(), expected);
        }
        let after = self.fixture.records();
        assert!(after.is_sorted_by(|left, right| left.offset < right.offset));
        for record in &after {
            assert!(before.contains(record), "{record:?} is new");
        }
        for (key, (offset, value)) in &self.last {
            let is_there = || after.iter().any(|record| record.offset == *offset);
            assert!(value.is_none() || is_there(), "the last value of {key:?} went");
        }
        self.check_tombstones(before, &after);
        let end = self.fixture.batches().last().map(|batch| batch.1 + 1);
        assert!(end.is_none_or(|end| end == self.end_of_segments()), "ends at {end:?}");
    }

    /// The last tombstone of a key goes after its retention, counted from the cleaning that
    /// first saw it, and not before.
    fn check_tombstones(&mut self, before: &[Found], after: &[Found]) {
        let horizons = self.horizons();
        for (offset, horizon) in &horizons {
            let first_seen = *self.seen.entry(*offset).or_insert(self.now);
            assert_eq!(*horizon, first_seen + RETENTION, "of the tombstone at {offset}");
        }
        for (key, (offset, value)) in &self.last {
            let is_it = |record: &Found| record.offset == *offset;
            if value.is_some() || !before.iter().any(is_it) || after.iter().any(is_it) {
                continue;
            }
            let first_seen = self.seen.get(offset).copied();
            let is_due = first_seen.is_some_and(|seen| self.now - seen >= RETENTION);
            assert!(is_due, "the tombstone of {key:?} went, first seen at {first_seen:?}");
        }
    }

    /// When the tombstones may go that have such a time.
    fn horizons(&self) -> BTreeMap<i64, i64> {
        let mut found = BTreeMap::new();
        for segment in self.fixture.segments() {
            each_batch(&segment, |batch| {
                let Some(horizon) = batch.header().delete_horizon() else { return };
                let tombstones = records_of(batch).into_iter().filter(|it| it.value.is_none());
                found.extend(tombstones.map(|record| (record.offset, horizon.get())));
            });
        }
        found
    }

    /// The first offset that no transaction has left open.
    fn stable(&self) -> i64 {
        self.first_open().unwrap_or(self.next)
    }

    fn first_open(&self) -> Option<i64> {
        let firsts = self.open.values().filter_map(BTreeMap::first_key_value);
        firsts.map(|(first, _)| *first).min()
    }

    fn end_of_segments(&self) -> i64 {
        *self.bases.last().unwrap()
    }

    /// The files of segments from `end` on.
    fn files_from(&self, end: i64) -> BTreeMap<String, Vec<u8>> {
        let mut files = self.fixture.files();
        files.retain(|name, _| {
            SegmentFileName::parse(name).is_some_and(|name| name.offset.get() >= end)
        });
        files
    }

    /// The same without the indexes, which a start may build again.
    fn logs_from(&self, end: i64) -> BTreeMap<String, Vec<u8>> {
        logs_of(self.files_from(end))
    }
}

fn logs_of(mut files: BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<u8>> {
    files.retain(|name, _| {
        let name = SegmentFileName::parse(name).unwrap();
        name.kind == FileKind::Log && name.suffix == Suffix::None
    });
    files
}
