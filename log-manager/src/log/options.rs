//! How a log is opened.

use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::{ProducerStateConfig, ScanConfig};
use alluvium_segment::{DirLock, FilePool};

use super::{DirHealth, Durability};
use crate::{Background, Clock, Closed, LogConfig, OffsetKeeper, SystemClock};

/// How a log is opened: see [`Log::options`](crate::Log::options).
#[derive(Clone, Debug)]
#[must_use]
pub struct LogOptions {
    pub(super) config: LogConfig,
    pub(super) recovery_point: Offset,
    pub(super) keeper: Option<Arc<dyn OffsetKeeper>>,
    pub(super) log_start_offset: Offset,
    pub(super) high_watermark: Option<Offset>,
    pub(super) clean: bool,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) background: Option<Arc<dyn Background>>,
    pub(super) producers: ProducerStateConfig,
    pub(super) scan: ScanConfig,
    pub(super) durability: Durability,
    pub(super) lock: Option<DirLock>,
    pub(super) health: Option<DirHealth>,
    pub(super) pool: Option<Arc<FilePool>>,
}

impl LogOptions {
    pub(super) fn new() -> Self {
        Self {
            config: LogConfig::default(),
            recovery_point: Offset::new(0),
            keeper: None,
            log_start_offset: Offset::new(0),
            high_watermark: None,
            clean: false,
            clock: Arc::new(SystemClock),
            background: None,
            producers: ProducerStateConfig::new(),
            scan: ScanConfig::new(),
            durability: Durability::PageCache,
            lock: None,
            health: None,
            pool: None,
        }
    }

    /// The settings of the log; Kafka's defaults where they are not given.
    pub fn config(mut self, config: LogConfig) -> Self {
        self.config = config;
        self
    }

    /// What the last close left: the log is opened without recovery.
    pub fn after_close(mut self, closed: &Closed) -> Self {
        self.recovery_point = closed.recovery_point;
        self.log_start_offset = closed.log_start_offset;
        self.high_watermark = Some(closed.high_watermark);
        self.clean = closed.clean;
        self
    }

    /// Whether the log was closed properly: then nothing is recovered. `false` where it is not
    /// known.
    pub fn clean(mut self, clean: bool) -> Self {
        self.clean = clean;
        self
    }

    /// The offset below which everything was durable, as the checkpoint says; recovery starts
    /// there. 0 where it is not known.
    ///
    /// Whoever keeps it for the next open gives a [`keeper`](Self::offset_keeper) too, or
    /// lowers what is kept before each truncation.
    pub fn recovery_point(mut self, offset: Offset) -> Self {
        self.recovery_point = offset;
        self
    }

    /// Where recovery point and log start are kept: told before anything is cut off. Without one a
    /// truncation is safe from a power failure only if the next open starts at 0, or no higher than
    /// the cut.
    pub fn offset_keeper(mut self, keeper: Arc<dyn OffsetKeeper>) -> Self {
        self.keeper = Some(keeper);
        self
    }

    /// The log start, as the checkpoint says; the first segment's base offset where that is
    /// larger.
    pub fn log_start_offset(mut self, offset: Offset) -> Self {
        self.log_start_offset = offset;
        self
    }

    /// The high watermark, as the checkpoint says; the log start where it is not known.
    pub fn high_watermark(mut self, offset: Offset) -> Self {
        self.high_watermark = Some(offset);
        self
    }

    /// The clock; that of the machine where none is given.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Who runs the work that can wait; one thread for all logs of the process where nobody is
    /// given.
    pub fn background(mut self, background: Arc<dyn Background>) -> Self {
        self.background = Some(background);
        self
    }

    /// How producers are remembered.
    pub fn producers(mut self, config: ProducerStateConfig) -> Self {
        self.producers = config;
        self
    }

    /// How segments are scanned when they are recovered: by how many threads.
    pub fn scan(mut self, scan: ScanConfig) -> Self {
        self.scan = scan;
        self
    }

    /// When an append is durable.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The lock of the log directory, where the caller holds it for several logs.
    pub fn lock(mut self, lock: DirLock) -> Self {
        self.lock = Some(lock);
        self
    }

    /// The health of the log directory, shared by the logs in it.
    pub fn health(mut self, health: DirHealth) -> Self {
        self.health = Some(health);
        self
    }

    /// The pool of open files, shared by all logs of a process.
    pub fn pool(mut self, pool: Arc<FilePool>) -> Self {
        self.pool = Some(pool);
        self
    }
}
