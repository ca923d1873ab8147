//! Random operations against a `BTreeMap`.

use std::collections::BTreeMap;

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{OffsetIndexFile, TimeIndexFile};
use proptest::prelude::*;

use crate::support::{Dir, at, time};

const BASE: i64 = 1_000;
const MAX_BYTES: u32 = 2_000;

#[derive(Clone, Debug)]
enum Op {
    /// Append this far above the last entry; 0 is out of order.
    Append {
        step: i64,
    },
    TruncateTo {
        offset: i64,
    },
    Resize {
        bytes: u32,
    },
    Trim,
    Reset,
    Reopen,
    ReopenSealed,
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0_i64..6).prop_map(|step| Op::Append { step }),
        2 => (BASE - 5..BASE + 400).prop_map(|offset| Op::TruncateTo { offset }),
        2 => (0..MAX_BYTES + 100).prop_map(|bytes| Op::Resize { bytes }),
        1 => Just(Op::Trim),
        1 => Just(Op::Reset),
        1 => Just(Op::Reopen),
        1 => Just(Op::ReopenSealed),
    ]
}

/// What both kinds of index share in this test.
trait Index {
    const ENTRY_BYTES: u32;
    fn open(dir: &Dir) -> Self;
    fn sealed_entries(dir: &Dir) -> Vec<(i64, i64)>;
    fn append(&self, offset: i64, value: i64) -> bool;
    fn truncate_to(&self, offset: i64);
    fn resize(&self, bytes: u32) -> bool;
    fn trim(&self);
    fn reset(&self);
    fn entries(&self) -> Vec<(i64, i64)>;
    fn room(&self) -> (usize, usize, u64);
    fn check_look_ups(&self, model: &BTreeMap<i64, i64>);
}

fn position(value: i64) -> u32 {
    u32::try_from(value).unwrap()
}

impl Index for OffsetIndexFile {
    const ENTRY_BYTES: u32 = 8;

    fn open(dir: &Dir) -> Self {
        let path = dir.path("a.index");
        if path.exists() {
            return Self::open(&path, Offset::new(BASE), MAX_BYTES, &dir.permit).unwrap();
        }
        Self::create(&path, Offset::new(BASE), MAX_BYTES, &dir.permit).unwrap()
    }

    fn sealed_entries(dir: &Dir) -> Vec<(i64, i64)> {
        let path = dir.path("a.index");
        Self::open_sealed(&path, Offset::new(BASE), &dir.permit).unwrap().entries()
    }

    fn append(&self, offset: i64, value: i64) -> bool {
        self.append(at(offset, position(value))).is_ok()
    }

    fn truncate_to(&self, offset: i64) {
        self.truncate_to(Offset::new(offset)).unwrap();
    }

    fn resize(&self, bytes: u32) -> bool {
        self.resize(bytes).is_ok()
    }

    fn trim(&self) {
        self.trim_to_valid_size().unwrap();
    }

    fn reset(&self) {
        self.reset(MAX_BYTES).unwrap();
    }

    fn entries(&self) -> Vec<(i64, i64)> {
        self.iter().map(|entry| (entry.offset.get(), entry.position.get().into())).collect()
    }

    fn room(&self) -> (usize, usize, u64) {
        (self.len(), self.max_entries(), self.size_bytes())
    }

    fn check_look_ups(&self, model: &BTreeMap<i64, i64>) {
        for target in (BASE - 3..BASE + 400).step_by(3) {
            let floor = model.range(..=target).next_back();
            let expected =
                floor.map_or(at(BASE, 0), |(offset, value)| at(*offset, position(*value)));
            assert_eq!(self.lookup(Offset::new(target)), expected);
            let (floor_found, next_found) = self.lookup_pair(Offset::new(target));
            assert_eq!(floor_found.map(|entry| entry.offset.get()), floor.map(|entry| *entry.0));
            let next = model.range(target + 1..).next().map(|entry| *entry.0);
            assert_eq!(next_found.map(|entry| entry.offset.get()), next);
            // Positions rise with offsets, so the bound is the first entry that is not below;
            // an equal first entry is passed over.
            let wanted = target * 10;
            let mut above = model.iter().filter(|entry| *entry.1 >= wanted);
            let is_first = model.first_key_value().is_some_and(|entry| *entry.1 == wanted);
            let bound = if is_first { above.nth(1) } else { above.next() };
            let found = self.upper_bound_offset(Position::new(position(wanted) - 60), 60);
            assert_eq!(found.map(Offset::get), bound.map(|entry| *entry.0));
        }
    }
}

