//! Steps from header to header of a log file, reading few other bytes.

use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;

use alluvium_record_format::{
    BatchHeader, CorruptKind, Corruption, Offset, Position, Prefix, Timestamp,
};

use crate::error::{IoOp, SegmentError};
use crate::io::Io;
use crate::walk::to_usize;

/// An entry of a log file, as its header tells.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BatchAt {
    /// Its first byte.
    pub position: Position,
    /// Its size, header included.
    pub size_bytes: u32,
    /// The offset of its first record as it was written. For magic 0 and 1 the same as the last.
    pub base_offset: Offset,
    /// The offset of its last record as it was written.
    pub last_offset: Offset,
    /// Its largest timestamp.
    pub max_timestamp: Option<Timestamp>,
    /// 0, 1 or 2.
    pub magic: i8,
    /// The whole header; `None` for magic 0 and 1.
    pub header: Option<BatchHeader>,
}

impl BatchAt {
    /// The byte after the entry.
    #[must_use]
    pub const fn end(&self) -> Position {
        Position::new(self.position.get().saturating_add(self.size_bytes))
    }

    /// The offset after the entry.
    #[must_use]
    pub const fn next_offset(&self) -> Offset {
        Offset::new(self.last_offset.get().saturating_add(1))
    }

    /// Reads the header at the start of `bytes`.
    fn parse(bytes: &[u8], at: Position) -> Result<Self, Corruption> {
        let prefix = Prefix::parse(bytes, at)?;
        let size_bytes = u32::try_from(prefix.size_bytes()).unwrap_or(u32::MAX);
        if prefix.magic() < 2 {
            let offset = prefix.offset();
            return Ok(Self {
                position: at,
                size_bytes,
                base_offset: offset,
                last_offset: offset,
                max_timestamp: legacy_timestamp(prefix.magic(), bytes),
                magic: prefix.magic(),
                header: None,
            });
        }
        let header = BatchHeader::parse(bytes, at)?;
        Ok(Self {
            position: at,
            size_bytes,
            base_offset: header.base_offset(),
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp(),
            magic: prefix.magic(),
            header: Some(*header),
        })
    }
}

/// Steps over the headers of a range of a log file.
///
/// One `pread` covers the headers of many small batches; a batch larger than the block costs one
/// `pread` of its header.
pub(crate) struct HeaderScan<'a> {
    io: &'a Io,
    file: &'a File,
    path: &'a dyn Fn() -> PathBuf,
    scratch: Scratch,
    /// Where the bytes in `scratch` come from.
    buffer_at: u32,
    filled: usize,
    next: u32,
    end: u32,
    block: usize,
    after_v2: bool,
}

/// What the next step found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A whole entry.
    Batch(BatchAt),
    /// The end of the range.
    End,
    /// The range ends inside an entry, or the bytes are no entry.
    Damage(Corruption),
}

impl<'a> HeaderScan<'a> {
    /// Steps over `range`, which begins at an entry. The first `pread` takes `first_bytes`.
    pub(crate) fn new(
        io: &'a Io,
        file: &'a File,
        path: &'a dyn Fn() -> PathBuf,
        range: (u32, u32),
        first_bytes: usize,
    ) -> Self {
        let (next, end) = range;
        Self {
            io,
            file,
            path,
            scratch: Scratch::take(),
            buffer_at: next,
            filled: 0,
            next,
            end,
            block: first_bytes.clamp(BatchHeader::LEN, SCRATCH_BYTES),
            after_v2: false,
        }
    }

    /// The next entry. After `End` or `Damage`, the same again.
    pub(crate) fn step(&mut self) -> Result<Step, SegmentError> {
        let at = Position::new(self.next);
        let left = to_usize(self.end.saturating_sub(self.next));
        if left == 0 {
            return Ok(Step::End);
        }
        if left <= Prefix::LEN {
            let kind = CorruptKind::truncated(Prefix::LEN + 1, left);
            return Ok(Step::Damage(kind.at(at)));
        }
        let bytes = self.bytes(BatchHeader::LEN.min(left))?;
        let batch = match BatchAt::parse(bytes, at) {
            Ok(batch) => batch,
            Err(corruption) => return Ok(Step::Damage(corruption)),
        };
        if to_usize(batch.size_bytes) > left {
            let kind = CorruptKind::truncated(to_usize(batch.size_bytes), left);
            return Ok(Step::Damage(kind.at(at)));
        }
        if batch.header.is_none() && self.after_v2 {
            let magic_at = at.saturating_add_len(Prefix::LEN - 1);
            return Ok(Step::Damage(CorruptKind::magic(batch.magic).at(magic_at)));
        }
        self.after_v2 |= batch.header.is_some();
        self.next = batch.end().get();
        // Large batches follow large ones: then a block holds one header and is not worth it.
        let large = to_usize(batch.size_bytes) > SCRATCH_BYTES / 2;
        self.block = if large { BatchHeader::LEN } else { SCRATCH_BYTES };
        Ok(Step::Batch(batch))
    }

    /// At least `need` bytes from the next entry on, fewer only where the file is shorter.
    fn bytes(&mut self, need: usize) -> Result<&[u8], SegmentError> {
        let offset = to_usize(self.next - self.buffer_at);
        if offset + need > self.filled {
            let left = to_usize(self.end - self.next);
            let want = self.block.max(need).min(left);
            let buffer = &mut self.scratch.bytes[..want];
            let position = u64::from(self.next);
            let read = self.io.read_full(self.file, self.path, buffer, position);
            self.filled = read
                .map_err(|source| SegmentError::io(IoOp::Read, (self.path)(), self.next, source))?;
            self.buffer_at = self.next;
        }
        let offset = to_usize(self.next - self.buffer_at);
        Ok(&self.scratch.bytes[offset..self.filled])
    }
}

/// The offset and timestamp of a message of magic 0 or 1; of a compressed one, those of its last
/// inner message.
pub(crate) fn legacy_info(bytes: &[u8]) -> (Offset, Option<Timestamp>) {
    let Ok(prefix) = Prefix::parse(bytes, Position::new(0)) else {
        return (Offset::new(0), None);
    };
    (prefix.offset(), legacy_timestamp(prefix.magic(), bytes))
}

/// The timestamp of a message of magic 1, after its CRC, magic and attributes.
fn legacy_timestamp(magic: i8, bytes: &[u8]) -> Option<Timestamp> {
    if magic == 0 {
        return None;
    }
    let raw = i64::from_be_bytes(*bytes.get(18..)?.first_chunk()?);
    (raw != -1).then_some(Timestamp::new(raw))
}

/// A buffer of [`SCRATCH_BYTES`] that the thread uses again and again.
struct Scratch {
    bytes: Vec<u8>,
}

impl Scratch {
    fn take() -> Self {
        let mut bytes = SPARE.take();
        bytes.resize(SCRATCH_BYTES, 0);
        Self { bytes }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.bytes));
    }
}

thread_local! {
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Bytes per `pread` over small batches: two times Kafka's default index interval.
pub(crate) const SCRATCH_BYTES: usize = 8192 + BatchHeader::LEN;
