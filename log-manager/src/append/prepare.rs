//! Makes the batches of a leader's append ready: all checks, everything set but the offset.
//!
//! Nothing here needs the log's lock: [`Prepared::assign`] is what is left to do under it.
//!
//! Source: `LogValidator` in Kafka.

use alluvium_record_format::{
    Batch, BatchHeader, BatchMut, Codec, LeaderEpoch, Offset, Position, Sequence, Timestamp,
    TimestampType,
};

use super::analysis::{Analysis, analyze_sent};
use super::check::{Check, Checked};
use super::rebuild::rebuild;
use super::records::{for_each_checked, summary_of};
use super::{AppendOrigin, InvalidBatch, ValidationError};
use crate::{CompressionType, LogConfig};

/// Who appends, as whom, and when.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppend {
    pub(super) origin: AppendOrigin,
    pub(super) leader_epoch: LeaderEpoch,
    pub(super) now: Timestamp,
}

impl LeaderAppend {
    /// A client's append to the leader of this epoch. `now` is the leader's clock: it bounds the
    /// records' times, and is their time on a topic with `LogAppendTime`.
    #[must_use]
    pub const fn new(leader_epoch: LeaderEpoch, now: Timestamp) -> Self {
        Self { origin: AppendOrigin::Client, leader_epoch, now }
    }

    /// The same from another origin.
    #[must_use]
    pub const fn origin(mut self, origin: AppendOrigin) -> Self {
        self.origin = origin;
        self
    }
}

/// One batch that is ready for a leader's log but for its offset.
#[derive(Debug)]
pub struct Prepared<'a> {
    bytes: Bytes<'a>,
    offset_count: u32,
    max_timestamp: i64,
    append_time: Option<Timestamp>,
}

#[derive(Debug)]
enum Bytes<'a> {
    /// The sender's, changed in place.
    Sent(&'a mut [u8]),
    /// A new batch: recompressed, or converted from an old format.
    Built(Vec<u8>),
}

impl<'a> Prepared<'a> {
    /// Checks what a client or coordinator sends to a leader, and makes it ready for the log.
    ///
    /// A batch of magic 2 that keeps its codec is changed in place: leader epoch, largest
    /// timestamp and its type. Any other is built anew. Returns `None` where the buffer holds no
    /// whole batch. Reads every byte twice, checksum and records; allocates nothing for an
    /// uncompressed batch that stays so.
    ///
    /// Records of a batch that is built anew get the offsets 0, 1, 2 and so on. Stricter than Kafka
    /// with a client's batch that stays uncompressed and has others: Kafka accepts that.
    ///
    /// # Errors
    ///
    /// The first rule that is broken; the buffer's content is unspecified then.
    ///
    /// # Examples
    ///
    /// ```
    /// # use alluvium_log_manager::{LeaderAppend, LogConfig, Prepared};
    /// # use alluvium_record_format::{
    /// #     BatchBuilder, BatchSettings, LeaderEpoch, Offset, SimpleRecord, Timestamp,
    /// # };
    /// let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    /// builder.append(&SimpleRecord::new().value(b"v").timestamp(Timestamp::new(1_000)))?;
    /// let mut sent = builder.finish()?.to_vec();
    ///
    /// let append = LeaderAppend::new(LeaderEpoch::new(3), Timestamp::new(1_005));
    /// let prepared = Prepared::check(&mut sent, &LogConfig::default(), append)?;
    /// let mut prepared = prepared.expect("one whole batch");
    /// let batch = prepared.assign(Offset::new(40))?;
    /// assert_eq!(batch.header().base_offset(), Offset::new(40));
    /// batch.verify_crc()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(
        buffer: &'a mut [u8],
        config: &LogConfig,
        append: LeaderAppend,
    ) -> Result<Option<Self>, ValidationError> {
        let analysis = analyze_sent(buffer, append.origin, config.max_message_bytes())?;
        if analysis.valid_bytes == 0 {
            return Ok(None);
        }
        let sent = buffer.split_at_mut(analysis.valid_bytes).0;
        if analysis.batch_count > 1 && (analysis.first_magic == 2 || analysis.source != Codec::None)
        {
            return Err(InvalidBatch::MoreThanOne.at(Position::default()));
        }
        let target = match config.compression_type() {
            CompressionType::Producer => analysis.source,
            CompressionType::Codec(codec) => codec,
        };
        if keeps_bytes(sent, &analysis, target) {
            Self::in_place(sent, config, append).map(Some)
        } else {
            Self::anew(sent, config, append, target).map(Some)
        }
    }

    /// Sets the offset of the first record and returns the batch, ready to be written.
    ///
    /// # Errors
    ///
    /// None for a batch that was checked: an error is a fault of this crate.
    pub fn assign(&mut self, next_offset: Offset) -> Result<Batch<'_>, ValidationError> {
        let last = next_offset.get().wrapping_add(i64::from(self.offset_count)).wrapping_sub(1);
        let bytes = match &mut self.bytes {
            Bytes::Sent(bytes) => bytes,
            Bytes::Built(bytes) => bytes.as_mut_slice(),
        };
        let corrupt = |source| ValidationError::Corrupt { source };
        BatchMut::parse(bytes, Position::default())
            .map_err(corrupt)?
            .set_last_offset(Offset::new(last));
        Batch::parse(bytes, Position::default()).map_err(corrupt)
    }

    /// How many offsets the batch takes.
    #[must_use]
    pub fn offset_count(&self) -> u32 {
        self.offset_count
    }

    /// The largest timestamp that the log will know the batch by.
    #[must_use]
    pub fn max_timestamp(&self) -> Option<Timestamp> {
        (self.max_timestamp != -1).then_some(Timestamp::new(self.max_timestamp))
    }

    /// The time that every record got, on a topic with `LogAppendTime`.
    #[must_use]
    pub fn append_time(&self) -> Option<Timestamp> {
        self.append_time
    }

    fn in_place(
        bytes: &'a mut [u8],
        config: &LogConfig,
        append: LeaderAppend,
    ) -> Result<Self, ValidationError> {
        let position = Position::default();
        let batch = Batch::parse(bytes, position).map_err(ValidationError::from_corruption)?;
        check_batch(batch.header(), append.origin, position)?;
        let checked = check_records(&batch, config, append)?;
        let (kind, max, append_time) = stored_time(config, append, checked);
        let max_time = (max != -1).then_some(Timestamp::new(max));
        let mut batch =
            BatchMut::parse(bytes, position).map_err(ValidationError::from_corruption)?;
        batch.set_leader_epoch(Some(append.leader_epoch));
        batch.set_max_timestamp(kind, max_time);
        let bytes = Bytes::Sent(bytes);
        Ok(Self { bytes, offset_count: checked.count, max_timestamp: max, append_time })
    }

    fn anew(
        sent: &[u8],
        config: &LogConfig,
        append: LeaderAppend,
        target: Codec,
    ) -> Result<Self, ValidationError> {
        let (built, checked) = rebuild(sent, config, append, target)?;
        let size_bytes = u64::try_from(built.len()).unwrap_or(u64::MAX);
        let max_bytes = config.max_message_bytes();
        if size_bytes > u64::from(max_bytes) {
            let position = Position::default();
            return Err(ValidationError::BatchTooLarge { position, size_bytes, max_bytes });
        }
        let (_, max, append_time) = stored_time(config, append, checked);
        Ok(Self {
            bytes: Bytes::Built(built),
            offset_count: checked.count,
            max_timestamp: max,
            append_time,
        })
    }
}

