//! Steps from header to header of a log file, reading few other bytes.

use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;

use alluvium_record_format::{
    BatchHeader, CorruptKind, Corruption, Offset, Position, Prefix, Timestamp, Walker,
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

    /// The entry at `at` whose first bytes are `head`.
    pub(crate) fn of(head: &[u8], at: Position) -> Result<Self, Corruption> {
        let prefix = Prefix::parse(head, at)?;
        let (offset, magic) = (prefix.offset(), prefix.magic());
        let size_bytes = u32::try_from(prefix.size_bytes()).unwrap_or(u32::MAX);
        if magic == 2 {
            let header = BatchHeader::parse(head, at)?;
            return Ok(Self {
                position: at,
                size_bytes,
                base_offset: offset,
                last_offset: header.last_offset(),
                max_timestamp: header.max_timestamp(),
                magic,
                header: Some(*header),
            });
        }
        Ok(Self {
            position: at,
            size_bytes,
            base_offset: offset,
            last_offset: offset,
            max_timestamp: legacy_timestamp(magic, head),
            magic,
            header: None,
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
    walker: Walker,
    end: u32,
    scratch: Scratch,
    /// Where the bytes in `scratch` come from.
    buffer_at: u32,
    filled: usize,
    block: usize,
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
        let (start, end) = range;
        Self {
            io,
            file,
            path,
            walker: Walker::new(Position::new(start), Position::new(end)),
            end,
            scratch: Scratch::take(),
            buffer_at: start,
            filled: 0,
            block: first_bytes.clamp(BatchHeader::LEN, SCRATCH_BYTES),
        }
    }

    /// The next entry. After `End` or `Damage`, the same again.
    pub(crate) fn step(&mut self) -> Result<Step, SegmentError> {
        self.step_to(|_| true)
    }

    /// The next entry that is a batch of magic 2 which `wanted` takes, or of magic 0 or 1.
    pub(crate) fn step_to(
        &mut self,
        wanted: impl Fn(&BatchHeader) -> bool,
    ) -> Result<Step, SegmentError> {
        loop {
            let at = self.walker.position();
            let left = to_usize(self.end.saturating_sub(at.get()));
            if left == 0 {
                return Ok(Step::End);
            }
            if left <= Prefix::LEN {
                let kind = CorruptKind::truncated(Prefix::LEN + 1, left);
                return Ok(Step::Damage(kind.at(at)));
            }
            self.load(BatchHeader::LEN.min(left))?;
            let head = &self.scratch.bytes[to_usize(at.get() - self.buffer_at)..self.filled];
            let prefix = match self.walker.step(head) {
                Ok(Some(prefix)) => prefix,
                Ok(None) => return Ok(Step::End),
                Err(damage) => return Ok(Step::Damage(damage)),
            };
            // Large batches follow large ones: then a block holds one header and is not worth it.
            let large = prefix.size_bytes() > LARGE_BATCH;
            self.block = if large { BatchHeader::LEN } else { SCRATCH_BYTES };
            let passed_over = prefix.magic() == 2
                && BatchHeader::parse(head, at).is_ok_and(|header| !wanted(header));
            if !passed_over {
                return Ok(match BatchAt::of(head, at) {
                    Ok(batch) => Step::Batch(batch),
                    Err(damage) => Step::Damage(damage),
                });
            }
        }
    }

    /// Brings at least `need` bytes from the next entry on into the buffer, fewer only where the
    /// file is shorter.
    fn load(&mut self, need: usize) -> Result<(), SegmentError> {
        let next = self.walker.position().get();
        if to_usize(next - self.buffer_at) + need <= self.filled {
            return Ok(());
        }
        let left = to_usize(self.end - next);
        let want = self.block.max(need).min(left);
        let buffer = &mut self.scratch.bytes[..want];
        let read = self.io.read_full(self.file, self.path, buffer, next.into());
        self.filled =
            read.map_err(|source| SegmentError::io(IoOp::Read, (self.path)(), next, source))?;
        self.buffer_at = next;
        Ok(())
    }
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

/// Half a block.
const LARGE_BATCH: u64 = 4096;
