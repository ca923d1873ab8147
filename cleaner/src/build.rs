//! Fills the offset map from the dirty part of a log.

use std::sync::Arc;

use alluvium_record_format::{Batch, ControlRecord, Corruption, Entry, Offset, Position};
use alluvium_segment::{FileKind, Segment};

use crate::aborted::collect_aborted;
use crate::cached::{Rising, walk};
use crate::clean::Progress;
use crate::error::CleanError;
use crate::group::values;
use crate::host::CleanHost;
use crate::keys::{HASHED_AT_ONCE, Hashed, Key, KeyBytes, Reader};
use crate::offset_map::{OffsetMap, Put};
use crate::options::CleanOptions;
use crate::transactions::Transactions;
use crate::verdicts::Verdicts;

/// What came of filling the map.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Built {
    /// The last offset that the map speaks for.
    pub(crate) latest: Option<Offset>,
    /// Records looked at.
    pub(crate) records: u64,
    /// Bytes read.
    pub(crate) bytes: u64,
    /// The map took no more before the end of the dirty part.
    pub(crate) is_full: bool,
}

/// Notes the last offset of every key of the dirty part, until the map is full.
///
/// Checks the checksum of all it reads: what a map of damaged keys would drop could never be
/// brought back.
///
/// Source: `Cleaner.buildOffsetMap` in Kafka; `docs/format/compaction.md#offset-map`.
pub(crate) fn build(
    (map, verdicts): (&mut OffsetMap, &mut Verdicts),
    reader: &mut Reader,
    segments: &[Arc<Segment>],
    options: &CleanOptions,
    host: &mut dyn CleanHost,
) -> Result<Built, CleanError> {
    map.clear(options.first_dirty);
    verdicts.clear(options.first_dirty);
    let mut transactions = Transactions::default();
    let (from, to) = (options.first_dirty, options.first_uncleanable);
    transactions.expect(collect_aborted(segments, options, from, to)?);
    let dirty = values(segments, from, to);
    let mut build = Build {
        map,
        verdicts,
        reader,
        transactions,
        options,
        built: Built::default(),
        waiting: Vec::new(),
        replaced: Vec::new(),
    };
    for (index, segment) in dirty.iter().enumerate() {
        let next = dirty.get(index + 1).map_or(to, |next| next.base_offset());
        build.segment(segment, Rising::within(segment, segments), host)?;
        if build.built.is_full {
            break;
        }
        build.built.latest = Some(Offset::new(next.get().saturating_sub(1)));
    }
    Ok(build.built)
}

struct Build<'a> {
    map: &'a mut OffsetMap,
    verdicts: &'a mut Verdicts,
    reader: &'a mut Reader,
    transactions: Transactions,
    options: &'a CleanOptions,
    built: Built,
    /// Records that are hashed and not looked up yet.
    waiting: Vec<Hashed>,
    /// Offsets that their keys had before.
    replaced: Vec<Offset>,
}

