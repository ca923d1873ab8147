//! The start of a log's use.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8};

use alluvium_record_format::Offset;
use alluvium_recovery::{LeaderEpochCache, ProducerState, SnapshotDir, read_epochs};
use alluvium_segment::{
    ActiveSegment, Birth, DirLock, FileKind, FilePool, PartitionDir, Segment, SegmentConfig,
    SegmentFileName, Suffix,
};
use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;

use super::rebuild::Rebuild;
use super::roll::segment_config;
use super::{
    Commits, DirHealth, Jitter, Log, LogError, LogOptions, LogPosition, OPEN, SegmentList, Shared,
    Writer,
};
use crate::{LogConfig, background};

impl Log {
    /// How a log is to be opened, with all choices.
    pub fn options() -> LogOptions {
        LogOptions::new()
    }

    /// Opens the log in a partition's directory, which is made if it is not there, and recovers
    /// it: how it was closed is not known. See [`Log::options`] for every other choice.
    ///
    /// # Errors
    ///
    /// As [`LogOptions::open`].
    pub fn open(dir: impl AsRef<Path>, config: LogConfig) -> Result<Self, LogError> {
        Self::options().config(config).open(dir)
    }
}

impl LogOptions {
    /// Opens the log in a partition's directory, which is made if it is not there.
    ///
    /// The directory above is locked until the last handle of the log is dropped, unless the
    /// lock was given.
    ///
    /// # Errors
    ///
    /// `Lock` where somebody else uses the log directory; what reading and mending the partition's
    /// directory yields.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Log, LogError> {
        let dir = dir.as_ref();
        let directory = |source| LogError::Directory { path: dir.to_path_buf(), source };
        fs::create_dir_all(dir).map_err(directory)?;
        let dir = fs::canonicalize(dir).map_err(directory)?;
        let lock = match &self.lock {
            Some(lock) => lock.clone(),
            None => DirLock::acquire(dir.parent().unwrap_or(&dir))
                .map_err(|source| LogError::Lock { source })?,
        };
        let pool = self.pool.clone().unwrap_or_else(FilePool::for_this_process);
        let partition = PartitionDir::open(&dir, &lock, &pool)?;
        let loaded = Loaded::load(&self, &dir, &partition)?;
        Ok(self.start(&dir, partition, loaded))
    }

    fn start(self, dir: &Path, partition: Arc<PartitionDir>, loaded: Loaded) -> Log {
        let now = self.clock.now();
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let log_dir = dir.parent().unwrap_or(dir);
        let high_watermark = self.high_watermark.unwrap_or(loaded.log_start);
        let shared = Shared {
            name,
            dir: partition,
            config: ArcSwap::from_pointee(self.config),
            clock: self.clock,
            background: self.background.unwrap_or_else(background::of_process),
            health: self.health.unwrap_or_else(|| DirHealth::new(log_dir)),
            lifecycle: AtomicU8::new(OPEN),
            needs_recovery: AtomicBool::new(false),
            segments: ArcSwap::from_pointee(SegmentList::new(loaded.segments)),
            log_start: AtomicI64::new(loaded.log_start.get()),
            log_end: AtomicI64::new(loaded.log_end.get()),
            high_watermark: ArcSwap::from_pointee(LogPosition::somewhere(loaded.log_start)),
            first_unstable: ArcSwapOption::empty(),
            durability: self.durability,
            commits: Commits::new(loaded.recovery_point),
            recovery_point: AtomicI64::new(loaded.recovery_point.get()),
            last_flush_ms: AtomicI64::new(now.get()),
            epochs: ArcSwap::from_pointee(loaded.writer.epochs.clone()),
            writer: Mutex::new(loaded.writer),
            flushing: Mutex::new(()),
            notifier: Arc::default(),
        };
        shared.writer.lock().set_high_watermark(&shared, high_watermark);
        Log { shared: Arc::new(shared) }
    }
}

/// A log that was brought into order.
struct Loaded {
    segments: Vec<Arc<Segment>>,
    log_start: Offset,
    log_end: Offset,
    recovery_point: Offset,
    writer: Writer,
}

impl Loaded {
    fn load(
        options: &LogOptions,
        dir: &Path,
        partition: &Arc<PartitionDir>,
    ) -> Result<Self, LogError> {
        let now = options.clock.now();
        let settings = segment_config(&options.config);
        let mut jitter = Jitter::new(RandomState::new().hash_one(dir));
        let jitter_ms = options.config.roll_jitter_ms(jitter.next());
        let birth = Birth::at(now).roll_jitter_ms(i64::try_from(jitter_ms).unwrap_or(0));

        let mut segments = open_segments(dir, partition, settings)?;
        if !options.clean {
            recover(&mut segments, options.recovery_point)?;
        }
        let active = match segments.last() {
            Some(last) => ActiveSegment::reopen(Arc::clone(last), settings, birth)?,
            None => ActiveSegment::create(partition, options.log_start_offset, settings, birth)?,
        };
        if segments.is_empty() {
            segments.push(Arc::clone(active.segment()));
        }
        let log_start = options.log_start_offset.max(segments[0].base_offset());
        let log_end = active.next_offset();
        let recovery_point =
            if options.clean { log_end } else { options.recovery_point.min(log_end) };

        let mut epochs = LeaderEpochCache::new(&read_epochs(partition.io(), dir)?);
        epochs.truncate_from_end(log_end);
        epochs.truncate_from_start(options.log_start_offset);
        let mut snapshots = SnapshotDir::open(partition)?;
        let bases: BTreeSet<Offset> = segments.iter().map(|it| it.base_offset()).collect();
        ProducerState::remove_stray_snapshots(&mut snapshots, &bases)?;
        let mut producers = ProducerState::new(options.producers);
        let (range, clean) = (log_start..log_end, options.clean);
        Rebuild { segments: &segments, range, clean, now }.run(&mut producers, &mut snapshots)?;
        let active = Some(active);
        let (truncation_count, located_unstable) = (0, None);
        let writer = Writer {
            active,
            producers,
            snapshots,
            epochs,
            truncation_count,
            located_unstable,
            jitter,
        };
        Ok(Self { segments, log_start, log_end, recovery_point, writer })
    }
}

/// All segments of a directory, in order.
fn open_segments(
    dir: &Path,
    partition: &Arc<PartitionDir>,
    settings: SegmentConfig,
) -> Result<Vec<Arc<Segment>>, LogError> {
    let directory = |source| LogError::Directory { path: dir.to_path_buf(), source };
    let mut bases = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(directory)? {
        let name = entry.map_err(directory)?.file_name();
        let name = name.to_str().and_then(SegmentFileName::parse);
        if let Some(name) = name
            && (name.kind, name.suffix) == (FileKind::Log, Suffix::None)
        {
            bases.insert(name.offset);
        }
    }
    let open = |base| Segment::open(partition, base, settings).map_err(LogError::from);
    bases.into_iter().map(open).collect()
}

/// Checks every batch from the recovery point on, and cuts the log behind the first damage.
fn recover(segments: &mut Vec<Arc<Segment>>, recovery_point: Offset) -> Result<(), LogError> {
    let first = segments.partition_point(|it| it.base_offset() <= recovery_point).saturating_sub(1);
    for index in first..segments.len() {
        let scan = segments[index].recover(&mut |_| ControlFlow::Continue(()))?;
        if scan.truncated_bytes() > 0 {
            for later in segments.drain(index + 1..) {
                later.delete_files()?;
            }
            break;
        }
    }
    Ok(())
}