impl LeaderAppend {
    pub(super) const fn is_client(self) -> bool {
        matches!(self.origin, AppendOrigin::Client)
    }
}

impl InvalidBatch {
    pub(super) const fn at(self, position: Position) -> ValidationError {
        ValidationError::Batch { position, reason: self }
    }
}

/// Whether the batch goes into the log with the bytes that were sent.
fn keeps_bytes(sent: &[u8], analysis: &Analysis, target: Codec) -> bool {
    if analysis.first_magic != 2 {
        return false;
    }
    let is_control = || {
        Batch::parse(sent, Position::default())
            .is_ok_and(|batch| batch.header().attributes().is_control())
    };
    analysis.source == target || (analysis.source == Codec::None && is_control())
}

/// The type of the times in the log, the largest, and the leader's where it replaces them.
fn stored_time(
    config: &LogConfig,
    append: LeaderAppend,
    checked: Checked,
) -> (TimestampType, i64, Option<Timestamp>) {
    match config.message_timestamp_type() {
        TimestampType::LogAppendTime => {
            (TimestampType::LogAppendTime, append.now.get(), Some(append.now))
        }
        kind => (kind, checked.max_timestamp, None),
    }
}

/// Reads and checks every record of a batch that keeps its bytes.
fn check_records(
    batch: &Batch<'_>,
    config: &LogConfig,
    append: LeaderAppend,
) -> Result<Checked, ValidationError> {
    let header = batch.header();
    let mut check = Check::new(config, header.attributes().timestamp_type(), append.now);
    let base = header.base_offset().get();
    // A coordinator's batch without compression may have gaps: Kafka does not look at them.
    let dense = append.is_client() || header.attributes().codec() != Some(Codec::None);
    let limit = config.max_decompressed_message_bytes();
    if let Some(checked) = check.all(&summary_of(batch, limit)?) {
        return Ok(checked);
    }
    for_each_checked(batch, limit, |record| {
        let offset = dense.then(|| record.offset.get().wrapping_sub(base));
        let timestamp = record.timestamp.map_or(-1, Timestamp::get);
        check.record(record.key_bytes.is_some(), timestamp, offset);
    })?;
    check.finish(batch.position())
}

/// The rules for a batch as a whole.
pub(super) fn check_batch(
    header: &BatchHeader,
    origin: AppendOrigin,
    position: Position,
) -> Result<(), ValidationError> {
    if origin != AppendOrigin::Client {
        return Ok(());
    }
    let count = header.record_count();
    let span = i64::from(header.last_offset_delta()) + 1;
    if span <= 0 || count <= 0 || span != i64::from(count) {
        return Err(InvalidBatch::Count { count, span }.at(position));
    }
    if header.attributes().is_control() {
        return Err(InvalidBatch::ClientControl.at(position));
    }
    if header.producer_id().is_some() {
        match header.base_sequence() {
            Some(sequence) if sequence.get() >= 0 => {}
            other => {
                let found = other.map_or(-1, Sequence::get);
                return Err(InvalidBatch::NoSequence { found }.at(position));
            }
        }
    }
    Ok(())
}
