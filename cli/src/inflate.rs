//! The records of an entry, whatever its codec and magic.

use std::ops::ControlFlow;

use alluvium_record_format::{
    Batch, Codec, CorruptKind, Corruption, Decompressor, Entry, Headers, LegacyEntry, LegacyRecord,
    LegacyRecords, Offset, OffsetRange, Record, RecordStream, Timestamp,
};

/// The largest record that is stepped over: Kafka's default of `max.decompressed.message.bytes`.
const MAX_RECORD_BYTES: usize = 2_147_483_639;

/// The largest record that is shown, and held for that: some KiB on the disk may inflate to this.
const SHOWN_RECORD_BYTES: usize = 256 << 20;

/// The largest set of messages in a wrapper of magic 0 or 1 that is inflated. Wrappers were at
/// most `message.max.bytes` long when they were written.
const MAX_WRAPPER_BYTES: usize = 64 * 1024 * 1024;

/// Payloads that inflate to no more are checked in one piece, which is faster.
const ONE_PIECE_BYTES: usize = 4 * 1024 * 1024;

/// What the check of a batch's records found, where it found no fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Checked {
    /// The offsets of the records, if there are any.
    Offsets(Option<OffsetRange>),
    /// The payload inflates to more than is held: its records have to be read one by one.
    TooLarge,
}

/// A record of a batch, or a message of magic 0 or 1.
#[derive(Clone, Debug)]
pub(crate) struct AnyRecord<'r> {
    pub(crate) offset: Offset,
    pub(crate) timestamp: Option<Timestamp>,
    pub(crate) key: Option<&'r [u8]>,
    pub(crate) value: Option<&'r [u8]>,
    pub(crate) headers: Headers<'r>,
}

impl<'r> From<&'r Record<'_>> for AnyRecord<'r> {
    fn from(record: &'r Record<'_>) -> Self {
        Self {
            offset: record.offset(),
            timestamp: record.timestamp(),
            key: record.key(),
            value: record.value(),
            headers: record.headers(),
        }
    }
}

impl<'r> From<&'r LegacyRecord<'_>> for AnyRecord<'r> {
    fn from(record: &'r LegacyRecord<'_>) -> Self {
        Self {
            offset: record.offset(),
            timestamp: record.timestamp(),
            key: record.key(),
            value: record.value(),
            headers: Headers::default(),
        }
    }
}

/// Decompresses batches, and keeps its buffers from one to the next.
///
/// Memory is bounded by the largest record, whatever a payload inflates to.
#[derive(Debug, Default)]
pub(crate) struct Inflater {
    decompressor: Decompressor,
    buffer: Vec<u8>,
}

impl Inflater {
    /// The records of a batch, one by one: of [`SHOWN_RECORD_BYTES`] at most, each held.
    pub(crate) fn records<'s>(
        &'s mut self,
        batch: &Batch<'s>,
    ) -> Result<RecordStream<'s>, Corruption> {
        self.decompressor.records(batch, SHOWN_RECORD_BYTES)
    }

    /// The records of a batch, to be read by their parts alone: none of them is held.
    pub(crate) fn parts<'s>(
        &'s mut self,
        batch: &Batch<'s>,
    ) -> Result<RecordStream<'s>, Corruption> {
        self.decompressor.records(batch, MAX_RECORD_BYTES)
    }

    /// The messages of an entry of magic 0 or 1.
    pub(crate) fn legacy_records<'b>(
        &'b mut self,
        entry: &LegacyEntry<'b>,
    ) -> Result<LegacyRecords<'b>, Corruption> {
        self.decompressor.inflate_legacy(entry, MAX_WRAPPER_BYTES, &mut self.buffer)
    }

    /// Shows the records of an entry to `visit`, until it breaks; returns what it broke with.
    pub(crate) fn visit<B>(
        &mut self,
        entry: &Entry<'_>,
        mut visit: impl FnMut(AnyRecord<'_>) -> ControlFlow<B>,
    ) -> Result<Option<B>, Corruption> {
        match entry {
            Entry::Batch(batch) => {
                let mut records = self.records(batch)?;
                while let Some(record) = records.next_record() {
                    if let ControlFlow::Break(value) = visit(AnyRecord::from(&record?)) {
                        return Ok(Some(value));
                    }
                }
            }
            Entry::Legacy(entry) => {
                for record in self.legacy_records(entry)? {
                    if let ControlFlow::Break(value) = visit(AnyRecord::from(&record?)) {
                        return Ok(Some(value));
                    }
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Reads all records of a batch.
    pub(crate) fn check(&mut self, batch: &Batch<'_>) -> Result<Checked, Corruption> {
        if batch.header().attributes().codec() == Some(Codec::None) {
            return Ok(Checked::Offsets(batch.records()?.check_offsets()?));
        }
        match self.decompressor.inflate(batch, ONE_PIECE_BYTES, &mut self.buffer) {
            Ok(records) => Ok(Checked::Offsets(records.check_offsets()?)),
            Err(corruption) if matches!(corruption.kind(), CorruptKind::OutputLimit { .. }) => {
                Ok(Checked::TooLarge)
            }
            Err(corruption) => Err(corruption),
        }
    }

    /// Reads all records of a batch that inflates to more than is held, one by one.
    pub(crate) fn check_parts(&mut self, batch: &Batch<'_>) -> Result<(), Corruption> {
        let mut records = self.parts(batch)?;
        while let Some(record) = records.next_partial() {
            record?;
        }
        Ok(())
    }

    /// Bytes of the payload of a batch once inflated, counted piece by piece.
    pub(crate) fn inflated_bytes(&mut self, batch: &Batch<'_>) -> Result<u64, CorruptKind> {
        let codec = batch.header().attributes().codec().unwrap_or_default();
        if codec == Codec::None || batch.header().record_count() == 0 {
            return Ok(batch.payload().len() as u64);
        }
        let mut decoder = self.decompressor.decoder(codec, batch.payload())?;
        let mut bytes = 0;
        loop {
            self.buffer.clear();
            match decoder.pull(&mut self.buffer)? {
                0 => return Ok(bytes),
                count => bytes += count as u64,
            }
        }
    }

    /// Records with a key and no value, up to the first that cannot be read. Keys and values are
    /// stepped over: a record takes no memory, however large it is.
    pub(crate) fn tombstones(&mut self, batch: &Batch<'_>) -> u64 {
        let Ok(mut records) = self.parts(batch) else { return 0 };
        let mut count = 0;
        while let Some(Ok(record)) = records.next_partial() {
            count += u64::from(record.key_bytes.is_some() && record.value_bytes.is_none());
        }
        count
    }

    /// The largest timestamp of the records of an entry, -1 without any. `None` where they
    /// cannot be read.
    pub(crate) fn max_timestamp(&mut self, entry: &Entry<'_>) -> Option<i64> {
        let mut max = -1;
        let seen = self.visit(entry, |record| {
            max = max.max(record.timestamp.map_or(-1, Timestamp::get));
            ControlFlow::<()>::Continue(())
        });
        seen.ok()?;
        Some(max)
    }
}
