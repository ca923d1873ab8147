//! From batch to batch, in order.

use alluvium_record_format::{
    Batch, BatchHeader, CorruptKind, Corruption, Position, Prefix, Timestamp, Walker,
};
use zerocopy::FromBytes;

use super::window::{BLOCK_BYTES, Window, to_usize};
use super::{FoundBatch, FoundEntry, LogFile};
use crate::{BatchContent, FileError, ProducerBatch};

/// The first byte that the checksum of a batch covers.
const CRC_START: u32 = 21;

/// Where the checksum of a batch stands.
const CRC_AT: usize = 17;

/// The first byte that the checksum of a message of magic 0 or 1 covers.
const LEGACY_CRC_START: u32 = 16;

/// Where the checksum of such a message stands.
const LEGACY_CRC_AT: usize = 12;

/// Where the timestamp of a message of magic 1 stands.
const LEGACY_TIMESTAMP_AT: usize = 18;

/// The largest control batch that is looked into: a marker has 78 bytes.
const MAX_CONTROL_BYTES: u32 = 64 << 10;

/// Bytes of a read that looks for headers of small batches: two times the default interval of
/// index entries.
const HEADER_BLOCK_BYTES: usize = 8192 + BatchHeader::LEN;

/// What a walk met.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A whole batch, its checksum right where it was looked at.
    Batch(FoundBatch),
    /// A whole batch with a wrong checksum or a control record that cannot be. The walk goes on
    /// behind it.
    Bad(FoundBatch, Corruption),
    /// Bytes that are no whole batch. The walk stays where it is.
    Damage(Corruption),
    /// The end of the file.
    End,
}

/// What a walk looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Depth {
    /// Every byte, for its checksum.
    Content,
    /// Headers and markers: reads no more than it must.
    Headers,
}

/// Walks a log file batch by batch.
#[derive(Debug)]
pub(crate) struct Walk<'f> {
    window: Window<'f>,
    walker: Walker,
    depth: Depth,
    /// Bytes of the next read.
    block: usize,
}

impl<'f> Walk<'f> {
    /// A walk from the batch at `start` on that checks every checksum.
    pub(crate) fn content(file: &'f LogFile, start: u32) -> Self {
        Self::new(file, start, Depth::Content)
    }

    /// A walk from the batch at `start` on that looks at headers and markers alone.
    pub(crate) fn headers(file: &'f LogFile, start: u32) -> Self {
        Self::new(file, start, Depth::Headers)
    }

    fn new(file: &'f LogFile, start: u32, depth: Depth) -> Self {
        let walker = Walker::new(Position::new(start), Position::new(file.len()));
        let block = if depth == Depth::Content { BLOCK_BYTES } else { HEADER_BLOCK_BYTES };
        Self { window: Window::new(file), walker, depth, block }
    }

    /// Goes on at `start`, wherever that is, and forgets what it has seen.
    pub(super) fn jump(&mut self, start: u32) {
        let end = Position::new(self.window.file().len());
        self.walker = Walker::new(Position::new(start), end);
    }

