//! Iterates over the records of a payload.

use super::decode::{split, varint32};
use super::{Record, RecordContext, RecordKeys};
use crate::varint::read_i32;
use crate::{BatchHeader, CorruptKind, Corruption, Position};

/// Iterates over the records of one batch, borrowing everything. Never allocates.
///
/// Yields one error at most, then ends. The bytes must be the whole decompressed payload: bytes
/// left over after the last record are an error. A batch that counts no record is empty,
/// whatever its payload.
///
/// Offsets come as stored, in no certain order and not certainly inside the batch's range.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    context: RecordContext,
    rest: &'a [u8],
    start: Position,
    /// Bytes of the payload in the file; 0 for an inflated one.
    stored_bytes: usize,
    count: i32,
    left: u32,
}

impl<'a> Records<'a> {
    /// Iterates over `payload`, the decompressed records of the batch with this header.
    /// `at` is the payload's byte in the file. Errors of a compressed batch all name that byte.
    ///
    /// # Errors
    ///
    /// `RecordCount` when the count is negative.
    pub fn new(header: &BatchHeader, payload: &'a [u8], at: Position) -> Result<Self, Corruption> {
        let count = header.record_count();
        let Ok(left) = u32::try_from(count) else {
            return Err(CorruptKind::RecordCount { found: count }.at(at));
        };
        let rest = if left == 0 { &[] } else { payload };
        let stored_bytes = if header.attributes().codec_id() == 0 { rest.len() } else { 0 };
        let context = RecordContext::new(header);
        Ok(Self { context, rest, start: at, stored_bytes, count, left })
    }

    /// Yields keys alone: what follows them is skipped, not checked.
    #[must_use]
    pub const fn keys(self) -> RecordKeys<'a> {
        RecordKeys::new(self)
    }

    pub(super) const fn context(&self) -> &RecordContext {
        &self.context
    }

    /// The bytes of the next record after its length field.
    #[inline]
    pub(super) fn next_body(&mut self) -> Option<Result<&'a [u8], Corruption>> {
        let Some(left) = self.left.checked_sub(1) else { return self.end().map(Err) };
        match self.read_body() {
            Ok((body, rest)) => {
                self.left = left;
                self.rest = rest;
                Some(Ok(body))
            }
            Err(kind) => Some(Err(self.fail(kind))),
        }
    }

    /// Ends the iteration with an error about the record that ends where the rest begins.
    #[cold]
    pub(super) fn fail_in(&mut self, body: &[u8], kind: CorruptKind) -> Corruption {
        let back = body.len().saturating_add(self.rest.len());
        let position = self.byte_at(back);
        self.stop();
        kind.at(position)
    }

    #[inline]
    fn read_body(&self) -> Result<(&'a [u8], &'a [u8]), CorruptKind> {
        let (length, rest) = read_i32(self.rest).map_err(varint32)?;
        split(rest, length)
    }

    #[cold]
    fn fail(&mut self, kind: CorruptKind) -> Corruption {
        // A payload that ends between two records has too few of them.
        let few = self.rest.is_empty();
        let kind = if few { CorruptKind::RecordCount { found: self.count } } else { kind };
        let position = self.byte_at(self.rest.len());
        self.stop();
        kind.at(position)
    }

    #[cold]
    fn end(&mut self) -> Option<Corruption> {
        let found = self.rest.len();
        let error = CorruptKind::TrailingBytes { found }.at(self.byte_at(found));
        self.stop();
        (found > 0).then_some(error)
    }

    /// The byte of the file that lies `back` bytes before the end of the payload.
    fn byte_at(&self, back: usize) -> Position {
        self.start.saturating_add_len(self.stored_bytes.saturating_sub(back))
    }

    const fn stop(&mut self) {
        self.left = 0;
        self.rest = &[];
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Corruption>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let body = match self.next_body()? {
            Ok(body) => body,
            Err(error) => return Some(Err(error)),
        };
        Some(self.context.read_body(body).map_err(|kind| self.fail_in(body, kind)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // One more for the error at the end.
        (0, Some((self.rest.len() / MIN_RECORD_LEN).saturating_add(1)))
    }
}

impl core::iter::FusedIterator for Records<'_> {}

/// The shortest record: length, attributes, two deltas, two null fields, no headers.
const MIN_RECORD_LEN: usize = 7;
