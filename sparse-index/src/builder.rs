//! Builds the bytes of an offset and a time index from a stream of batches.

use alluvium_record_format::{Offset, Timestamp};

use crate::{BatchInfo, IndexRule, OffsetEntry, Refusal, TimeEntry};

/// Builds both indexes of a segment in memory: what recovery writes, for tools that compare.
///
/// # Examples
///
/// ```
/// # use alluvium_record_format::{Offset, Position, Timestamp};
/// # use alluvium_sparse_index::{BatchInfo, IndexBuilder, Refusal};
/// let mut builder = IndexBuilder::new(Offset::new(0), 100);
/// for number in 0..3 {
///     let position = Position::new(number * 150);
///     let time = Some(Timestamp::new(9));
///     builder.push(BatchInfo::new(Offset::new(number.into()), position, 150, time))?;
/// }
/// let built = builder.finish()?;
/// assert_eq!(built.offset_index, [0, 0, 0, 1, 0, 0, 0, 150, 0, 0, 0, 2, 0, 0, 1, 44]);
/// assert_eq!(built.time_index, [0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0]);
/// # Ok::<(), Refusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct IndexBuilder {
    base: Offset,
    rule: IndexRule,
    last_offset: Option<Offset>,
    last_time: Option<TimeEntry>,
    built: BuiltIndexes,
}

/// The bytes of both indexes of a segment, trimmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuiltIndexes {
    /// The `.index` file.
    pub offset_index: Vec<u8>,
    /// The `.timeindex` file.
    pub time_index: Vec<u8>,
}

impl IndexBuilder {
    /// A builder for the segment with base offset `base`, with an entry every `interval_bytes`
    /// (`index.interval.bytes`).
    #[must_use]
    pub const fn new(base: Offset, interval_bytes: u32) -> Self {
        let built = BuiltIndexes { offset_index: Vec::new(), time_index: Vec::new() };
        let rule = IndexRule::new(interval_bytes);
        Self { base, rule, last_offset: None, last_time: None, built }
    }

    /// Takes the next batch of the file.
    ///
    /// # Errors
    ///
    /// As the append functions of the index files: Kafka's recovery empties the segment for
    /// `OutOfOrder`, and splits it for `OffsetOverflow`.
    pub fn push(&mut self, batch: BatchInfo) -> Result<(), Refusal> {
        if batch.last_offset.relative_to(self.base).is_none() {
            return Err(Refusal::OffsetOverflow { base: self.base, offset: batch.last_offset });
        }
        let Some(due) = self.rule.on_batch(batch) else { return Ok(()) };
        check_offset(self.last_offset, due.offset)?;
        let packed = due.offset.pack(self.base)?;
        self.built.offset_index.extend_from_slice(&packed.to_be_bytes());
        self.last_offset = Some(due.offset.offset);
        due.time.map_or(Ok(()), |time| self.push_time(time))
    }

    /// Gives the next batch an entry, however near the last one is: one behind bytes that are no
    /// batch, where no walk from an entry before arrives.
    pub const fn make_next_due(&mut self) {
        self.rule.make_next_due();
    }

    /// Appends the final entry of the time index, and returns the bytes.
    ///
    /// # Errors
    ///
    /// `OutOfOrder`, `TimestampOutOfOrder` for the final entry.
    pub fn finish(mut self) -> Result<BuiltIndexes, Refusal> {
        if let Some(time) = self.rule.max_timestamp() {
            self.push_time(time)?;
        }
        Ok(self.built)
    }

    fn push_time(&mut self, entry: TimeEntry) -> Result<(), Refusal> {
        if !check_time(self.last_time, entry)? {
            return Ok(());
        }
        for word in entry.pack(self.base)? {
            self.built.time_index.extend_from_slice(&word.to_be_bytes());
        }
        self.last_time = Some(entry);
        Ok(())
    }
}

/// Refuses an offset that is not above that of the last entry, if there is one.
pub(crate) fn check_offset(last: Option<Offset>, entry: OffsetEntry) -> Result<(), Refusal> {
    match last {
        Some(last) if entry.offset <= last => {
            Err(Refusal::OutOfOrder { last, found: entry.offset })
        }
        _ => Ok(()),
    }
}

/// Refuses an entry below the last one in offset or time. Returns whether it adds anything:
/// a timestamp that is not above the last is passed over, and -1 always is.
pub(crate) fn check_time(last: Option<TimeEntry>, entry: TimeEntry) -> Result<bool, Refusal> {
    let Some(last) = last else { return Ok(entry.timestamp > NO_TIMESTAMP) };
    if entry.offset < last.offset {
        return Err(Refusal::OutOfOrder { last: last.offset, found: entry.offset });
    }
    if entry.timestamp < last.timestamp {
        let (last, found) = (last.timestamp, entry.timestamp);
        return Err(Refusal::TimestampOutOfOrder { last, found });
    }
    Ok(entry.timestamp > last.timestamp)
}

/// The last timestamp of an empty index, in Kafka.
const NO_TIMESTAMP: Timestamp = Timestamp::new(-1);