    /// The bytes around it, to search them.
    pub(super) const fn window(&mut self) -> &mut Window<'f> {
        &mut self.window
    }

    /// The byte after the last whole batch.
    pub(crate) const fn position(&self) -> u32 {
        self.walker.position().get()
    }

    /// Takes over a batch that another walk has found at the position of this one.
    pub(super) fn skip(&mut self, batch: &FoundBatch) {
        debug_assert!(batch.position.get() == self.position(), "the batch begins here");
        // The walker must see the prefix, for its rule on the magic of later batches.
        if let FoundEntry::Batch { header, .. } = &batch.entry {
            let _ = self.walker.step(zerocopy::IntoBytes::as_bytes(header));
        }
    }

    /// The next batch.
    pub(crate) fn step(&mut self) -> Result<Step, FileError> {
        let at = self.walker.position();
        let head = self.window.bytes(at.get(), BatchHeader::LEN, self.block)?;
        let prefix = match self.walker.step(head) {
            Ok(Some(prefix)) => prefix,
            Ok(None) => return Ok(Step::End),
            Err(damage) => return Ok(Step::Damage(damage)),
        };
        let size_bytes = self.walker.position().get().saturating_sub(at.get());
        if prefix.magic() != 2 {
            let (prefix, timestamp) = (*prefix, legacy_timestamp(prefix, head));
            return self.legacy(at, size_bytes, prefix, timestamp);
        }
        let Ok((header, _)) = BatchHeader::read_from_prefix(head) else {
            let kind = CorruptKind::truncated(BatchHeader::LEN, head.len());
            return Ok(Step::Damage(kind.at(at)));
        };
        self.batch(at, size_bytes, header)
    }

    fn batch(
        &mut self,
        at: Position,
        size_bytes: u32,
        header: BatchHeader,
    ) -> Result<Step, FileError> {
        let mut damage = None;
        if self.depth == Depth::Content {
            let from = at.get().saturating_add(CRC_START);
            let len = to_usize(size_bytes.saturating_sub(CRC_START));
            damage = match self.window.crc32c(from, len)? {
                Some(computed) if computed == header.crc() => None,
                Some(computed) => {
                    let kind = CorruptKind::crc(header.crc(), computed);
                    Some(kind.at(at.saturating_add_len(CRC_AT)))
                }
                None => return Ok(Step::Damage(self.cut(at, size_bytes))),
            };
        }
        let content = match damage {
            None => self.content_of(at, size_bytes, &header)?,
            Some(damage) => Err(damage),
        };
        self.suit_block(size_bytes);
        let entry = FoundEntry::Batch { header, content };
        let found = FoundBatch { position: at, size_bytes, entry };
        Ok(content.map_or_else(|damage| Step::Bad(found, damage), |_| Step::Batch(found)))
    }

    /// What a batch of a producer holds.
    fn content_of(
        &mut self,
        at: Position,
        size_bytes: u32,
        header: &BatchHeader,
    ) -> Result<Result<BatchContent, Corruption>, FileError> {
        if !header.attributes().is_control() || header.producer_id().is_none() {
            return Ok(Ok(BatchContent::Data));
        }
        if size_bytes > MAX_CONTROL_BYTES {
            return Ok(Err(CorruptKind::ControlRecord.at(at)));
        }
        let bytes = self.window.bytes(at.get(), to_usize(size_bytes), self.block)?;
        let batch = Batch::parse(bytes, at).and_then(|batch| ProducerBatch::read(&batch));
        Ok(batch.map(|batch| batch.map_or(BatchContent::Data, |batch| batch.content)))
    }

    /// A message of magic 0 or 1, of which no more is held than of a batch.
    fn legacy(
        &mut self,
        at: Position,
        size_bytes: u32,
        prefix: Prefix,
        timestamp: Option<Timestamp>,
    ) -> Result<Step, FileError> {
        let mut damage = None;
        if self.depth == Depth::Content {
            let from = at.get().saturating_add(LEGACY_CRC_START);
            let len = to_usize(size_bytes.saturating_sub(LEGACY_CRC_START));
            damage = match self.window.crc32(from, len)? {
                Some(computed) if computed == prefix.legacy_crc() => None,
                Some(computed) => {
                    let kind = CorruptKind::crc(prefix.legacy_crc(), computed);
                    Some(kind.at(at.saturating_add_len(LEGACY_CRC_AT)))
                }
                None => return Ok(Step::Damage(self.cut(at, size_bytes))),
            };
        }
        self.suit_block(size_bytes);
        let entry = FoundEntry::Legacy { offset: prefix.offset(), timestamp };
        let found = FoundBatch { position: at, size_bytes, entry };
        Ok(damage.map_or(Step::Batch(found), |damage| Step::Bad(found, damage)))
    }

    /// Where batches are large, a block holds one header and is not worth its bytes.
    fn suit_block(&mut self, size_bytes: u32) {
        if self.depth == Depth::Headers {
            let is_large = to_usize(size_bytes) > HEADER_BLOCK_BYTES / 2;
            self.block = if is_large { BatchHeader::LEN } else { HEADER_BLOCK_BYTES };
        }
    }

    /// The file has become shorter than it was.
    fn cut(&self, at: Position, size_bytes: u32) -> Corruption {
        let have = self.window.file().len().saturating_sub(at.get());
        CorruptKind::truncated(to_usize(size_bytes), to_usize(have)).at(at)
    }
}

/// The timestamp of a message of magic 1, of a wrapper the largest in it; `None` for -1.
fn legacy_timestamp(prefix: &Prefix, head: &[u8]) -> Option<Timestamp> {
    let stored = head.get(LEGACY_TIMESTAMP_AT..).and_then(<[u8]>::first_chunk)?;
    let timestamp = i64::from_be_bytes(*stored);
    (prefix.magic() == 1 && timestamp != -1).then_some(Timestamp::new(timestamp))
}
