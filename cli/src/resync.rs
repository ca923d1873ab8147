//! Finds the next sound batch behind damage, so that one bad length does not hide the rest.

use alluvium_record_format::{BatchHeader, Position, crc32c_append};

use crate::error::CliError;
use crate::log_file::{LogFile, Window};

/// What lies behind a byte at which no batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Nothing but zeros up to the end: preallocated, or lost with the power.
    Zeros,
    /// Bytes in which no batch can be made out.
    Noise,
    /// A batch with a right checksum begins at this byte.
    Batch(u64),
}

/// The first byte of a batch that its checksum covers.
pub(crate) const CRC_START: u64 = 21;

/// Bytes that are looked at in one go.
const STRIDE: usize = 64 * 1024;

/// To be compared in one go.
const ZEROS: &[u8; STRIDE] = &[0; STRIDE];

/// Looks for a batch of magic 2 with a right checksum from byte `from` on, below `end`.
///
/// Reads on to the batch or the end. Bytes that look like headers without being any cost a
/// checksum each; all of them together at most twice the bytes that are searched, and a MiB.
pub(crate) fn next_batch(file: &LogFile, from: u64, end: u64) -> Result<Rest, CliError> {
    let mut window = Window::new(file, from, end);
    let mut budget = window.left().saturating_mul(2).saturating_add(1 << 20);
    let mut zeros = true;
    while window.left() >= BatchHeader::LEN as u64 {
        let (start, left) = (window.position(), window.left());
        let bytes = window.peek(STRIDE)?;
        let Some(starts) = bytes.len().checked_sub(BatchHeader::LEN - 1).filter(|count| *count > 0)
        else {
            // The file has become shorter: a broker cuts what it preallocated when a log rolls.
            break;
        };
        // Preallocated logs are a GiB of these.
        if bytes == &ZEROS[..bytes.len()] {
            window.advance(starts as u64);
            continue;
        }
        let candidates: Vec<u64> = (0..starts)
            .filter(|&index| is_plausible(&bytes[index..], left - index as u64))
            .map(|index| start + index as u64)
            .collect();
        zeros &= bytes[..starts] == ZEROS[..starts];
        for at in candidates {
            if is_sound(file, at, &mut budget)? {
                return Ok(Rest::Batch(at));
            }
        }
        window.advance(starts as u64);
    }
    let tail = window.peek(BatchHeader::LEN)?;
    Ok(if zeros && tail.iter().all(|&byte| byte == 0) { Rest::Zeros } else { Rest::Noise })
}

/// Whether a header could begin here, by the few fields that tell most.
fn is_plausible(bytes: &[u8], left: u64) -> bool {
    // The magic byte turns down nearly all places at the price of one comparison.
    if bytes[16] != 2 {
        return false;
    }
    BatchHeader::parse(bytes, Position::new(0)).is_ok_and(|header| {
        header.size_bytes() <= left
            && header.base_offset().get() >= 0
            && header.last_offset_delta() >= 0
            && header.attributes().codec().is_some()
    })
}

/// Whether the batch at `at` has the checksum that it states.
fn is_sound(file: &LogFile, at: u64, budget: &mut u64) -> Result<bool, CliError> {
    let mut window = Window::new(file, at, file.len());
    let Ok(header) = BatchHeader::parse(window.peek(BatchHeader::LEN)?, Position::new(0)).copied()
    else {
        return Ok(false);
    };
    let Some(rest) = budget.checked_sub(header.size_bytes()) else { return Ok(false) };
    *budget = rest;
    let end = at + header.size_bytes();
    Ok(crc_of(file, at + CRC_START, end)? == header.crc())
}

/// The CRC-32C of the bytes `[start, end)` of a file, in pieces.
pub(crate) fn crc_of(file: &LogFile, start: u64, end: u64) -> Result<u32, CliError> {
    let mut window = Window::new(file, start, end);
    let mut crc = 0;
    while window.left() > 0 {
        let bytes = window.peek(STRIDE)?;
        let count = bytes.len();
        if count == 0 {
            break;
        }
        crc = crc32c_append(crc, bytes);
        window.advance(count as u64);
    }
    Ok(crc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_ends_where_the_file_was_cut_meanwhile() {
        for len in [0, 1, BatchHeader::LEN - 1, BatchHeader::LEN, STRIDE, 3 * STRIDE + 5] {
            for fill in [0, 7] {
                let file = tempfile::NamedTempFile::new().unwrap();
                let bytes = vec![fill; 4 * STRIDE];
                std::fs::write(file.path(), &bytes).unwrap();
                let log = LogFile::open(file.path()).unwrap();
                file.as_file().set_len(len as u64).unwrap();
                let rest = next_batch(&log, 0, log.len()).unwrap();
                let expected = if fill == 0 || len == 0 { Rest::Zeros } else { Rest::Noise };
                assert_eq!(rest, expected, "{len} bytes of {fill} are left");
                assert_eq!(crc_of(&log, 0, log.len()).unwrap(), crc32c_append(0, &bytes[..len]));
            }
        }
    }
}
