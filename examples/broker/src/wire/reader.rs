//! Reads the primitive types of the protocol from a frame, without a copy.

use std::ops::Range;

use alluvium_record_format::Uuid;

/// The bytes are not what the protocol allows, or are more elements than a request may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request breaks the protocol or has too many elements at byte {at}")]
pub(crate) struct Malformed {
    /// The byte of the frame.
    pub(crate) at: usize,
}

/// Reads from the front. No length is believed before it is compared with the bytes at hand.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// How many elements and tagged fields the request may still have.
    elements_left: usize,
    /// Whether lengths are varints, and structs end with tagged fields.
    is_flexible: bool,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8], is_flexible: bool) -> Self {
        Self { bytes, at: 0, elements_left: MAX_ELEMENTS, is_flexible }
    }

    /// Changes the encoding of lengths: the header of a request has its own.
    pub(crate) const fn flexible(mut self, is_flexible: bool) -> Self {
        self.is_flexible = is_flexible;
        self
    }

    /// The next byte.
    pub(crate) const fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    pub(crate) const fn malformed(&self) -> Malformed {
        Malformed { at: self.at }
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<Range<usize>, Malformed> {
        if count > self.remaining() {
            return Err(self.malformed());
        }
        let start = self.at;
        self.at += count;
        Ok(start..self.at)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let found = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk::<N>);
        let array = *found.ok_or(Malformed { at: self.at })?;
        self.at += N;
        Ok(array)
    }

    pub(crate) fn i8(&mut self) -> Result<i8, Malformed> {
        self.array().map(i8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Malformed> {
        self.array().map(i16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn uuid(&mut self) -> Result<Uuid, Malformed> {
        self.array().map(Uuid::from_bytes)
    }

    pub(crate) fn unsigned_varint(&mut self) -> Result<u32, Malformed> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.malformed())
    }

    /// A count or length; `None` for null.
    fn length(&mut self, short: bool) -> Result<Option<usize>, Malformed> {
        let at = self.at;
        let length = if self.is_flexible {
            self.unsigned_varint()?.checked_sub(1)
        } else {
            let raw = if short { i32::from(self.i16()?) } else { self.i32()? };
            match raw {
                -1 => None,
                _ => Some(u32::try_from(raw).map_err(|_negative| Malformed { at })?),
            }
        };
        let Some(length) = length else { return Ok(None) };
        let length = usize::try_from(length).map_err(|_too_large| Malformed { at })?;
        if length > self.remaining() {
            return Err(Malformed { at });
        }
        Ok(Some(length))
    }

    /// How many elements an array has, each of at least one byte; `None` for null.
    ///
    /// An element of two bytes costs a hundred once decoded and answered: those of all arrays of
    /// a request together are bounded.
    pub(crate) fn count(&mut self) -> Result<Option<usize>, Malformed> {
        let at = self.at;
        let count = self.length(false)?;
        self.spend(count.unwrap_or(0)).ok_or(Malformed { at })?;
        Ok(count)
    }

    fn spend(&mut self, elements: usize) -> Option<()> {
        self.elements_left = self.elements_left.checked_sub(elements)?;
        Some(())
    }

    /// Where the bytes of a field lie; `None` for null.
    pub(crate) fn bytes(&mut self) -> Result<Option<Range<usize>>, Malformed> {
        match self.length(false)? {
            Some(length) => self.skip(length).map(Some),
            None => Ok(None),
        }
    }

    /// A string; `None` for null.
    pub(crate) fn string(&mut self) -> Result<Option<&'a str>, Malformed> {
        let at = self.at;
        let Some(length) = self.length(true)? else { return Ok(None) };
        let range = self.skip(length)?;
        let bytes = self.bytes.get(range).unwrap_or_default();
        std::str::from_utf8(bytes).map(Some).map_err(|_no_text| Malformed { at })
    }

    /// Passes over the tagged fields at the end of a struct; before flexible versions there are
    /// none.
    pub(crate) fn tagged_fields(&mut self) -> Result<(), Malformed> {
        if !self.is_flexible {
            return Ok(());
        }
        let at = self.at;
        let count = self.unsigned_varint()?;
        self.spend(usize::try_from(count).unwrap_or(usize::MAX)).ok_or(Malformed { at })?;
        for _ in 0..count {
            self.unsigned_varint()?;
            let length = self.unsigned_varint()?;
            self.skip(usize::try_from(length).unwrap_or(usize::MAX))?;
        }
        Ok(())
    }
}

/// More than any client has partitions to ask for at once.
const MAX_ELEMENTS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beyond_the_frame_is_refused_before_anything_is_allocated() {
        let long = [0x7f, 0xff, 0xff, 0xff, 1, 2];
        assert_eq!(Reader::new(&long, false).bytes(), Err(Malformed { at: 0 }));
        assert_eq!(Reader::new(&long, false).count(), Err(Malformed { at: 0 }));
        assert_eq!(Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f], true).count().ok(), None);
    }

    #[test]
    fn a_varint_of_six_bytes_is_refused() {
        let six = [0x80, 0x80, 0x80, 0x80, 0x80, 1];
        assert!(Reader::new(&six, true).unsigned_varint().is_err());
    }

    #[test]
    fn null_and_empty_differ() {
        assert_eq!(Reader::new(&[0xff, 0xff], false).string(), Ok(None));
        assert_eq!(Reader::new(&[0, 0], false).string(), Ok(Some("")));
        assert_eq!(Reader::new(&[0], true).string(), Ok(None));
        assert_eq!(Reader::new(&[1], true).string(), Ok(Some("")));
    }

    #[test]
    fn tagged_fields_are_passed_over() {
        let mut reader = Reader::new(&[1, 5, 2, 9, 9, 7], true);
        reader.tagged_fields().unwrap();
        assert_eq!(reader.remaining(), 1);
    }
}
