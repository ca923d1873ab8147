//! Builds batches byte for byte as Kafka does. Rules: `docs/format/record-batch.md#building`.

mod pieces;

use alloc::vec::Vec;
use core::iter;

use zerocopy::big_endian::{I16, I32, I64, U32};

use super::{BatchHeader, BatchSettings, BuildError};
use crate::record::Encoded;
use crate::{Codec, Compressor, ControlRecord, Header, Offset, Record, SimpleRecord, Timestamp};

/// Builds one batch after the other in a buffer of its own, which grows to the largest of them
/// and stays: no allocation per record, none per batch once warm.
///
/// Refuses what Kafka's builder refuses. A refused record leaves the batch as it was.
///
/// Source: `MemoryRecordsBuilder` in Kafka.
///
/// # Examples
///
/// ```
/// use alluvium_record_format::{Batch, BatchBuilder, BatchSettings, Offset, Position};
/// use alluvium_record_format::{SimpleRecord, Timestamp};
///
/// let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(100)));
/// let time = Timestamp::new(1_700_000_000_000);
/// builder.append(&SimpleRecord::new().timestamp(time).key(b"k1").value(b"v1"))?;
/// builder.append(&SimpleRecord::new().timestamp(time).key(b"k2"))?;
///
/// let batch = Batch::parse(builder.finish()?, Position::new(0))?;
/// assert_eq!(batch.header().next_offset(), Offset::new(102));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BatchBuilder {
    settings: BatchSettings,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    last_offset: Option<i64>,
    record_count: i32,
    /// Room for the header, then the records as they are.
    plain: Vec<u8>,
    /// Room for the header, then the compressed records.
    packed: Vec<u8>,
    compressor: Option<Compressor>,
    /// The level of the compressor.
    level: Option<i32>,
    /// Bytes of records that went from `plain` through the compressor into `packed`.
    spilled_bytes: usize,
    /// Bytes that the last record lacks.
    missing_bytes: usize,
    /// Bytes were lost, or may have gone through the compressor twice.
    is_broken: bool,
}

impl BatchBuilder {
    /// A builder whose first batch has these settings.
    #[must_use]
    pub fn new(settings: BatchSettings) -> Self {
        let mut builder = Self {
            settings,
            base_timestamp: None,
            max_timestamp: -1,
            last_offset: None,
            record_count: 0,
            plain: Vec::new(),
            packed: Vec::new(),
            compressor: None,
            level: None,
            spilled_bytes: 0,
            missing_bytes: 0,
            is_broken: false,
        };
        builder.reset(settings);
        builder
    }

    /// Drops the records and begins a batch with these settings, in the same buffers.
    pub fn reset(&mut self, settings: BatchSettings) {
        self.settings = settings;
        self.base_timestamp = settings.delete_horizon;
        self.max_timestamp = -1;
        self.last_offset = None;
        self.record_count = 0;
        self.plain.clear();
        self.plain.resize(BatchHeader::LEN, 0);
        self.spilled_bytes = 0;
        self.missing_bytes = 0;
        self.is_broken = false;
    }

    /// Appends a record at the offset after the last one, the base offset at first. Returns
    /// that offset.
    ///
    /// # Errors
    ///
    /// As [`append_with_offset`](Self::append_with_offset).
    pub fn append(&mut self, record: &SimpleRecord<'_>) -> Result<Offset, BuildError> {
        let offset = self.next_offset();
        self.append_with_offset(offset, record)?;
        Ok(offset)
    }

    /// Appends a record at `offset`. Gaps are fine.
    ///
    /// # Errors
    ///
    /// `OffsetOrder`, `OffsetRange`, `Timestamp`, `TooLarge`; `ControlMix` in a control batch;
    /// `PieceMissing` and `Broken` where [pieces](Self::append_piece) came before.
    pub fn append_with_offset(
        &mut self,
        offset: Offset,
        record: &SimpleRecord<'_>,
    ) -> Result<(), BuildError> {
        if self.settings.control {
            return Err(BuildError::ControlMix { control_batch: true });
        }
        let headers = record.headers.iter().copied();
        self.push(Place::new(offset, record.timestamp), record.key, record.value, headers)
    }

    /// Appends a control record at the offset after the last one. Returns that offset.
    ///
    /// # Errors
    ///
    /// As [`append_with_offset`](Self::append_with_offset); `ControlMix` where the batch is not a
    /// control batch, `UnknownControl` for a record of an unknown type.
    pub fn append_control(
        &mut self,
        timestamp: Option<Timestamp>,
        record: &ControlRecord,
    ) -> Result<Offset, BuildError> {
        if !self.settings.control {
            return Err(BuildError::ControlMix { control_batch: false });
        }
        if let ControlRecord::Unknown { type_id } = *record {
            return Err(BuildError::UnknownControl { type_id });
        }
        let mut value = Vec::new();
        record.write_value(&mut value);
        let offset = self.next_offset();
        let place = Place::new(offset, timestamp);
        self.push(place, Some(&record.key()), Some(&value), iter::empty())?;
        Ok(offset)
    }

