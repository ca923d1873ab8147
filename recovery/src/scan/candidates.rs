//! Where a batch may begin, when nobody has told.

use alluvium_record_format::{BatchHeader, Offset, Position};

use super::window::{BLOCK_BYTES, Window, to_usize};
use crate::FileError;

/// Where the magic byte of a batch stands.
const MAGIC_AT: usize = 16;

/// The first position in `range` where the bytes could be the header of a batch of magic 2.
///
/// Its checksum tells more, and the stitcher has the last word: a value may hold whole batches.
pub(super) fn next_candidate(
    window: &mut Window<'_>,
    range: (u32, u32),
    segment_base: Offset,
) -> Result<Option<u32>, FileError> {
    let (mut from, end) = range;
    let file_len = window.file().len();
    while from < end {
        let bytes = window.bytes(from, BLOCK_BYTES, BLOCK_BYTES)?;
        let Some(last) = bytes.len().checked_sub(BatchHeader::LEN) else { return Ok(None) };
        let left = to_usize(end.saturating_sub(from));
        let starts = last.saturating_add(1).min(left);
        let magics = bytes.get(MAGIC_AT..starts.saturating_add(MAGIC_AT)).unwrap_or_default();
        for (index, _) in magics.iter().enumerate().filter(|(_, magic)| **magic == 2) {
            let at = Position::new(from).saturating_add_len(index);
            let room = file_len.saturating_sub(at.get());
            let header = bytes.get(index..).unwrap_or_default();
            if is_plausible(header, at, room, segment_base) {
                return Ok(Some(at.get()));
            }
        }
        from = from.saturating_add(u32::try_from(starts).unwrap_or(u32::MAX));
    }
    Ok(None)
}

fn is_plausible(bytes: &[u8], at: Position, room: u32, segment_base: Offset) -> bool {
    BatchHeader::parse(bytes, at).is_ok_and(|header| {
        let delta = header.last_offset_delta();
        header.size_bytes() <= room.into()
            && header.last_offset().relative_to(segment_base).is_some()
            && (0..=delta.saturating_add(1)).contains(&header.record_count())
            && header.attributes().codec().is_some()
            && header.producer_id_raw() >= -1
    })
}