impl Index for TimeIndexFile {
    const ENTRY_BYTES: u32 = 12;

    fn open(dir: &Dir) -> Self {
        let path = dir.path("a.timeindex");
        if path.exists() {
            return Self::open(&path, Offset::new(BASE), MAX_BYTES, &dir.permit).unwrap();
        }
        Self::create(&path, Offset::new(BASE), MAX_BYTES, &dir.permit).unwrap()
    }

    fn sealed_entries(dir: &Dir) -> Vec<(i64, i64)> {
        let path = dir.path("a.timeindex");
        Self::open_sealed(&path, Offset::new(BASE), &dir.permit).unwrap().entries()
    }

    fn append(&self, offset: i64, value: i64) -> bool {
        self.append_final(time(value, offset)).is_ok_and(|appended| appended)
    }

    fn truncate_to(&self, offset: i64) {
        self.truncate_to(Offset::new(offset)).unwrap();
    }

    fn resize(&self, bytes: u32) -> bool {
        self.resize(bytes).is_ok()
    }

    fn trim(&self) {
        self.trim_to_valid_size().unwrap();
    }

    fn reset(&self) {
        self.reset(MAX_BYTES).unwrap();
    }

    fn entries(&self) -> Vec<(i64, i64)> {
        self.iter().map(|entry| (entry.offset.get(), entry.timestamp.get())).collect()
    }

    fn room(&self) -> (usize, usize, u64) {
        (self.len(), self.max_entries(), self.size_bytes())
    }

    fn check_look_ups(&self, model: &BTreeMap<i64, i64>) {
        for target in (BASE - 3..BASE + 400).step_by(3) {
            let floor = model.iter().take_while(|entry| *entry.1 <= target * 10).last();
            let expected = floor.map(|(offset, value)| time(*value, *offset));
            assert_eq!(self.lookup(Timestamp::new(target * 10)), expected);
        }
    }
}

fn run<I: Index>(ops: &[Op]) {
    let dir = Dir::new();
    let mut index = I::open(&dir);
    let mut model = BTreeMap::new();
    let whole = |bytes: u32| u64::from(bytes - bytes % I::ENTRY_BYTES);
    let mut file_bytes = whole(MAX_BYTES);
    for op in ops {
        let used = u64::from(I::ENTRY_BYTES) * u64::try_from(model.len()).unwrap();
        match *op {
            Op::Append { step } => {
                let last = model.last_key_value().map_or(BASE, |entry: (&i64, &i64)| *entry.0);
                let fits = used + u64::from(I::ENTRY_BYTES) <= file_bytes;
                let offset = last + step;
                let appended = index.append(offset, offset * 10);
                assert_eq!(appended, fits && (step > 0 || model.is_empty()), "{op:?}");
                if appended {
                    model.insert(offset, offset * 10);
                }
            }
            Op::TruncateTo { offset } => {
                index.truncate_to(offset);
                model.split_off(&offset);
            }
            Op::Resize { bytes } => {
                let fits = whole(bytes) >= used && whole(bytes) <= whole(MAX_BYTES).max(4096);
                assert_eq!(index.resize(bytes), fits, "{op:?}");
                file_bytes = if fits { whole(bytes) } else { file_bytes };
            }
            Op::Trim => {
                index.trim();
                file_bytes = used;
            }
            Op::Reset => {
                index.reset();
                model.clear();
                file_bytes = whole(MAX_BYTES);
            }
            Op::Reopen => {
                index.trim();
                drop(index);
                index = I::open(&dir);
                file_bytes = used;
            }
            Op::ReopenSealed => {
                index.trim();
                drop(index);
                assert!(I::sealed_entries(&dir).into_iter().eq(model.clone()));
                index = I::open(&dir);
                file_bytes = used;
            }
        }
        assert!(index.entries().into_iter().eq(model.clone()), "{op:?}");
        let capacity = usize::try_from(file_bytes / u64::from(I::ENTRY_BYTES)).unwrap();
        assert_eq!(index.room(), (model.len(), capacity, file_bytes), "{op:?}");
    }
    index.check_look_ups(&model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn an_offset_index_behaves_as_a_sorted_map(ops in prop::collection::vec(any_op(), 0..150)) {
        run::<OffsetIndexFile>(&ops);
    }

    #[test]
    fn a_time_index_behaves_as_a_sorted_map(ops in prop::collection::vec(any_op(), 0..150)) {
        run::<TimeIndexFile>(&ops);
    }
}