    /// Appends a record of another batch, with its offset, time, key, value and headers. Under
    /// `LogAppendTime` the time is the batch's, and what the producer gave is gone. In a control
    /// batch it must be a control record, which is not checked.
    ///
    /// # Errors
    ///
    /// As [`append_with_offset`](Self::append_with_offset), but `ControlMix`.
    pub fn append_record(&mut self, record: &Record<'_>) -> Result<(), BuildError> {
        let place = Place::new(record.offset(), record.timestamp());
        self.push(place, record.key(), record.value(), record.headers())
    }

    /// As [`append_record`](Self::append_record), at the offset after the last one instead of its
    /// own. Returns that offset.
    ///
    /// # Errors
    ///
    /// As [`append_record`](Self::append_record).
    pub fn append_renumbered(&mut self, record: &Record<'_>) -> Result<Offset, BuildError> {
        let offset = self.next_offset();
        let place = Place::new(offset, record.timestamp());
        self.push(place, record.key(), record.value(), record.headers())?;
        Ok(offset)
    }

    /// Sets the last offset beyond the last record: compaction keeps the range of a batch when
    /// the records at its end go.
    ///
    /// # Errors
    ///
    /// `OffsetOrder` below the last record, `OffsetRange`.
    pub fn set_last_offset(&mut self, offset: Offset) -> Result<(), BuildError> {
        self.offset_delta(offset)?;
        match self.last_offset {
            Some(last) if offset.get() < last => {
                Err(BuildError::OffsetOrder { offset: offset.get(), last })
            }
            _ => {
                self.last_offset = Some(offset.get());
                Ok(())
            }
        }
    }

    /// Compresses the records where the settings say so, writes header and CRC, and returns the
    /// batch; nothing at all without a record. The batch stays open: append more and finish
    /// again, or [`reset`](Self::reset). A batch that was compressed
    /// [piece by piece](Self::append_piece) cannot go on: this resets the builder.
    ///
    /// # Errors
    ///
    /// `NoProducerId`, `NoProducerEpoch`, `NoSequence`, `Timestamp`, `TooLarge`, `Compress`,
    /// `PieceMissing`, `Broken`. After `Compress`, a batch that was compressed piece by piece is
    /// broken.
    pub fn finish(&mut self) -> Result<&[u8], BuildError> {
        self.check()?;
        let Some(last_offset) = self.last_offset.filter(|_| self.record_count > 0) else {
            return Ok(&[]);
        };
        let mut header = self.header(last_offset);
        let batch = if self.settings.codec == Codec::None {
            &mut self.plain
        } else {
            self.pack()?;
            &mut self.packed
        };
        header.batch_length = I32::new(batch_length(batch.len())?);
        if let Some((slot, payload)) = batch.split_first_chunk_mut() {
            header.write_crc(payload);
            *slot = *header.as_bytes();
        }
        Ok(batch)
    }

