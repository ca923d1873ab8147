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
    /// As [`append_with_offset`](Self::append_with_offset) but `ControlMix`, `PieceMissing`,
    /// `Compress`. After another than the first piece of a record was refused, only
    /// [`reset`](Self::reset) helps.
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
        let missing = self.missing_bytes.checked_sub(bytes.len());
        self.missing_bytes = missing.ok_or(self.piece_missing())?;
        self.make_room(bytes.len())?;
        self.plain.extend_from_slice(bytes);
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
