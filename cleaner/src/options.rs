//! What a cleaning is told.

use std::collections::HashMap;

use alluvium_log_manager::LogConfig;
use alluvium_record_format::{Offset, ProducerEpoch, ProducerId, Timestamp};
use alluvium_recovery::ProducerEntry;
use alluvium_segment::SegmentConfig;
use alluvium_sparse_index::AbortedTxn;

/// Memory of one cleaner: Kafka's broker settings, for one of its threads.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CleanerConfig {
    /// Bytes of the offset map: `log.cleaner.dedupe.buffer.size`, default 128 MiB.
    pub map_bytes: usize,
    /// The part of the map's slots that may be used: `log.cleaner.io.buffer.load.factor`,
    /// default 0.9.
    pub load_factor: f64,
}

impl CleanerConfig {
    /// Kafka's defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self { map_bytes: 128 << 20, load_factor: 0.9 }
    }

    /// Sets the memory of the offset map.
    #[must_use]
    pub const fn map_bytes(self, bytes: usize) -> Self {
        Self { map_bytes: bytes, ..self }
    }

    /// Sets the part of the map's slots that may be used.
    #[must_use]
    pub const fn load_factor(self, factor: f64) -> Self {
        Self { load_factor: factor, ..self }
    }
}

impl Default for CleanerConfig {
    fn default() -> Self {
        Self::new()
    }
}

/// What one cleaning is told about its log.
#[derive(Clone, Debug)]
pub struct CleanOptions {
    pub(crate) first_dirty: Offset,
    pub(crate) first_uncleanable: Offset,
    pub(crate) now: Timestamp,
    pub(crate) delete_retention_ms: i64,
    pub(crate) segment_bytes: u32,
    pub(crate) max_record_bytes: usize,
    pub(crate) segment: SegmentConfig,
    pub(crate) high_watermark: Option<Offset>,
    pub(crate) producers: ActiveProducers,
    pub(crate) aborted: Option<Vec<AbortedTxn>>,
    pub(crate) dry_run: bool,
}

impl CleanOptions {
    /// Cleans offsets `first_dirty..first_uncleanable`, against everything before. `now` decides
    /// which tombstones and markers have lived long enough. All else as Kafka's defaults, and no
    /// producer counts as active.
    ///
    /// `first_uncleanable` must be the base offset of a segment, at most the high watermark and
    /// the last stable offset; the segment with this base is not touched, nor are those after it.
    #[must_use]
    pub fn new(first_dirty: Offset, first_uncleanable: Offset, now: Timestamp) -> Self {
        Self {
            first_dirty,
            first_uncleanable,
            now,
            delete_retention_ms: 86_400_000,
            segment_bytes: 1 << 30,
            max_record_bytes: 2_147_483_639,
            segment: SegmentConfig::new(),
            high_watermark: None,
            producers: ActiveProducers::default(),
            aborted: None,
            dry_run: false,
        }
    }

    /// What the settings of a topic say: the four that follow.
    #[must_use]
    pub fn topic(self, config: &LogConfig) -> Self {
        let record_bytes = config.max_decompressed_message_bytes();
        self.delete_retention_ms(i64::try_from(config.delete_retention_ms()).unwrap_or(i64::MAX))
            .segment_bytes(config.segment_bytes())
            .max_record_bytes(usize::try_from(record_bytes).unwrap_or(usize::MAX))
            .segment(config.segment())
    }

    /// Milliseconds that tombstones and markers live after the pass that first finds them alone:
    /// `delete.retention.ms`, default one day.
    #[must_use]
    pub const fn delete_retention_ms(mut self, ms: i64) -> Self {
        self.delete_retention_ms = ms;
        self
    }

    /// Bytes up to which segments are merged: `segment.bytes`, default 1 GiB. Indexes are merged
    /// up to the largest size that [`segment`](Self::segment) gives them.
    #[must_use]
    pub const fn segment_bytes(mut self, bytes: u32) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// The most bytes of a record in a compressed batch: `max.decompressed.message.bytes`.
    #[must_use]
    pub const fn max_record_bytes(mut self, bytes: usize) -> Self {
        self.max_record_bytes = bytes;
        self
    }

    /// The settings of the segments that are written: `index.interval.bytes` and
    /// `segment.index.bytes`. They are never preallocated.
    #[must_use]
    pub const fn segment(mut self, config: SegmentConfig) -> Self {
        self.segment = config.preallocate_bytes(None);
        self
    }

    /// The high watermark: the batch that ends there stays, empty if need be, so that the log
    /// does not seem to end earlier.
    #[must_use]
    pub const fn high_watermark(mut self, offset: Offset) -> Self {
        self.high_watermark = Some(offset);
        self
    }

    /// The producers whose last batch stays, empty if need be.
    #[must_use]
    pub fn active_producers(mut self, producers: ActiveProducers) -> Self {
        self.producers = producers;
        self
    }

    /// The aborted transactions. Without this call they are taken from the transaction indexes
    /// of the segments.
    #[must_use]
    pub fn aborted(mut self, aborted: Vec<AbortedTxn>) -> Self {
        self.aborted = Some(aborted);
        self
    }

    /// Whether to do all but write: the report says what a cleaning would do.
    #[must_use]
    pub const fn dry_run(mut self, yes: bool) -> Self {
        self.dry_run = yes;
        self
    }
}

/// The last thing that each active producer wrote.
///
/// Source: `LastRecord` in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveProducers(HashMap<ProducerId, Last>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    /// A data batch that ends at this offset.
    Data(Offset),
    /// A marker of this epoch, and no data in that epoch.
    Marker(ProducerEpoch),
}

impl ActiveProducers {
    /// A producer whose last data batch ends at `last_data_offset`; without one, its last batch
    /// is a marker of its epoch.
    pub fn insert(
        &mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        last_data_offset: Option<Offset>,
    ) {
        self.0.insert(id, last_data_offset.map_or(Last::Marker(epoch), Last::Data));
    }

    /// Whether the batch with these facts is the last one of an active producer.
    pub(crate) fn is_last(
        &self,
        id: ProducerId,
        epoch: ProducerEpoch,
        last_offset: Offset,
        is_control: bool,
    ) -> bool {
        match self.0.get(&id) {
            Some(Last::Data(offset)) => *offset == last_offset,
            Some(Last::Marker(of)) => is_control && *of == epoch,
            None => false,
        }
    }
}

impl<'a> FromIterator<&'a ProducerEntry> for ActiveProducers {
    fn from_iter<I: IntoIterator<Item = &'a ProducerEntry>>(entries: I) -> Self {
        let mut producers = Self::default();
        for entry in entries {
            let last = entry.last_batch().map(|batch| batch.last_offset);
            producers.insert(entry.producer_id, entry.producer_epoch, last);
        }
        producers
    }
}
