//! Checks the fields of a large record while they pass, without holding them.

use super::{PartialRecord, RecordPiece, Window};
use crate::record::RecordContext;
use crate::varint::{VarintError, read_i32, read_i64};
use crate::{CorruptKind, Timestamp};

/// The bytes of one record after its length field, as they pass through the window.
///
/// Finds what [`RecordContext::read_body`] finds in bytes that are held, with the same reasons.
pub(super) struct Body<'w, 's> {
    window: &'w mut Window<'s>,
    len: usize,
    left: usize,
    /// Why the stream cannot be read on.
    broken: Option<CorruptKind>,
    tap: Tap<'w>,
}

/// Who sees the bytes that pass.
struct Tap<'v> {
    visit: Option<Visit<'v>>,
    part: Part,
}

pub(super) type Visit<'v> = &'v mut dyn FnMut(RecordPiece<'_>);

/// What passes.
#[derive(Clone, Copy)]
enum Part {
    /// What [`RecordPiece::Start`] tells.
    Start,
    Key,
    Rest,
}

impl<'w, 's> Body<'w, 's> {
    /// The next `len` bytes of the window.
    pub(super) const fn new(window: &'w mut Window<'s>, len: usize) -> Self {
        let tap = Tap { visit: None, part: Part::Start };
        Self { window, len, left: len, broken: None, tap }
    }

    /// Shows what passes to `visit`.
    pub(super) const fn visited(mut self, visit: Visit<'w>) -> Self {
        self.tap.visit = Some(visit);
        self
    }

    /// All that the stream has: for who does not hold the fields to the length of their record.
    pub(super) const fn unbounded(window: &'w mut Window<'s>) -> Self {
        Self::new(window, usize::MAX)
    }

    /// Steps over the record. `found` is its length as stored, `size_bytes` with that field.
    ///
    /// A stream that breaks or ends within the record is told before what is wrong with the
    /// record, as by readers that hold it first.
    pub(super) fn check(
        mut self,
        context: RecordContext,
        found: i32,
        size_bytes: usize,
    ) -> Result<PartialRecord, CorruptKind> {
        let partial = self.fields(context, size_bytes);
        self.tap.visit = None;
        let passed = self.pass(self.left);
        if let Some(kind) = self.broken {
            return Err(kind);
        }
        if passed.is_err() {
            return Err(CorruptKind::RecordLength { found: i64::from(found), have: self.used() });
        }
        partial
    }

    fn fields(
        &mut self,
        context: RecordContext,
        size_bytes: usize,
    ) -> Result<PartialRecord, CorruptKind> {
        self.cut(1, CorruptKind::RecordCut)?; // attributes
        let timestamp = context.timestamp(self.varint(read_i64, 64)?);
        let timestamp = (timestamp != -1).then_some(Timestamp::new(timestamp));
        let offset = context.offset(self.varint(read_i32, 32)?);
        let key_bytes = self.length()?;
        let key_len = key_bytes.unwrap_or(0);
        if let Some(visit) = &mut self.tap.visit {
            let rest_bytes = self.left.saturating_sub(key_len);
            visit(RecordPiece::Start { offset, timestamp, key_bytes, rest_bytes });
        }
        self.tap.part = Part::Key;
        self.pass(key_len)?;
        self.tap.part = Part::Rest;
        let value_bytes = self.field()?;
        self.headers()?;
        if self.left > 0 {
            return Err(CorruptKind::RecordSize { length: self.len, used: self.used() });
        }
        Ok(PartialRecord { offset, timestamp, size_bytes, key_bytes, value_bytes })
    }

    fn headers(&mut self) -> Result<(), CorruptKind> {
        let found = self.varint(read_i32, 32)?;
        let bad = self.bad_length(found);
        let count = usize::try_from(found).map_err(|_negative| bad)?;
        if count > self.left {
            return Err(bad);
        }
        for _ in 0..count {
            let length = self.varint(read_i32, 32)?;
            let bad = self.bad_length(length);
            self.cut(usize::try_from(length).map_err(|_negative| bad)?, bad)?;
            self.field()?;
        }
        Ok(())
    }

    /// Steps over a length and so many bytes.
    fn field(&mut self) -> Result<Option<usize>, CorruptKind> {
        let len = self.length()?;
        self.pass(len.unwrap_or(0))?;
        Ok(len)
    }

    /// Steps over a length that the record has room for; any negative one is null.
    fn length(&mut self) -> Result<Option<usize>, CorruptKind> {
        let length = self.varint(read_i32, 32)?;
        let Ok(len) = usize::try_from(length) else { return Ok(None) };
        if len > self.left { Err(self.bad_length(length)) } else { Ok(Some(len)) }
    }

    /// Steps over `len` bytes, `or` says what is wrong where the record has fewer.
    fn cut(&mut self, len: usize, or: CorruptKind) -> Result<(), CorruptKind> {
        if len > self.left { Err(or) } else { self.pass(len) }
    }

    /// Steps over `len` bytes, which the record has; fails where the stream does not.
    pub(super) fn pass(&mut self, len: usize) -> Result<(), CorruptKind> {
        let mut missing = len;
        while missing > 0 {
            self.fill(1)?;
            let part = missing.min(self.window.unread().len());
            if part == 0 {
                return Err(CorruptKind::RecordCut);
            }
            self.take(part);
            missing = missing.saturating_sub(part);
        }
        Ok(())
    }

    pub(super) fn varint<T>(
        &mut self,
        read: impl Fn(&[u8]) -> Result<(T, &[u8]), VarintError>,
        max_bits: u8,
    ) -> Result<T, CorruptKind> {
        loop {
            let unread = self.window.unread();
            let have = unread.len().min(self.left);
            match read(unread.get(..have).unwrap_or_default()) {
                Ok((value, rest)) => {
                    let len = have.saturating_sub(rest.len());
                    self.take(len);
                    return Ok(value);
                }
                Err(VarintError::TooLong) => return Err(CorruptKind::Varint { max_bits }),
                Err(VarintError::Ended) if have == self.left => return Err(CorruptKind::RecordCut),
                Err(VarintError::Ended) => self.fill(have.saturating_add(1))?,
            }
            if self.window.unread().len() == have {
                return Err(CorruptKind::RecordCut);
            }
        }
    }

    fn fill(&mut self, need: usize) -> Result<(), CorruptKind> {
        if let Some(kind) = self.broken {
            return Err(kind);
        }
        self.window.fill(need).inspect_err(|kind| self.broken = Some(*kind))
    }

    fn take(&mut self, len: usize) {
        let bytes = self.window.take(len);
        match (&mut self.tap.visit, self.tap.part) {
            (Some(visit), Part::Key) => visit(RecordPiece::Key(bytes)),
            (Some(visit), Part::Rest) => visit(RecordPiece::Rest(bytes)),
            _ => {}
        }
        self.left = self.left.saturating_sub(len);
    }

    const fn used(&self) -> usize {
        self.len.saturating_sub(self.left)
    }

    fn bad_length(&self, found: i32) -> CorruptKind {
        CorruptKind::RecordLength { found: i64::from(found), have: self.left }
    }
}
