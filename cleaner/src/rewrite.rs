//! Copies what stays of a group of segments.

use std::sync::Arc;

use alluvium_record_format::{
    Batch, BatchBuilder, BatchHeader, BatchSettings, BuildError, Codec, CorruptKind, Corruption,
    Entry, LegacyEntry, Offset, Position, RecordStream, SimpleRecord, Timestamp, TimestampType,
};
use alluvium_segment::{FileKind, Segment};

use crate::aborted::collect_aborted;
use crate::build::{REPORT_BYTES, control_type};
use crate::cached::{Rising, is_cached, walk};
use crate::clean::{CleanedSegment, Counts, Progress};
use crate::error::CleanError;
use crate::host::CleanHost;
use crate::keys::{LEGACY_INFLATE_BYTES, Reader};
use crate::offset_map::OffsetMap;
use crate::output::{Output, PushError};
use crate::rules::{Fate, Rules, Survivors};
use crate::transactions::{Marker, Transactions};

/// Memory that is used from batch to batch.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) reader: Reader,
    pub(crate) survivors: Survivors,
    pub(crate) builder: BatchBuilder,
}

impl Scratch {
    /// For the keys of a map.
    pub(crate) fn of(map: &OffsetMap) -> Self {
        Self {
            reader: Reader::of(map),
            survivors: Survivors::default(),
            builder: BatchBuilder::new(BatchSettings::new(Offset::new(0))),
        }
    }
}

/// One run over the groups of a log. What it knows of transactions outlives a group.
#[derive(Debug)]
pub(crate) struct Rewrite<'a> {
    pub(crate) rules: Rules<'a>,
    pub(crate) scratch: &'a mut Scratch,
    pub(crate) transactions: Transactions,
    /// Tombstones of magic 0 and 1 go in segments that were last changed up to here.
    pub(crate) legacy_horizon: Timestamp,
    pub(crate) counts: Counts,
}

/// Why a batch could not be handled: with the file's path it becomes a [`CleanError`].
enum Trouble {
    Corrupt(Corruption),
    Build(BuildError),
    Write(alluvium_segment::SegmentError),
    /// What is to be written lies below what was.
    Falls(Offset),
}

