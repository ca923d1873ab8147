//! What a load must be told.

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::SegmentConfig;

use crate::{ProducerStateConfig, ScanConfig};

/// What a load must be told about the log. With the content of the directory, it decides all that
/// the load does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadConfig {
    /// Settings of the segments; recovered indexes follow them.
    pub segment: SegmentConfig,
    /// Settings of producer state.
    pub producers: ProducerStateConfig,
    /// How log files are scanned: by how many threads.
    pub scan: ScanConfig,
    /// Whether the data directory had its marker of a clean shutdown: then nothing but what looks
    /// wrong is scanned.
    pub clean_shutdown: bool,
    /// The log's entry in the recovery-point checkpoint, default 0. After an unclean stop, its
    /// segment and all later ones are scanned.
    pub recovery_point: Offset,
    /// The log's entry in the log-start checkpoint, default 0.
    pub log_start_offset: Offset,
    /// The present time, by which producers expire.
    pub now: Timestamp,
}

impl LoadConfig {
    /// A load of a new log, or of one of which nothing is known: unclean, all of it scanned.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self {
            segment: SegmentConfig::new(),
            producers: ProducerStateConfig::new(),
            scan: ScanConfig::new(),
            clean_shutdown: false,
            recovery_point: Offset::new(0),
            log_start_offset: Offset::new(0),
            now,
        }
    }

    /// Sets the settings of segments.
    #[must_use]
    pub const fn segment(self, segment: SegmentConfig) -> Self {
        Self { segment, ..self }
    }

    /// Sets the settings of producer state.
    #[must_use]
    pub const fn producers(self, producers: ProducerStateConfig) -> Self {
        Self { producers, ..self }
    }

    /// Sets how log files are scanned.
    #[must_use]
    pub const fn scan(self, scan: ScanConfig) -> Self {
        Self { scan, ..self }
    }

    /// Sets whether the data directory was stopped cleanly.
    #[must_use]
    pub const fn clean_shutdown(self, clean: bool) -> Self {
        Self { clean_shutdown: clean, ..self }
    }

    /// Sets the recovery point.
    #[must_use]
    pub const fn recovery_point(self, offset: Offset) -> Self {
        Self { recovery_point: offset, ..self }
    }

    /// Sets the log start offset.
    #[must_use]
    pub const fn log_start_offset(self, offset: Offset) -> Self {
        Self { log_start_offset: offset, ..self }
    }
}