impl Build<'_> {
    fn segment(
        &mut self,
        segment: &Segment,
        mut rising: Rising,
        host: &mut dyn CleanHost,
    ) -> Result<(), CleanError> {
        let first_dirty = self.options.first_dirty;
        let start = if segment.base_offset() < first_dirty {
            match segment.batch_of(first_dirty).map_err(CleanError::segment)? {
                Some(batch) => batch.position,
                None => return Ok(()),
            }
        } else {
            Position::new(0)
        };
        let corrupt = |source| CleanError::Corrupt { path: segment.path(FileKind::Log), source };
        let mut walker = walk(segment, start)?;
        let mut unreported = 0;
        while let Some(entry) = walker.next_entry().map_err(CleanError::segment)? {
            unreported += entry.bytes().len() as u64;
            rising.check(&entry).map_err(corrupt)?;
            self.entry(&entry).map_err(corrupt)?;
            if self.built.is_full {
                break;
            }
            let last = entry.last_offset();
            if last >= first_dirty {
                self.built.latest = Some(last);
            }
            if unreported >= REPORT_BYTES {
                self.built.bytes += unreported;
                host.progress(Progress::read(std::mem::take(&mut unreported)))?;
            }
        }
        self.built.bytes += unreported;
        host.progress(Progress::read(unreported))?;
        match walker.tail() {
            Some(damage) if !self.built.is_full => Err(corrupt(damage)),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, entry: &Entry<'_>) -> Result<(), Corruption> {
        match entry {
            Entry::Batch(batch) if batch.header().attributes().is_control() => {
                let kind = control_type(self.reader, batch, self.options.max_record_bytes)?;
                self.transactions.control(batch.header(), kind);
                self.built.records += 1;
                Ok(())
            }
            Entry::Batch(batch) if self.transactions.data(batch.header()) => {
                let count = batch.header().record_count();
                self.built.records += u64::try_from(count).unwrap_or(0);
                Ok(())
            }
            Entry::Batch(batch) => {
                let header = batch.header();
                let (mut put, reader) = self.put();
                put.notes = header.base_offset() >= put.first_dirty;
                put.verdicts.begin_batch(header);
                reader.keys(batch, put.max_record_bytes, |key| put.key(key))?;
                put.all();
                Ok(())
            }
            Entry::Legacy(entry) => {
                let (mut put, reader) = self.put();
                reader.legacy_keys(entry, |key| put.key(key))?;
                put.all();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn put(&mut self) -> (Keys<'_>, &mut Reader) {
        self.waiting.clear();
        let keys = Keys {
            map: self.map,
            verdicts: self.verdicts,
            first_dirty: self.options.first_dirty,
            max_record_bytes: self.options.max_record_bytes,
            notes: false,
            built: &mut self.built,
            waiting: &mut self.waiting,
            replaced: &mut self.replaced,
        };
        (keys, self.reader)
    }
}

/// Puts the keys of one batch into the map.
struct Keys<'a> {
    map: &'a mut OffsetMap,
    verdicts: &'a mut Verdicts,
    first_dirty: Offset,
    max_record_bytes: usize,
    /// Whether the second walk is to know of each record what came of it.
    notes: bool,
    built: &'a mut Built,
    waiting: &'a mut Vec<Hashed>,
    replaced: &'a mut Vec<Offset>,
}

impl Keys<'_> {
    /// Takes a record in, soon. False once the map is full.
    fn key(&mut self, key: Key<'_>) -> bool {
        self.waiting.push(Hashed::of(self.map, key));
        self.waiting.len() < HASHED_AT_ONCE || self.all()
    }

    /// Takes in all records that wait. False once the map is full.
    fn all(&mut self) -> bool {
        self.map.touch(self.waiting.iter().filter_map(|record| record.place));
        for record in &*self.waiting {
            let place = record.place.filter(|_| record.offset >= self.first_dirty);
            if let Some(place) = place {
                match self.map.put_at(place, record.offset) {
                    Put::Full => {
                        self.built.is_full = true;
                        break;
                    }
                    Put::Replaced(before) => self.replaced.push(before),
                    Put::New => {}
                }
                self.built.latest = Some(record.offset);
            }
            if self.notes {
                self.verdicts.note(record.offset, place.is_some(), record.is_tombstone);
            }
            self.built.records += 1;
        }
        self.waiting.clear();
        self.verdicts.replaced(self.replaced.drain(..));
        !self.built.is_full
    }
}

/// The type of a control batch's first record; `None` in an empty one.
pub(crate) fn control_type(
    reader: &mut Reader,
    batch: &Batch<'_>,
    max_record_bytes: usize,
) -> Result<Option<i16>, Corruption> {
    let mut kind = Ok(None);
    reader.keys(batch, max_record_bytes, |key| {
        let bytes = key.bytes.as_ref().map(|bytes| match bytes {
            KeyBytes::Whole(bytes) => *bytes,
            KeyBytes::Hashed { head, .. } => &head[..],
        });
        kind = ControlRecord::type_of(bytes).map(Some);
        false
    })?;
    kind.map_err(|kind| kind.at(batch.payload_position()))
}

/// Bytes between two reports of progress.
pub(crate) const REPORT_BYTES: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use alluvium_record_format::{BatchBuilder, BatchSettings, Codec, RecordPiece};

    use super::{Batch, Offset, OffsetMap, Position, Reader, control_type};

    #[test]
    fn a_control_record_is_told_by_its_first_bytes_however_long_its_key() {
        let map = OffsetMap::sharing(1 << 10, 0.9, 0);
        for key_bytes in [4, 5 << 20] {
            let settings = BatchSettings::new(Offset::new(0)).codec(Codec::Zstd).control(true);
            let mut builder = BatchBuilder::new(settings);
            let mut key = vec![0; key_bytes];
            key[3] = 1;
            let (offset, key_bytes) = (Offset::new(0), Some(key_bytes));
            let start = RecordPiece::Start { offset, timestamp: None, key_bytes, rest_bytes: 2 };
            for piece in [start, RecordPiece::Key(&key), RecordPiece::Rest(&[1, 0])] {
                builder.append_piece(piece).unwrap();
            }
            let batch = Batch::parse(builder.finish().unwrap(), Position::new(0)).unwrap();
            let kind = control_type(&mut Reader::of(&map), &batch, usize::MAX);
            assert_eq!(kind.unwrap(), Some(1), "{key_bytes:?}");
        }
    }
}
