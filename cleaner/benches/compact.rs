//! How fast a log is compacted, and a copy of the same files.
//!
//! `cargo bench -p alluvium-cleaner -- [MIB] [CODEC]`: values of 200 bytes, a million keys drawn
//! evenly, 128 MiB of map, one thread; both sides sync.
#![expect(clippy::print_stdout, reason = "a bench talks on its terminal")]

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alluvium_cleaner::{CleanOptions, Cleaner, CleanerConfig, LeaveOld};
use alluvium_record_format::{BatchBuilder, BatchSettings, Codec, Offset, SimpleRecord, Timestamp};
use alluvium_segment::{
    ActiveSegment, Birth, DirLock, FilePool, PartitionDir, Segment, SegmentConfig,
};

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let mib: u64 = args.next().and_then(|arg| arg.parse().ok()).unwrap_or(64);
    let codec = match args.next().as_deref() {
        Some("zstd") => Codec::Zstd,
        Some("lz4") => Codec::Lz4,
        _ => Codec::None,
    };
    let log_dir = tempfile::tempdir().unwrap();
    let path = log_dir.path().join("bench-0");
    fs::create_dir(&path).unwrap();
    let lock = DirLock::acquire(log_dir.path()).unwrap();
    let dir = PartitionDir::open(&path, &lock, &FilePool::for_this_process()).unwrap();
    let (segments, end) = fill(&dir, mib << 20, codec);
    let bytes: u64 = segments.iter().map(|segment| u64::from(segment.size_bytes())).sum();

    let start = Instant::now();
    copy(&path, &log_dir.path().join("copy")).unwrap();
    let copied = start.elapsed();

    let options = CleanOptions::new(Offset::new(0), end, Timestamp::new(1_800_000_000_000));
    let (start, cpu) = (Instant::now(), cpu_ms());
    let mut cleaner = Cleaner::new(CleanerConfig::new());
    let report = cleaner.clean(&segments, &options, &mut LeaveOld).unwrap();
    let cleaned = start.elapsed();
    let busy = Duration::from_millis(cpu_ms() - cpu);

    let rate = |time: Duration| (u128::from(bytes) * 1000 / time.as_millis().max(1)) >> 20;
    println!(
        "{} MiB of {codec}, {} keys, {} MiB kept: cleaned at {} MiB/s ({} MiB per second \
         of CPU), copied at {} MiB/s, peak {} MiB",
        bytes >> 20,
        report.key_count,
        report.counts.bytes_written >> 20,
        rate(cleaned),
        rate(busy),
        rate(copied),
        peak_mib(),
    );
}

/// Sealed segments of 256 MiB, and an empty one behind.
fn fill(dir: &Arc<PartitionDir>, bytes: u64, codec: Codec) -> (Vec<Arc<Segment>>, Offset) {
    let config = SegmentConfig::new();
    let create = |base| ActiveSegment::create(dir, base, config, Birth::default()).unwrap();
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let mut active = create(Offset::new(0));
    let (mut segments, mut state, mut done) = (Vec::new(), 1_u64, 0_u64);
    let mut next = Offset::new(0);
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        state >> 33
    };
    let mut value = [b'v'; 200];
    while done < bytes {
        builder.reset(BatchSettings::new(next).codec(codec));
        for _ in 0..64 {
            let key = format!("key-{:09}", random() % 1_000_000);
            for byte in value.iter_mut().step_by(3) {
                *byte = b'a' + u8::try_from(random() % 26).unwrap();
            }
            let time = Timestamp::new(1_700_000_000_000);
            let record = SimpleRecord::new().timestamp(time).key(key.as_bytes()).value(&value);
            builder.append(&record).unwrap();
        }
        let batch = builder.finish().unwrap();
        done += batch.len() as u64;
        active.append(batch).unwrap();
        next = Offset::new(next.get() + 64);
        if active.segment().size_bytes() > 256 << 20 {
            segments.push(std::mem::replace(&mut active, create(next)).seal().unwrap());
        }
    }
    segments.push(active.seal().unwrap());
    segments.push(Arc::clone(create(next).segment()));
    (segments, next)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        fs::copy(&path, &target)?;
        File::open(&target)?.sync_all()?;
    }
    Ok(())
}

/// CPU time of the process so far: what counts on a busy machine.
fn cpu_ms() -> u64 {
    const MS_PER_TICK: u64 = 10;
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let user_and_system = fields.skip(11).take(2);
    user_and_system.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * MS_PER_TICK
}

/// The most memory that the process had at a time.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|kib| kib.parse().ok());
    kib.unwrap_or(0_u64) >> 10
}
