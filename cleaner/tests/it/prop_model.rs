//! Random histories, cleaned again and again, against a map.

use std::collections::{BTreeMap, BTreeSet};

use alluvium_cleaner::CleanerConfig;
use alluvium_record_format::{BatchSettings, Codec, Offset, TxnOutcome};
use proptest::prelude::*;

use crate::support::{
    Fixture, Found, NOW, RETENTION, aborted, batch_of, marker, options_at, transactional,
};

#[derive(Clone, Debug)]
enum Step {
    /// Records in a batch of this codec: key, and a value or a tombstone.
    Batch(Codec, Vec<(u8, bool)>),
    /// A transaction of its own, committed or aborted.
    Txn(Vec<(u8, bool)>, bool),
    Roll,
    /// A cleaning after so many milliseconds, with a map for so many keys.
    Clean(i64, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pairs = || prop::collection::vec((0_u8..8, prop::bool::weighted(0.8)), 1..6);
    let codec = prop::sample::select(vec![
        Codec::None,
        Codec::Gzip,
        Codec::Snappy,
        Codec::Lz4,
        Codec::Zstd,
    ]);
    let step = prop_oneof![
        4 => (codec, pairs()).prop_map(|(codec, pairs)| Step::Batch(codec, pairs)),
        2 => (pairs(), any::<bool>()).prop_map(|(pairs, commit)| Step::Txn(pairs, commit)),
        2 => Just(Step::Roll),
        1 => (0..RETENTION, 1_usize..12).prop_map(|(ms, keys)| Step::Clean(ms, keys)),
    ];
    prop::collection::vec(step, 1..40)
}

/// A log that grows, and what it must hold.
struct Model {
    fixture: Fixture,
    base: i64,
    next: i64,
    pending: Vec<Vec<u8>>,
    pending_aborted: Vec<(i64, i64, i64)>,
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    now: i64,
    dirty: i64,
    /// The offsets of committed tombstones.
    tombstones: BTreeSet<i64>,
    /// When a cleaning first saw each of them.
    seen: BTreeMap<i64, i64>,
}

impl Model {
    fn new() -> Self {
        Self {
            fixture: Fixture::new(),
            base: 0,
            next: 0,
            pending: Vec::new(),
            pending_aborted: Vec::new(),
            values: BTreeMap::new(),
            now: NOW,
            dirty: 0,
            tombstones: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    fn named(&self, pairs: &[(u8, bool)]) -> Vec<(String, Option<String>)> {
        let name = |(at, (key, has_value)): (i64, &(u8, bool))| {
            (format!("key-{key}"), has_value.then(|| format!("value-{at}")))
        };
        (self.next..).zip(pairs).map(name).collect()
    }

    /// Records from `first` on are committed.
    fn apply(&mut self, first: i64, pairs: &[(String, Option<String>)]) {
        for (offset, (key, value)) in (first..).zip(pairs) {
            if let Some(value) = value {
                self.values.insert(key.clone().into(), value.clone().into());
            } else {
                self.values.remove(key.as_bytes());
                self.tombstones.insert(offset);
            }
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Batch(codec, pairs) => {
                let pairs = self.named(pairs);
                let settings = BatchSettings::new(Offset::new(self.next)).codec(*codec);
                self.pending.push(batch_of(settings, &borrowed(&pairs)));
                self.apply(self.next, &pairs);
                self.next += i64::try_from(pairs.len()).unwrap();
            }
            Step::Txn(pairs, commit) => self.transaction(pairs, *commit),
            Step::Roll => self.roll(),
            Step::Clean(ms, keys) => self.clean(*ms, *keys),
        }
    }

    fn transaction(&mut self, pairs: &[(u8, bool)], commit: bool) {
        let pairs = self.named(pairs);
        let first = self.next;
        self.pending.push(transactional(first, 7, &borrowed(&pairs)));
        self.next += i64::try_from(pairs.len()).unwrap();
        let outcome = if commit { TxnOutcome::Commit } else { TxnOutcome::Abort };
        self.pending.push(marker(self.next, 7, outcome));
        if commit {
            self.apply(first, &pairs);
        } else {
            self.pending_aborted.push((7, first, self.next));
        }
        self.next += 1;
    }

    fn roll(&mut self) {
        if self.next == self.base {
            return;
        }
        let segment = self.fixture.sealed(self.base, &std::mem::take(&mut self.pending));
        for (id, first, last) in self.pending_aborted.drain(..) {
            segment.append_aborted(aborted(id, first, last, last + 1)).unwrap();
        }
        self.base = self.next;
    }

    fn clean(&mut self, ms: i64, keys: usize) {
        self.roll();
        self.now += ms;
        let before = self.fixture.records();
        let options = options_at(self.dirty, self.base, self.now)
            .segment_bytes(600)
            .high_watermark(Offset::new(self.base));
        let memory = CleanerConfig::new().map_bytes(keys * 24).load_factor(1.0);
        let report = self.fixture.clean_with(memory, &options).unwrap();
        assert!(report.next_dirty_offset.get() > self.dirty || self.dirty == self.base);
        self.dirty = report.next_dirty_offset.get();
        self.check(&before);
    }

    fn check(&mut self, before: &[Found]) {
        let after = self.fixture.records();
        assert_eq!(self.fixture.values(), self.values);
        assert!(after.is_sorted_by(|left, right| left.offset < right.offset));
        for record in &after {
            assert!(before.contains(record), "{record:?} is new");
        }
        for record in before.iter().filter(|it| self.tombstones.contains(&it.offset)) {
            let first_seen = *self.seen.entry(record.offset).or_insert(self.now);
            let is_newest =
                !before.iter().any(|it| it.key == record.key && it.offset > record.offset);
            if is_newest && !after.contains(record) {
                assert!(self.now - first_seen >= RETENTION, "{record:?} went early");
            }
        }
        let end = self.fixture.batches().last().map(|batch| batch.1 + 1);
        assert!(end.is_none_or(|end| end == self.base), "ends at {end:?}");
    }
}

fn borrowed(pairs: &[(String, Option<String>)]) -> Vec<(&str, Option<&str>)> {
    pairs.iter().map(|(key, value)| (key.as_str(), value.as_deref())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_last_committed_value_of_every_key_survives(steps in steps()) {
        let mut model = Model::new();
        for step in &steps {
            model.step(step);
        }
        for _ in 0..3 {
            model.clean(RETENTION, 100);
        }
    }
}