impl Rewrite<'_> {
    /// Copies what stays of `group` into `output`. `segments` are all of the log.
    pub(crate) fn group(
        &mut self,
        segments: &[Arc<Segment>],
        group: &[Arc<Segment>],
        output: &mut Output,
        host: &mut dyn CleanHost,
    ) -> Result<Vec<CleanedSegment>, CleanError> {
        let mut cleaned = Vec::new();
        for (index, segment) in group.iter().enumerate() {
            let from = segment.base_offset();
            let to = match group.get(index + 1) {
                Some(next) => next.base_offset(),
                None => segment.next_offset().map_err(CleanError::segment)?,
            };
            let aborted = collect_aborted(segments, self.rules.options, from, to)?;
            self.transactions.expect(aborted);
            self.segment(segment, Rising::within(segment, segments), output, host)?;
            cleaned.push(CleanedSegment {
                base_offset: from,
                size_bytes: segment.size_bytes(),
                counts: std::mem::take(&mut self.counts),
            });
        }
        Ok(cleaned)
    }

    fn segment(
        &mut self,
        segment: &Segment,
        mut rising: Rising,
        output: &mut Output,
        host: &mut dyn CleanHost,
    ) -> Result<(), CleanError> {
        let path = || segment.path(FileKind::Log);
        let trouble = |trouble, at| match trouble {
            Trouble::Corrupt(source) => CleanError::Corrupt { path: path(), source },
            Trouble::Falls(offset) => {
                let source = CorruptKind::out_of_range(offset.get()).at(at);
                CleanError::Corrupt { path: path(), source }
            }
            Trouble::Build(source) => CleanError::Rebuild { path: path(), position: at, source },
            Trouble::Write(source) => CleanError::segment(source),
        };
        let keeps_legacy_tombstones =
            segment.modified().map_err(CleanError::segment)? > self.legacy_horizon;
        output.set_cached(is_cached(segment)).map_err(CleanError::segment)?;
        let mut walker = walk(segment, Position::new(0))?;
        let mut unreported = 0;
        while let Some(entry) = walker.next_entry().map_err(CleanError::segment)? {
            let len = entry.bytes().len() as u64;
            self.counts.bytes_read += len;
            let at = entry.position();
            rising.check(&entry).map_err(|damage| trouble(damage.into(), at))?;
            match entry {
                Entry::Batch(batch) => self.batch(&batch, output),
                Entry::Legacy(entry) => self.legacy(&entry, keeps_legacy_tombstones, output),
                _ => Ok(()),
            }
            .map_err(|error| trouble(error, at))?;
            unreported += len;
            if unreported >= REPORT_BYTES {
                let read = std::mem::take(&mut unreported);
                host.progress(Progress { read, written: output.take_written() })?;
            }
        }
        host.progress(Progress { read: unreported, written: output.take_written() })?;
        match walker.tail() {
            Some(source) => Err(CleanError::Corrupt { path: path(), source }),
            None => Ok(()),
        }
    }

    fn batch(&mut self, batch: &Batch<'_>, output: &mut Output) -> Result<(), Trouble> {
        let header = batch.header();
        let is_idle = self.is_idle(batch, output)?;
        let drops_records = self.rules.drops_records(header, is_idle);
        let fate = self.rules.fate(header, drops_records);
        if fate == Fate::Delete {
            return Ok(());
        }
        let Scratch { reader, survivors, .. } = &mut *self.scratch;
        self.rules.pick(reader, batch, drops_records, survivors)?;
        self.counts.records_read += survivors.seen;
        if survivors.count == 0 {
            return match fate {
                Fate::RetainEmpty => self.push(header.to_empty().as_bytes(), output),
                _ => Ok(()),
            };
        }
        self.counts.records_written += survivors.count;
        let ends_nothing = is_idle && header.attributes().is_control();
        let needs_horizon =
            (survivors.has_tombstone || ends_nothing) && header.delete_horizon().is_none();
        if survivors.all_stay() && !needs_horizon {
            return self.push(batch.bytes(), output);
        }
        let mut settings = BatchSettings::of(header);
        if needs_horizon {
            settings = settings.delete_horizon(self.horizon());
        }
        self.rebuild(batch, settings, output)
    }

    /// Whether nothing needs the batch: its transaction was aborted, or it is a marker without
    /// batches to end.
    fn is_idle(&mut self, batch: &Batch<'_>, output: &Output) -> Result<bool, Trouble> {
        let header = batch.header();
        if !header.attributes().is_control() {
            return Ok(self.transactions.data(header));
        }
        let limit = self.rules.options.max_record_bytes;
        let kind = control_type(&mut self.scratch.reader, batch, limit)?;
        match self.transactions.control(header, kind) {
            Marker::Idle => Ok(true),
            Marker::Needed => Ok(false),
            Marker::Aborts(txn) => {
                output.aborted(txn).map_err(Trouble::Write)?;
                Ok(false)
            }
        }
    }

    /// Builds the batch again with the records that stay, in its old range of offsets.
    fn rebuild(
        &mut self,
        batch: &Batch<'_>,
        settings: BatchSettings,
        output: &mut Output,
    ) -> Result<(), Trouble> {
        let limit = self.rules.options.max_record_bytes;
        let Scratch { reader, survivors, builder } = &mut *self.scratch;
        builder.reset(settings);
        let mut keep = survivors.keep.iter();
        if let Some(records) = reader.held(batch, limit)? {
            for record in records {
                let record = record?;
                if keep.next() == Some(true) {
                    builder.append_record(&record)?;
                }
            }
        } else {
            let records = reader.decompressor.records(batch, limit)?;
            append_pieces(records, keep, builder)?;
        }
        builder.set_last_offset(batch.header().last_offset())?;
        Self::push_built(builder, &mut self.counts, output)
    }

    /// An entry of magic 0 or 1 becomes a batch of magic 2, also where all its messages stay:
    /// a segment that is written holds nothing else.
    fn legacy(
        &mut self,
        entry: &LegacyEntry<'_>,
        tombstones_stay: bool,
        output: &mut Output,
    ) -> Result<(), Trouble> {
        let Scratch { reader, survivors, .. } = &mut *self.scratch;
        self.rules.pick_legacy(reader, entry, tombstones_stay, survivors)?;
        self.counts.records_read += survivors.seen;
        self.counts.records_written += survivors.count;
        if survivors.count > 0 {
            return self.rebuild_legacy(entry, output);
        }
        if !self.rules.is_at_high_watermark(entry.offset()) {
            return Ok(());
        }
        let builder = &mut self.scratch.builder;
        builder.reset(BatchSettings::new(entry.offset()));
        builder.append(&SimpleRecord::new())?;
        let built = builder.finish()?;
        let header = BatchHeader::parse(built, Position::new(0))?;
        let empty = header.to_empty();
        self.push(empty.as_bytes(), output)
    }

    fn rebuild_legacy(
        &mut self,
        entry: &LegacyEntry<'_>,
        output: &mut Output,
    ) -> Result<(), Trouble> {
        let horizon = self.horizon();
        let Scratch { reader, survivors, builder } = &mut *self.scratch;
        let Reader { decompressor, inflated, .. } = reader;
        let records = decompressor.inflate_legacy(entry, LEGACY_INFLATE_BYTES, inflated)?;
        let mut is_first = true;
        for (record, stays) in records.zip(survivors.keep.iter()) {
            let record = record?;
            if !stays {
                continue;
            }
            if std::mem::take(&mut is_first) {
                let codec = entry.codec().unwrap_or(Codec::None);
                let mut settings = BatchSettings::new(record.offset()).codec(codec);
                if entry.timestamp_type() == Some(TimestampType::LogAppendTime) {
                    settings = settings.log_append_time(Timestamp::new(entry.timestamp_raw()));
                }
                if survivors.has_tombstone {
                    settings = settings.delete_horizon(horizon);
                }
                builder.reset(settings);
            }
            let mut simple = SimpleRecord::new();
            simple = record.timestamp().map_or(simple, |time| simple.timestamp(time));
            simple = record.key().map_or(simple, |key| simple.key(key));
            simple = record.value().map_or(simple, |value| simple.value(value));
            builder.append_with_offset(record.offset(), &simple)?;
        }
        Self::push_built(builder, &mut self.counts, output)
    }

    /// When what is alone as of now may go.
    const fn horizon(&self) -> Timestamp {
        let options = self.rules.options;
        Timestamp::new(options.now.get().saturating_add(options.delete_retention_ms))
    }

    fn push_built(
        builder: &mut BatchBuilder,
        counts: &mut Counts,
        output: &mut Output,
    ) -> Result<(), Trouble> {
        let built = builder.finish()?;
        counts.bytes_written += built.len() as u64;
        Ok(output.push(built)?)
    }

    fn push(&mut self, batch: &[u8], output: &mut Output) -> Result<(), Trouble> {
        self.counts.bytes_written += batch.len() as u64;
        Ok(output.push(batch)?)
    }
}

/// Copies the records that stay, none of which is held.
fn append_pieces(
    mut records: RecordStream<'_>,
    mut keep: impl Iterator<Item = bool>,
    builder: &mut BatchBuilder,
) -> Result<(), Trouble> {
    loop {
        let stays = keep.next() == Some(true);
        let mut appended = Ok(());
        let next = records.next_pieces(&mut |piece| {
            if stays && appended.is_ok() {
                appended = builder.append_piece(piece);
            }
        });
        let Some(record) = next else { return Ok(()) };
        record?;
        appended?;
    }
}

impl From<Corruption> for Trouble {
    fn from(source: Corruption) -> Self {
        Self::Corrupt(source)
    }
}

impl From<BuildError> for Trouble {
    fn from(source: BuildError) -> Self {
        Self::Build(source)
    }
}

impl From<PushError> for Trouble {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Falls(offset) => Self::Falls(offset),
            PushError::Write(source) => Self::Write(source),
        }
    }
}
