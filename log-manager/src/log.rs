//! One log: the segments of one partition, written by one at a time and read by all.

mod append;
mod close;
mod commit;
mod doomed;
mod effects;
mod epochs;
mod error;
mod flush;
mod health;
mod in_flight;
mod layout;
mod lookup;
mod open;
mod options;
mod position;
mod producers;
mod read;
mod replace;
mod retention;
mod roll;
mod rounds;
mod segments;
mod truncate;
mod watermark;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::{CompletedTxn, LeaderEpochCache, ProducerState, SnapshotDir};
use alluvium_segment::{ActiveSegment, PartitionDir, SegmentError};

use crate::notify::Notifier;
use crate::sync::{ArcSwap, ArcSwapOption, AtomicBool, AtomicI64, AtomicU8, Mutex};
use crate::{Background, Changed, Clock, LogConfig, LogVersion, OffsetKeeper};

pub use append::{Appended, LeaderRequest};
pub use close::Closed;
pub use commit::Durability;
pub use error::{AppendError, LogError};
pub use health::DirHealth;
pub use lookup::{FoundOffset, OffsetQuery};
pub use options::LogOptions;
pub use position::{LogPosition, Place};
pub use read::{AbortedTransaction, Fetched, Isolation};
pub use replace::CleaningView;
pub(crate) use truncate::check_cut;

use commit::Commits;
use doomed::Doomed;
use effects::Effects;
use in_flight::InFlight;
use layout::Layout;
use segments::SegmentList;

/// One log of Kafka: the segments of one partition.
///
/// Cheap to clone; all clones are the same log. One thread writes at a time, under a lock.
/// Readers never wait for the writer or each other: they hold an immutable list of segments, and
/// the files of what they read, even when those are deleted meanwhile. Flushes, deletions and
/// checkpoints run outside the lock, by the [`Background`] that the log was given.
///
/// Source: `UnifiedLog` in Kafka.
#[derive(Clone, Debug)]
pub struct Log {
    shared: Arc<Shared>,
}

/// What readers and the writer share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The name of its directory when it was opened.
    opened_as: String,
    /// The name of a log that has come to its new disk.
    renamed_to: OnceLock<String>,
    dir: Arc<PartitionDir>,
    config: ArcSwap<LogConfig>,
    clock: Arc<dyn Clock>,
    background: Arc<dyn Background>,
    health: DirHealth,
    lifecycle: AtomicU8,
    /// Set when something went wrong that only recovery mends: the next open is unclean.
    needs_recovery: AtomicBool,
    segments: ArcSwap<SegmentList>,
    log_start: AtomicI64,
    /// No log start above is to be kept for the next open: a truncation is about to cut there.
    log_start_limit: AtomicI64,
    log_end: AtomicI64,
    high_watermark: ArcSwap<LogPosition>,
    first_unstable: ArcSwapOption<LogPosition>,
    durability: Durability,
    commits: Commits,
    /// Everything below is synced: the recovery point, or above it where a transaction without its
    /// entry in an index holds that back. What `flush.messages` counts from.
    flushed: AtomicI64,
    recovery_point: AtomicI64,
    keeper: Option<Arc<dyn OffsetKeeper>>,
    last_flush_ms: AtomicI64,
    epochs: ArcSwap<LeaderEpochCache>,
    layout: Mutex<Layout>,
    writer: Mutex<Writer>,
    /// Held while a flush is under way: one at a time. Whole files that recovery or a roll has
    /// written and nobody has synced.
    flushing: Mutex<Vec<PathBuf>>,
    doomed: Doomed,
    in_flight: Arc<InFlight>,
    notifier: Arc<Notifier>,
}

/// What the one writer holds.
#[derive(Debug)]
pub(crate) struct Writer {
    /// `None` after the close alone.
    active: Option<ActiveSegment>,
    /// What readers are shown: see [`publish_segments`](Self::publish_segments).
    segments: Arc<SegmentList>,
    producers: ProducerState,
    snapshots: SnapshotDir,
    /// Snapshots that nobody has synced.
    unsynced_snapshots: Vec<Offset>,
    epochs: LeaderEpochCache,
    /// Transactions with a marker and without their entry in an index: they hold back readers until
    /// recovery has made it, also where the state of the producers comes from a snapshot again.
    unindexed: Vec<CompletedTxn>,
    /// Whether readers are shown a first unstable offset.
    is_unstable_shown: bool,
    /// The first unstable offset as asked for, and where it was found.
    located_unstable: Option<(Offset, LogPosition)>,
    jitter: Jitter,
}

