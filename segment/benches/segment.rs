//! Append, read and scan beside the bare system calls, in interleaved slices.
//!
//! Prints the median ratio of our path to its bare twin, and of the twin to itself: the noise.

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alluvium_record_format::{
    BatchBuilder, BatchSettings, Offset, Position, SimpleRecord, Timestamp, crc32c,
};
use alluvium_segment::{
    ActiveSegment, Birth, DirLock, FilePool, PartitionDir, Segment, SegmentConfig,
};

fn main() {
    let temp = tempfile::tempdir_in(".").expect("a directory");
    let lock = DirLock::acquire(temp.path()).expect("the lock");
    let pool = FilePool::new(100);
    let dir = |name: &str| {
        let path = temp.path().join(name);
        fs::create_dir(&path).expect("a directory");
        PartitionDir::open(&path, &lock, &pool).expect("the directory")
    };
    // `cargo bench -p alluvium-segment -- read` runs what has that in its name.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let wanted = |name: &str| filter.as_ref().is_none_or(|filter| name.contains(filter.as_str()));
    if wanted("append") {
        append(&dir("append-0"), temp.path());
    }
    if wanted("read") {
        read(&dir("read-0"), 16 * 1024);
        read(&dir("read-1"), 100);
    }
    if wanted("scan") {
        scan(&dir("scan-0"));
    }
    if wanted("find") {
        find(&dir("find-0"));
    }
}

/// Random look-ups by timestamp among 4096 batches of 150 records of 100 bytes, a millisecond
/// apart.
#[expect(clippy::print_stdout, reason = "a benchmark prints")]
fn find(dir: &Arc<PartitionDir>) {
    const RECORDS: i64 = 150;
    let mut active = new_active(dir, 0);
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    for base in (0..4096 * RECORDS).step_by(150) {
        builder.reset(BatchSettings::new(Offset::new(base)));
        for time in base..base + RECORDS {
            let record = SimpleRecord::new().timestamp(Timestamp::new(time)).value(&[7; 90]);
            builder.append(&record).expect("a record");
        }
        active.append(builder.finish().expect("a batch")).expect("an append");
    }
    let segment = active.seal().expect("a seal");
    let mut random = Random(11);
    let mut times = Vec::new();
    for _ in 0..200 {
        let targets: Vec<i64> = (0..500).map(|_| random.below(4096 * RECORDS)).collect();
        let start = Instant::now();
        for target in &targets {
            let found = segment.find_by_timestamp(Timestamp::new(*target), Offset::new(0), 1 << 20);
            let found = found.expect("a look-up").expect("a record");
            assert_eq!(found.offset.get(), *target);
        }
        times.push(start.elapsed().as_secs_f64() / 500.0);
    }
    println!("look-up by timestamp: {:.2} us", median(&mut times) * 1e6);
    segment.delete_files().expect("removal");
}

/// 16 KiB batches: our append, index included, and `pwrite` to a growing file.
fn append(dir: &Arc<PartitionDir>, temp: &Path) {
    const BATCHES: usize = 64;
    let mut batch = batch_of(16 * 1024);
    let slices = 600;
    let mut next = 0;
    let mut active = new_active(dir, 0);
    let mut bare = Bare::new(temp);
    let ours = |batch: &mut Vec<u8>, next: &mut i64, active: &mut ActiveSegment| {
        let start = Instant::now();
        for _ in 0..BATCHES {
            batch[..8].copy_from_slice(&next.to_be_bytes());
            black_box(active.append(batch).expect("an append"));
            *next += 1;
        }
        start.elapsed()
    };
    let mut ratios = Ratios::default();
    for slice in 0..slices {
        if slice > 0 && slice % 100 == 0 {
            active = new_active(dir, next);
            bare = Bare::new(temp);
        }
        let a = bare.run(&batch, BATCHES);
        let b = ours(&mut batch, &mut next, &mut active);
        let c = bare.run(&batch, BATCHES);
        ratios.add(a, b, c);
    }
    ratios.print("append of 16 KiB batches: bare / ours", true);
    drop(active);
    for entry in fs::read_dir(dir.path()).expect("the directory") {
        fs::remove_file(entry.expect("an entry").path()).expect("removal");
    }
}

fn new_active(dir: &Arc<PartitionDir>, base: i64) -> ActiveSegment {
    let birth = Birth::at(Timestamp::new(0));
    ActiveSegment::create(dir, Offset::new(base), SegmentConfig::new(), birth).expect("a segment")
}

struct Bare {
    file: File,
    at: u64,
}

impl Bare {
    fn new(temp: &Path) -> Self {
        let path = temp.join("bare");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).open(path).expect("a file");
        Self { file, at: 0 }
    }

    fn run(&mut self, batch: &[u8], count: usize) -> Duration {
        let start = Instant::now();
        for _ in 0..count {
            self.file.write_all_at(batch, self.at).expect("a write");
            self.at += batch.len() as u64;
        }
        start.elapsed()
    }
}

