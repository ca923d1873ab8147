//! What a batch says of itself before its first record.

use super::{Attributes, BatchHeader, TimestampType};
use crate::{Codec, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// The settings of a batch to build: all header fields that do not follow from the records.
///
/// Start from [`BatchSettings::new`] for a plain batch, or from [`BatchSettings::of`] to build
/// a batch again with fewer records, as compaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSettings {
    pub(super) base_offset: i64,
    pub(super) leader_epoch: i32,
    pub(super) codec: Codec,
    pub(super) level: Option<i32>,
    pub(super) append_time: Option<i64>,
    pub(super) delete_horizon: Option<i64>,
    pub(super) producer_id: i64,
    pub(super) producer_epoch: i16,
    pub(super) base_sequence: i32,
    pub(super) transactional: bool,
    pub(super) control: bool,
    pub(super) unknown_bits: i16,
}

impl BatchSettings {
    /// A plain batch from `base_offset` on: not compressed, `CreateTime`, no producer, no leader
    /// epoch.
    #[must_use]
    pub const fn new(base_offset: Offset) -> Self {
        Self {
            base_offset: base_offset.get(),
            leader_epoch: -1,
            codec: Codec::None,
            level: None,
            append_time: None,
            delete_horizon: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            unknown_bits: 0,
        }
    }

    /// The batch of a marker that ends a transaction of this producer: append one
    /// [`EndTxnMarker`](crate::EndTxnMarker).
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_record_format::{BatchBuilder, BatchSettings, EndTxnMarker, Offset};
    /// # use alluvium_record_format::{ProducerEpoch, ProducerId, Timestamp, TxnOutcome};
    /// let (id, epoch) = (ProducerId::new(7), ProducerEpoch::new(3));
    /// let mut builder = BatchBuilder::new(BatchSettings::end_txn(Offset::new(200), id, epoch));
    /// let now = Timestamp::new(1_700_000_001_000);
    /// builder.append_control(Some(now), &EndTxnMarker::new(TxnOutcome::Commit, 9).into())?;
    /// assert_eq!(builder.finish()?.len(), 78);
    /// # Ok::<(), alluvium_record_format::BuildError>(())
    /// ```
    #[must_use]
    pub fn end_txn(base_offset: Offset, id: ProducerId, epoch: ProducerEpoch) -> Self {
        Self::new(base_offset).producer(id, epoch, None).transactional(true).control(true)
    }

    /// The settings of a batch that exists, attribute bits without a meaning included. The
    /// compression level is not in the header: the codec's default. An unknown codec becomes
    /// none.
    #[must_use]
    pub fn of(header: &BatchHeader) -> Self {
        let attributes = header.attributes();
        let append_time = match attributes.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(header.max_timestamp_raw()),
        };
        Self {
            base_offset: header.base_offset().get(),
            leader_epoch: header.leader_epoch_raw(),
            codec: attributes.codec().unwrap_or_default(),
            level: None,
            append_time,
            delete_horizon: header.delete_horizon().map(Timestamp::get),
            producer_id: header.producer_id_raw(),
            producer_epoch: header.producer_epoch().get(),
            base_sequence: header.base_sequence().map_or(-1, Sequence::get),
            transactional: attributes.is_transactional(),
            control: attributes.is_control(),
            unknown_bits: attributes.unknown_bits(),
        }
    }

    /// The offset to which record offsets relate; the first record's, unless records before it
    /// are gone.
    #[must_use]
    pub const fn base_offset(mut self, base: Offset) -> Self {
        self.base_offset = base.get();
        self
    }

    /// The epoch of the leader that writes the batch.
    #[must_use]
    pub const fn leader_epoch(mut self, epoch: LeaderEpoch) -> Self {
        self.leader_epoch = epoch.get();
        self
    }

    /// How the records are compressed, at the codec's default level.
    #[must_use]
    pub const fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// The compression level, in the codec's own numbers; `None` for its default.
    #[must_use]
    pub const fn level(mut self, level: Option<i32>) -> Self {
        self.level = level;
        self
    }

    /// The time of the broker, in place of every record's own: `LogAppendTime`.
    #[must_use]
    pub const fn log_append_time(mut self, now: Timestamp) -> Self {
        self.append_time = Some(now.get());
        self
    }

    /// When the cleaner may drop tombstones and markers of this batch. Takes the place of the
    /// base timestamp: record times are stored relative to it.
    #[must_use]
    pub const fn delete_horizon(mut self, horizon: Timestamp) -> Self {
        self.delete_horizon = Some(horizon.get());
        self
    }

    /// The idempotent producer and the sequence of the record at the base offset. Control
    /// batches alone have no sequence.
    #[must_use]
    pub fn producer(
        mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        base_sequence: Option<Sequence>,
    ) -> Self {
        self.producer_id = id.get();
        self.producer_epoch = epoch.get();
        self.base_sequence = base_sequence.map_or(-1, Sequence::get);
        self
    }

    /// Whether the batch is part of a transaction.
    #[must_use]
    pub const fn transactional(mut self, yes: bool) -> Self {
        self.transactional = yes;
        self
    }

    /// Whether the batch holds control records, and nothing else.
    #[must_use]
    pub const fn control(mut self, yes: bool) -> Self {
        self.control = yes;
        self
    }

    /// The attributes of the batch.
    pub(super) const fn attributes(&self) -> i16 {
        let mut bits = self.unknown_bits | i16::from_be_bytes([0, self.codec.id()]);
        if self.append_time.is_some() {
            bits |= Attributes::LOG_APPEND_TIME;
        }
        if self.transactional {
            bits |= Attributes::TRANSACTIONAL;
        }
        if self.control {
            bits |= Attributes::CONTROL;
        }
        if self.delete_horizon.is_some() {
            bits |= Attributes::DELETE_HORIZON;
        }
        bits
    }
}