impl Log {
    /// The name of the partition's directory, `topic-partition`; of a copy on its way to another
    /// disk the one with `-future`, until it takes the place of the log.
    #[must_use]
    pub fn name(&self) -> &str {
        self.shared.name()
    }

    /// The partition's directory.
    #[must_use]
    pub fn dir(&self) -> &Arc<PartitionDir> {
        &self.shared.dir
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> LogConfig {
        LogConfig::clone(&self.shared.config.load())
    }

    /// Changes the settings. Roll, retention and checks follow at once; index intervals and
    /// sizes with the next segment.
    pub fn set_config(&self, config: LogConfig) {
        self.shared.config.store(Arc::new(config));
    }

    /// The first offset that a reader may ask for.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.shared.log_start()
    }

    /// The log start that the next open may be told of: that of now, or the one that a truncation
    /// under way leaves.
    pub(crate) fn log_start_to_keep(&self) -> Offset {
        // In this order: a cut that is over has moved the log start before it lifted the limit.
        let limit = self.shared.log_start_limit.load(Ordering::Acquire);
        self.shared.log_start().min(Offset::new(limit))
    }

    /// The offset of the next record.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        self.shared.log_end()
    }

    /// The offset below which everything is durable; after an unclean stop, recovery starts
    /// there.
    #[must_use]
    pub fn recovery_point(&self) -> Offset {
        Offset::new(self.shared.recovery_point.load(Ordering::Acquire))
    }

    /// Base offset and bytes of each segment, the active one last.
    #[must_use]
    pub fn segments(&self) -> Vec<(Offset, u32)> {
        let segments = self.shared.segments.load();
        let of = |segment: &Arc<_>| -> (Offset, u32) {
            let segment: &alluvium_segment::Segment = segment;
            (segment.base_offset(), segment.size_bytes())
        };
        segments.all().map(of).collect()
    }

    /// How many segments there are.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.shared.segments.load().len()
    }

    /// Bytes of all segments, without their indexes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.shared.segments.load().size_bytes()
    }

    /// The latest leader epoch that wrote a batch.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.shared.epochs.load().latest().map(|entry| entry.epoch)
    }

    /// Counts the changes so far: appends, moves of the high watermark and of the log start,
    /// truncations, the close.
    ///
    /// Take it before a read that may find nothing, and wait for the next change after it.
    #[must_use]
    pub fn version(&self) -> LogVersion {
        self.shared.notifier.version()
    }

    /// Waits until the log has changed since `seen` or the deadline has passed; returns whether
    /// it has.
    #[must_use]
    pub fn wait_for_change(&self, seen: LogVersion, deadline: Option<Instant>) -> bool {
        self.shared.notifier.wait(seen, deadline)
    }

    /// A future of no particular runtime that is ready once the log has changed since `seen`.
    pub fn changed(&self, seen: LogVersion) -> Changed {
        Changed::new(Arc::clone(&self.shared.notifier), seen)
    }

    /// Gives a copy that has come to its new disk the name of the log, once and for all.
    pub(crate) fn take_name(&self, name: String) -> Result<(), SegmentError> {
        self.shared.dir.rename(&name)?;
        self.shared.renamed_to.get_or_init(|| name);
        Ok(())
    }
}

impl Shared {
    fn name(&self) -> &str {
        self.renamed_to.get().unwrap_or(&self.opened_as)
    }

    fn log_start(&self) -> Offset {
        Offset::new(self.log_start.load(Ordering::Acquire))
    }

    fn log_end(&self) -> Offset {
        Offset::new(self.log_end.load(Ordering::Acquire))
    }

    /// Refuses where the log is closed or its directory offline.
    fn check_open(&self) -> Result<(), LogError> {
        self.health.check()?;
        if self.lifecycle.load(Ordering::Acquire) == OPEN {
            return Ok(());
        }
        Err(LogError::Closed { path: self.dir.path() })
    }

    /// Takes the directory offline where the disk has failed, or where a change stopped half way
    /// that recovery alone can mend, and hands the error on.
    fn disk_failed(&self, error: LogError) -> LogError {
        let reason = Arc::new(error);
        self.needs_recovery.store(true, Ordering::Release);
        self.health.fail(&reason);
        self.notifier.notify();
        LogError::Offline { path: self.health.dir().to_path_buf(), source: reason }
    }
}

/// A source of random numbers that is good enough to spread rolls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jitter(u64);

impl Jitter {
    fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// The next number (xorshift64*).
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let [.., a, b, c, d] =
            self.0.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(32).to_be_bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

const OPEN: u8 = 0;
const CLOSED: u8 = 1;