/// Random reads: from an offset to a slice, and `pread` of a header at the same place.
fn read(dir: &Arc<PartitionDir>, batch_bytes: usize) {
    const READS: usize = 2000;
    let count: i64 = if batch_bytes > 1000 { 16_384 } else { 1_000_000 };
    let segment = filled(dir, batch_bytes, count);
    let size = segment.size_bytes();
    let file = File::open(segment.path(alluvium_segment::FileKind::Log)).expect("the log");
    let step = u64::from(size) / count.cast_unsigned();
    let mut random = Random(7);
    let mut ratios = Ratios::default();
    let end = Some(Position::new(size));
    for _ in 0..600 {
        let offsets: Vec<i64> = (0..READS).map(|_| random.below(count)).collect();
        let bare = || {
            let start = Instant::now();
            let mut header = [0; 61];
            for offset in &offsets {
                let at = offset.cast_unsigned() * step;
                black_box(file.read_at(&mut header, at).expect("a read"));
            }
            start.elapsed()
        };
        let ours = || {
            let start = Instant::now();
            for offset in &offsets {
                let slice = segment.read(Offset::new(*offset), 1024 * 1024, end, true);
                black_box(slice.expect("a read"));
            }
            start.elapsed()
        };
        let a = bare();
        let b = ours();
        let c = bare();
        ratios.add(a, b, c);
    }
    ratios.print(&format!("read among batches of {batch_bytes} bytes: ours / bare"), false);
    segment.delete_files().expect("removal");
}

/// 256 MiB of 16 KiB batches: walk with CRC, and `pread` of 256 KiB with CRC.
fn scan(dir: &Arc<PartitionDir>) {
    let segment = filled(dir, 16 * 1024, 4096);
    let file = File::open(segment.path(alluvium_segment::FileKind::Log)).expect("the log");
    let size = segment.size_bytes();
    let mut ratios = Ratios::default();
    let mut buffer = vec![0; 256 * 1024];
    let mut bare = || {
        let start = Instant::now();
        let mut at = 0;
        while at < u64::from(size) {
            let count = file.read_at(&mut buffer, at).expect("a read");
            black_box(crc32c(&buffer[..count]));
            at += count as u64;
        }
        start.elapsed()
    };
    for _ in 0..100 {
        let a = bare();
        let start = Instant::now();
        let mut walker = segment.walk(Position::new(0)).expect("a walk").verifying();
        while let Some(entry) = walker.next_entry().expect("a sound batch") {
            black_box(entry);
        }
        let b = start.elapsed();
        let c = bare();
        ratios.add(a, b, c);
    }
    ratios.print("scan of 16 KiB batches with CRC: bare / ours", true);
    segment.delete_files().expect("removal");
}

fn filled(dir: &Arc<PartitionDir>, batch_bytes: usize, count: i64) -> Arc<Segment> {
    let mut batch = batch_of(batch_bytes);
    let mut active = new_active(dir, 0);
    let mut chunk = Vec::new();
    for base in 0..count {
        batch[..8].copy_from_slice(&base.to_be_bytes());
        chunk.extend_from_slice(&batch);
        if chunk.len() > 1024 * 1024 || base == count - 1 {
            active.append(&chunk).expect("an append");
            chunk.clear();
        }
    }
    active.seal().expect("a seal")
}

/// A batch of one record and about so many bytes.
fn batch_of(bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let value = vec![7; bytes - 75];
    let record = SimpleRecord::new().timestamp(Timestamp::new(1000)).value(&value);
    builder.append(&record).expect("a record");
    builder.finish().expect("a batch").to_vec()
}

#[derive(Default)]
struct Ratios {
    ours: Vec<f64>,
    twin: Vec<f64>,
    nanos: Vec<(f64, f64)>,
}

impl Ratios {
    fn add(&mut self, before: Duration, ours: Duration, after: Duration) {
        let bare = (before + after).as_secs_f64() / 2.0;
        self.ours.push(ours.as_secs_f64() / bare);
        self.twin.push(before.as_secs_f64() / after.as_secs_f64());
        self.nanos.push((ours.as_secs_f64(), bare));
    }

    #[expect(clippy::print_stdout, reason = "a benchmark prints")]
    fn print(mut self, name: &str, inverse: bool) {
        let ours = median(&mut self.ours);
        let twin = median(&mut self.twin);
        let ratio = if inverse { 1.0 / ours } else { ours };
        let mut a: Vec<f64> = self.nanos.iter().map(|n| n.0).collect();
        let mut b: Vec<f64> = self.nanos.iter().map(|n| n.1).collect();
        println!(
            "{name}: {ratio:.3} (twin {twin:.3}; ours {:.1} us, bare {:.1} us a slice)",
            median(&mut a) * 1e6,
            median(&mut b) * 1e6
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 33) % bound.cast_unsigned()).cast_signed()
    }
}
