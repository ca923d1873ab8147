//! Changes to a batch in the buffer where it lies. Rules: `docs/format/record-batch.md#edits`.

use zerocopy::FromBytes;
use zerocopy::big_endian::{I16, I32, I64};

use super::{Attributes, Batch, BatchHeader, BuildError, TimestampType};
use crate::{CorruptKind, Corruption, LeaderEpoch, Offset, Position, Timestamp};

/// One whole v2 batch in a buffer, borrowed for changes to its header.
///
/// The record bytes stay as they are, so nothing is decompressed and nothing moves. Base offset
/// and leader epoch lie outside the CRC and cost two stores; the other edits read the whole
/// batch once to renew it. Attribute bits without a meaning survive every edit.
///
/// # Examples
///
/// What a leader does with a batch of a client:
///
/// ```
/// # use alluvium_record_format::{Batch, BatchBuilder, BatchMut, BatchSettings, SimpleRecord};
/// # use alluvium_record_format::{LeaderEpoch, Offset, Position, Timestamp, TimestampType};
/// # let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
/// # builder.append(&SimpleRecord::new().value(b"v"))?;
/// # let mut bytes = builder.finish()?.to_vec();
/// let mut batch = BatchMut::parse(&mut bytes, Position::new(0))?;
/// batch.set_last_offset(Offset::new(41));
/// batch.set_leader_epoch(Some(LeaderEpoch::new(3)));
/// batch.set_max_timestamp(TimestampType::LogAppendTime, Some(Timestamp::new(1_700_000_000_000)));
///
/// Batch::parse(&bytes, Position::new(0))?.verify_crc()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BatchMut<'a> {
    header: &'a mut BatchHeader,
    payload: &'a mut [u8],
}

impl<'a> BatchMut<'a> {
    /// Reads the batch at the start of `bytes`, which is byte `at` of its file; later bytes are
    /// left alone. Checks shape, not content: edit a batch whose CRC was verified, as an edit
    /// that renews the CRC hides earlier damage.
    ///
    /// # Errors
    ///
    /// As [`Batch::parse`].
    pub fn parse(bytes: &'a mut [u8], at: Position) -> Result<Self, Corruption> {
        let size = Batch::parse(bytes, at)?.bytes().len();
        let have = bytes.len();
        let short = || CorruptKind::Truncated { need: BatchHeader::LEN, have }.at(at);
        let batch = bytes.get_mut(..size).ok_or_else(short)?;
        let (header, payload) =
            BatchHeader::mut_from_prefix(batch).map_err(|_parsed_above| short())?;
        Ok(Self { header, payload })
    }

    /// Moves the batch: every record's offset moves along. The CRC stays.
    pub fn set_base_offset(&mut self, base: Offset) {
        self.header.base_offset = I64::new(base.get());
    }

    /// Moves the batch so that it ends at `last`. The CRC stays.
    ///
    /// Source: `DefaultRecordBatch.setLastOffset` in Kafka.
    pub fn set_last_offset(&mut self, last: Offset) {
        let delta = i64::from(self.header.last_offset_delta());
        self.set_base_offset(Offset::new(last.get().wrapping_sub(delta)));
    }

    /// Stores the epoch of the leader, -1 for `None`. The CRC stays.
    pub fn set_leader_epoch(&mut self, epoch: Option<LeaderEpoch>) {
        self.header.leader_epoch = I32::new(epoch.map_or(-1, LeaderEpoch::get));
    }

    /// Stores timestamp type and largest timestamp, -1 for `None`, and renews the CRC; does
    /// nothing where both are there already. Returns whether the batch changed.
    ///
    /// With [`TimestampType::LogAppendTime`] this is the time of every record.
    ///
    /// Source: `DefaultRecordBatch.setMaxTimestamp` in Kafka, which drops attribute bits without
    /// a meaning.
    pub fn set_max_timestamp(&mut self, kind: TimestampType, max: Option<Timestamp>) -> bool {
        let max = max.map_or(-1, Timestamp::get);
        let attributes = self.header.attributes();
        if attributes.timestamp_type() == kind && self.header.max_timestamp_raw() == max {
            return false;
        }
        let bits = match kind {
            TimestampType::CreateTime => attributes.bits() & !Attributes::LOG_APPEND_TIME,
            TimestampType::LogAppendTime => attributes.bits() | Attributes::LOG_APPEND_TIME,
        };
        self.header.attributes = I16::new(bits);
        self.header.max_timestamp = I64::new(max);
        self.rewrite_crc();
        true
    }

    /// Stores the time at which tombstones and markers of the batch may go, and renews the CRC.
    ///
    /// The horizon takes the place of the base timestamp, to which the records' times relate.
    /// So this works where no record depends on it: with `LogAppendTime`, without records, or
    /// where the base timestamp stays the same. Rebuild other batches with
    /// [`BatchSettings::delete_horizon`](super::BatchSettings::delete_horizon).
    ///
    /// # Errors
    ///
    /// [`BuildError::RecordTimes`] where records would change their times, and
    /// [`BuildError::Timestamp`] for a horizon below 0. Nothing changes then.
    pub fn set_delete_horizon(&mut self, horizon: Timestamp) -> Result<(), BuildError> {
        let header = &mut *self.header;
        if horizon.get() < 0 {
            return Err(BuildError::Timestamp { found: horizon.get() });
        }
        let free = header.is_empty()
            || header.attributes().timestamp_type() == TimestampType::LogAppendTime
            || header.base_timestamp_raw() == horizon.get();
        if !free {
            return Err(BuildError::RecordTimes { record_count: header.record_count() });
        }
        header.attributes = I16::new(header.attributes().bits() | Attributes::DELETE_HORIZON);
        header.base_timestamp = I64::new(horizon.get());
        self.rewrite_crc();
        Ok(())
    }

    /// Stores the CRC of the bytes as they are.
    pub fn rewrite_crc(&mut self) {
        self.header.write_crc(self.payload);
    }

    /// The header with the edits so far.
    #[must_use]
    pub const fn header(&self) -> &BatchHeader {
        self.header
    }
}
