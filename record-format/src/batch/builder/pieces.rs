//! Records that come in pieces, and are compressed as they come.

use super::{BatchBuilder, BuildError, Place, batch_length};
use crate::{BatchHeader, Codec, RecordPiece, varint};

impl BatchBuilder {
    /// Appends the next piece of a record of another batch, as
    /// [`RecordStream::next_pieces`](crate::RecordStream::next_pieces) shows it. Every piece must
    /// come, in order, or the batch cannot be finished.
    ///
    /// As [`append_record`](Self::append_record), but in a compressed batch no more than 64 KiB
    /// and the longest piece wait for the compressor: memory is that of the finished batch,
    /// whatever it inflates to. What follows the key keeps its bytes, where `append_record` writes
    /// lengths in their shortest form.
    ///
    /// # Errors
    ///
    /// As [`append_with_offset`](Self::append_with_offset) but `ControlMix`; `PieceTooLong`, and
    /// `Compress`. A refused piece leaves the batch as it was, with two exceptions: after
    /// `Compress` where the compressor has seen a part of the batch, and after `Compress` or
    /// `TooLarge` within a record, every call gives `Broken` until [`reset`](Self::reset).
    pub fn append_piece(&mut self, piece: RecordPiece<'_>) -> Result<(), BuildError> {
        match piece {
            RecordPiece::Start { offset, timestamp, key_bytes, rest_bytes } => {
                self.begin_record(Place::new(offset, timestamp), key_bytes, rest_bytes)
            }
            RecordPiece::Key(bytes) | RecordPiece::Rest(bytes) => self.extend(bytes),
        }
    }

    fn begin_record(
        &mut self,
        place: Place,
        key_bytes: Option<usize>,
        rest_bytes: usize,
    ) -> Result<(), BuildError> {
        let (timestamp_delta, offset_delta) = self.deltas(place)?;
        let key_length = key_bytes.map_or(-1, |len| i64::try_from(len).unwrap_or(i64::MAX));
        let numbers = [timestamp_delta, i64::from(offset_delta), key_length];
        let follow = key_bytes.unwrap_or(0).saturating_add(rest_bytes);
        let body_bytes = numbers
            .iter()
            .fold(1_usize, |sum, number| sum.saturating_add(varint::len_i64(*number)))
            .saturating_add(follow);
        batch_length(body_bytes)?;
        self.make_room(follow)?;
        varint::write_len(&mut self.plain, body_bytes);
        self.plain.push(0); // attributes
        for number in numbers {
            varint::write_i64(&mut self.plain, number);
        }
        self.missing_bytes = follow;
        self.count(place);
        Ok(())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), BuildError> {
        if self.is_broken {
            return Err(BuildError::Broken);
        }
        let (missing_bytes, found) = (self.missing_bytes, bytes.len());
        let too_long = BuildError::PieceTooLong { missing_bytes, found };
        let left = missing_bytes.checked_sub(found).ok_or(too_long)?;
        // A record that lost a piece is never whole.
        let has_room = self.make_room(found);
        self.is_broken |= has_room.is_err();
        has_room?;
        self.plain.extend_from_slice(bytes);
        self.missing_bytes = left;
        Ok(())
    }

    /// Compresses what waits if `more` bytes are too many to wait with it.
    fn make_room(&mut self, more: usize) -> Result<(), BuildError> {
        if self.settings.codec == Codec::None {
            return batch_length(self.plain.len().saturating_add(more)).map(drop);
        }
        let waiting = self.plain.len().saturating_sub(BatchHeader::LEN);
        if waiting == 0 || waiting.saturating_add(more) <= WAITING_BYTES {
            return Ok(());
        }
        self.compress(false)?;
        self.spilled_bytes = self.spilled_bytes.saturating_add(waiting);
        self.plain.truncate(BatchHeader::LEN);
        batch_length(self.packed.len()).map(drop)
    }
}

/// What waits for the compressor, at most.
const WAITING_BYTES: usize = 64 << 10;

#[cfg(test)]
#[cfg(feature = "gzip")]
mod tests {
    use super::{BatchBuilder, BuildError, Codec, RecordPiece, WAITING_BYTES};
    use crate::{BatchSettings, Offset, SimpleRecord};

    fn start(offset: i64) -> RecordPiece<'static> {
        let offset = Offset::new(offset);
        let (key_bytes, rest_bytes) = (Some(WAITING_BYTES), 0);
        RecordPiece::Start { offset, timestamp: None, key_bytes, rest_bytes }
    }

    /// A gzip batch of two records, the first of which went through the compressor, and the level
    /// that the next call finds is none.
    fn failing(settings: BatchSettings) -> BatchBuilder {
        let mut builder = BatchBuilder::new(settings);
        for offset in 0..2 {
            builder.append_piece(start(offset)).unwrap();
            builder.append_piece(RecordPiece::Key(&vec![7; WAITING_BYTES])).unwrap();
        }
        assert!(builder.spilled_bytes > 0);
        builder.settings.level = Some(99);
        builder
    }

    fn assert_broken_until_reset(mut builder: BatchBuilder, settings: BatchSettings) {
        builder.settings = settings;
        assert_eq!(builder.append_piece(start(2)), Err(BuildError::Broken));
        assert_eq!(builder.append_piece(RecordPiece::Key(b"k")), Err(BuildError::Broken));
        assert_eq!(builder.append(&SimpleRecord::new()), Err(BuildError::Broken));
        assert_eq!(builder.finish(), Err(BuildError::Broken));
        builder.reset(settings);
        builder.append(&SimpleRecord::new().key(b"k")).unwrap();
        let found = builder.finish().unwrap().to_vec();
        let mut other = BatchBuilder::new(settings);
        other.append(&SimpleRecord::new().key(b"k")).unwrap();
        assert_eq!(found, other.finish().unwrap());
    }

    #[test]
    fn no_byte_is_compressed_again_after_the_compressor_failed() {
        let settings = BatchSettings::new(Offset::new(0)).codec(Codec::Gzip);
        let mut builder = failing(settings);
        let error = builder.append_piece(start(2)).unwrap_err();
        assert!(matches!(error, BuildError::Compress { .. }), "{error:?}");
        assert_broken_until_reset(builder, settings);

        let mut builder = failing(settings);
        let error = builder.finish().unwrap_err();
        assert!(matches!(error, BuildError::Compress { .. }), "{error:?}");
        assert_broken_until_reset(builder, settings);
    }

    #[test]
    fn a_record_that_lost_a_piece_is_never_finished() {
        let settings = BatchSettings::new(Offset::new(0)).codec(Codec::Gzip);
        let mut builder = BatchBuilder::new(settings);
        builder.append_piece(start(0)).unwrap();
        builder.settings.level = Some(99);
        builder.append_piece(RecordPiece::Key(&vec![7; WAITING_BYTES])).unwrap_err();
        assert_broken_until_reset(builder, settings);
    }
}
