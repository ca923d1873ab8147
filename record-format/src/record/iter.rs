//! Iterates over the records of a payload.

use core::iter::FusedIterator;

use super::short::{Part, Whole};
use super::{Record, RecordContext, RecordKeys};
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
    pub(super) rest: &'a [u8],
    pub(super) left: u32,
    place: Place,
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
        let place = Place { start: at, stored_bytes, count };
        Ok(Self { context: RecordContext::new(header), rest, left, place })
    }

    /// Yields keys alone. What follows them is checked all the same.
    #[must_use]
    pub const fn keys(self) -> RecordKeys<'a> {
        RecordKeys::new(self)
    }

    pub(super) const fn context(&self) -> &RecordContext {
        &self.context
    }

    /// Reads a part of the next record.
    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    pub(super) fn next_part<P: Part<'a>>(&mut self) -> Option<Result<P::Item, Corruption>> {
        let payload = self.rest;
        if let Some(left) = self.left.checked_sub(1)
            && let Some((found, rest)) = P::find(payload)
        {
            self.left = left;
            self.rest = rest;
            return Some(Ok(P::make(found, payload)));
        }
        // By value, so that no pointer to the state keeps it in memory.
        let (item, rest, left) = self.place.next_full(payload, self.left, P::read);
        self.left = left;
        self.rest = rest;
        item
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, Corruption>;

    #[expect(clippy::inline_always, reason = "as a call it takes twice the time")]
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let fields = self.next_part::<Whole>()?;
        Some(fields.map(|fields| self.context.record(fields)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // One more for the error at the end.
        (0, Some((self.rest.len() / MIN_RECORD_LEN).saturating_add(1)))
    }
}

impl FusedIterator for Records<'_> {}

/// Reads the first record of a payload, in any form that is allowed.
type Full<'a, T> = fn(&'a [u8]) -> Result<(T, &'a [u8]), CorruptKind>;

/// Where the payload stands, for errors.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: Position,
    /// Bytes of the payload in the file; 0 for an inflated one.
    stored_bytes: usize,
    count: i32,
}

impl Place {
    /// The next record or the end, and what is left after it: bytes and records.
    #[cold]
    #[inline(never)]
    fn next_full<'a, T>(
        self,
        rest: &'a [u8],
        left: u32,
        full: Full<'a, T>,
    ) -> (Option<Result<T, Corruption>>, &'a [u8], u32) {
        let Some(left) = left.checked_sub(1) else {
            let found = rest.len();
            let trailing = CorruptKind::TrailingBytes { found }.at(self.byte_before_end(found));
            return ((found > 0).then_some(Err(trailing)), &[], 0);
        };
        match full(rest) {
            Ok((item, rest)) => (Some(Ok(item)), rest, left),
            Err(kind) => {
                // A payload that ends between two records has too few of them.
                let few = CorruptKind::RecordCount { found: self.count };
                let kind = if rest.is_empty() { few } else { kind };
                (Some(Err(kind.at(self.byte_before_end(rest.len())))), &[], 0)
            }
        }
    }

    /// The byte of the file that lies `back` bytes before the end of the payload.
    fn byte_before_end(self, back: usize) -> Position {
        self.start.saturating_add_len(self.stored_bytes.saturating_sub(back))
    }
}

/// The shortest record: length, attributes, two deltas, two null fields, no headers.
const MIN_RECORD_LEN: usize = 7;
