//! Look-ups among 1.3 million entries, beside a binary search in a `Vec` of the same entries.

use std::hint::black_box;
use std::sync::Arc;

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{
    MapPermit, OffsetEntry, OffsetIndex, OffsetIndexFile, TimeEntry, TimeIndexFile,
};
use criterion::{Criterion, criterion_group, criterion_main};

const ENTRIES: u32 = 1_300_000;

/// Offsets that rise by 1 to 8, as batches of different sizes bring about.
fn offsets() -> Vec<u32> {
    let mut random = Random(7);
    let mut offset = 0;
    (0..ENTRIES)
        .map(|_| {
            offset += 1 + random.below(8);
            offset
        })
        .collect()
}

fn lookups(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    // SAFETY: the directory is this process's own, and nothing else touches its files.
    let permit = unsafe { MapPermit::new(Arc::new(())) };
    let base = Offset::new(0);
    let max_bytes = ENTRIES * 12 + 12;
    let offset_path = dir.path().join("0.index");
    let index = OffsetIndexFile::create(&offset_path, base, max_bytes, &permit).unwrap();
    let times = TimeIndexFile::create(&dir.path().join("0.timeindex"), base, max_bytes, &permit);
    let times = times.unwrap();
    let offsets = offsets();
    let mut vec = Vec::new();
    for (position, offset) in (0..).step_by(1_000).zip(&offsets) {
        let entry = OffsetEntry::new(Offset::new(i64::from(*offset)), Position::new(position));
        index.append(entry).unwrap();
        let time = Timestamp::new(1_760_000_000_000 + i64::from(*offset));
        times.maybe_append(TimeEntry::new(time, entry.offset)).unwrap();
        vec.push((*offset, position));
    }
    index.flush().unwrap();
    let bytes = std::fs::read(&offset_path).unwrap();
    let view = OffsetIndex::new(base, &bytes[..vec.len() * 8]);
    let last = *offsets.last().unwrap();

    let mut random = Random(1);
    criterion.bench_function("offset/vec", |bencher| {
        bencher.iter(|| {
            let target = random.below(last);
            let slot = vec.partition_point(|entry| entry.0 <= black_box(target));
            black_box(slot.checked_sub(1).map(|slot| vec[slot]))
        });
    });
    let mut random = Random(1);
    criterion.bench_function("offset/mapped", |bencher| {
        bencher.iter(|| index.lookup(Offset::new(i64::from(black_box(random.below(last))))));
    });
    let mut random = Random(1);
    criterion.bench_function("offset/view", |bencher| {
        bencher.iter(|| view.lookup(Offset::new(i64::from(black_box(random.below(last))))));
    });
    let mut random = Random(1);
    criterion.bench_function("offset/mapped newest 1000", |bencher| {
        bencher.iter(|| {
            let target = last - black_box(random.below(4_000));
            index.lookup(Offset::new(i64::from(target)))
        });
    });
    let mut random = Random(1);
    criterion.bench_function("time/mapped", |bencher| {
        bencher.iter(|| {
            let target = 1_760_000_000_000 + i64::from(black_box(random.below(last)));
            times.lookup(Timestamp::new(target))
        });
    });
}

/// A small generator (xorshift), so that all contenders look up the same targets.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u32::try_from(((self.0 >> 32) * u64::from(bound)) >> 32).unwrap()
    }
}

criterion_group!(benches, lookups);
criterion_main!(benches);