    /// Records of the batch so far.
    #[must_use]
    pub const fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Bytes of the batch so far, before compression.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.plain.len().saturating_add(self.spilled_bytes)
    }

    fn push<'h>(
        &mut self,
        place: Place,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl ExactSizeIterator<Item = Header<'h>> + Clone,
    ) -> Result<(), BuildError> {
        let (timestamp_delta, offset_delta) = self.deltas(place)?;
        let record = Encoded::new(timestamp_delta, offset_delta, key, value, headers);
        let size = record.size_bytes();
        batch_length(self.plain.len().saturating_add(size))?;
        // A constant number of bytes goes out where few are needed.
        self.plain.reserve(size.saturating_add(64));
        record.write(&mut self.plain);
        self.count(place);
        Ok(())
    }

    /// How far time and offset of a record are from those of the batch, if it may come next.
    fn deltas(&self, Place { offset, timestamp }: Place) -> Result<(i64, i32), BuildError> {
        self.check_pieces()?;
        if timestamp < -1 {
            return Err(BuildError::Timestamp { found: timestamp });
        }
        let offset_delta = self.offset_delta(offset)?;
        if let Some(last) = self.last_offset.filter(|last| offset.get() <= *last) {
            return Err(BuildError::OffsetOrder { offset: offset.get(), last });
        }
        let base = self.base_timestamp.unwrap_or(timestamp);
        Ok((timestamp.wrapping_sub(base), offset_delta))
    }

    /// Takes in that a record was written.
    fn count(&mut self, Place { offset, timestamp }: Place) {
        self.base_timestamp.get_or_insert(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset = Some(offset.get());
        self.record_count = self.record_count.saturating_add(1);
    }

    /// Compresses the records into the other buffer.
    fn pack(&mut self) -> Result<(), BuildError> {
        let has_spilled = self.spilled_bytes > 0;
        self.compress(true)?;
        if has_spilled {
            self.reset(self.settings);
        }
        Ok(())
    }

    /// Compresses what there is of records, behind what was compressed before. After an error
    /// nobody knows how much of them went into a stream that cannot be begun again.
    fn compress(&mut self, is_end: bool) -> Result<(), BuildError> {
        let compressed = self.compress_waiting(is_end);
        self.is_broken |= compressed.is_err() && self.spilled_bytes > 0;
        compressed
    }

    fn compress_waiting(&mut self, is_end: bool) -> Result<(), BuildError> {
        let (codec, level) = (self.settings.codec, self.settings.level);
        let compressor = match &mut self.compressor {
            Some(ready) if ready.codec() == codec && self.level == level => ready,
            other => {
                let ready = other.insert(Compressor::new(codec, level)?);
                self.level = level;
                ready
            }
        };
        if self.spilled_bytes == 0 {
            self.packed.clear();
            self.packed.resize(BatchHeader::LEN, 0);
            compressor.reset();
        }
        let records = self.plain.get(BatchHeader::LEN..).unwrap_or_default();
        compressor.write(records, &mut self.packed)?;
        if is_end {
            compressor.finish(&mut self.packed)?;
        }
        Ok(())
    }

    /// Whether the last record is whole, and all before it.
    const fn check_pieces(&self) -> Result<(), BuildError> {
        match self.missing_bytes {
            _ if self.is_broken => Err(BuildError::Broken),
            0 => Ok(()),
            missing_bytes => Err(BuildError::PieceMissing { missing_bytes }),
        }
    }

    fn check(&self) -> Result<(), BuildError> {
        let settings = &self.settings;
        self.check_pieces()?;
        let has_producer = settings.producer_id != -1;
        if settings.transactional && !has_producer {
            return Err(BuildError::NoProducerId);
        }
        if has_producer && settings.producer_epoch == -1 {
            return Err(BuildError::NoProducerEpoch);
        }
        if has_producer && settings.base_sequence < 0 && !settings.control {
            return Err(BuildError::NoSequence);
        }
        match settings.delete_horizon {
            Some(found) if found < 0 => Err(BuildError::Timestamp { found }),
            _ => Ok(()),
        }
    }

    fn header(&self, last_offset: i64) -> BatchHeader {
        let settings = &self.settings;
        let delta = last_offset.wrapping_sub(settings.base_offset);
        BatchHeader {
            base_offset: I64::new(settings.base_offset),
            batch_length: I32::new(0),
            leader_epoch: I32::new(settings.leader_epoch),
            magic: 2,
            crc: U32::new(0),
            attributes: I16::new(settings.attributes()),
            last_offset_delta: I32::new(i32::try_from(delta).unwrap_or(i32::MAX)),
            base_timestamp: I64::new(self.base_timestamp.unwrap_or(-1)),
            max_timestamp: I64::new(settings.append_time.unwrap_or(self.max_timestamp)),
            producer_id: I64::new(settings.producer_id),
            producer_epoch: I16::new(settings.producer_epoch),
            base_sequence: I32::new(settings.base_sequence),
            record_count: I32::new(self.record_count),
        }
    }

    /// The offset after the last one; the range check refuses one that does not fit.
    fn next_offset(&self) -> Offset {
        let next = self.last_offset.map(|last| last.saturating_add(1));
        Offset::new(next.unwrap_or(self.settings.base_offset))
    }

    /// The distance from the base offset, if it is in range.
    fn offset_delta(&self, offset: Offset) -> Result<i32, BuildError> {
        let base = self.settings.base_offset;
        let delta = offset.get().checked_sub(base).filter(|delta| *delta >= 0);
        delta
            .and_then(|delta| i32::try_from(delta).ok())
            .ok_or(BuildError::OffsetRange { offset: offset.get(), base })
    }
}

/// Where a record stands.
#[derive(Clone, Copy)]
struct Place {
    offset: Offset,
    timestamp: i64,
}

impl Place {
    fn new(offset: Offset, timestamp: Option<Timestamp>) -> Self {
        Self { offset, timestamp: timestamp.map_or(-1, Timestamp::get) }
    }
}

/// The length field of a batch of `size` bytes.
fn batch_length(size: usize) -> Result<i32, BuildError> {
    let too_large = || BuildError::TooLarge { size_bytes: u64::try_from(size).unwrap_or(u64::MAX) };
    let size = i32::try_from(size).map_err(|_above_31_bits| too_large())?;
    Ok(size.saturating_sub(12))
}
