//! CRC-32C: the processor's instructions with `std`, a table without.

#[cfg(feature = "std")]
use crc_fast::CrcAlgorithm;

/// The CRC-32C (Castagnoli) of `bytes`.
///
/// # Examples
///
/// ```
/// assert_eq!(alluvium_record_format::crc32c(b"123456789"), 0xe306_9283);
/// ```
#[cfg(feature = "std")]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C (Castagnoli) of `bytes`.
#[cfg(not(feature = "std"))]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    table::append(0, bytes)
}

/// The CRC-32C of bytes whose CRC is `crc`, followed by `bytes`.
#[cfg(feature = "std")]
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let state = u64::from(!crc);
    let mut digest = crc_fast::Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
    digest.update(bytes);
    let [.., b0, b1, b2, b3] = digest.finalize().to_be_bytes();
    u32::from_be_bytes([b0, b1, b2, b3])
}

/// The CRC-32C of bytes whose CRC is `crc`, followed by `bytes`.
#[cfg(not(feature = "std"))]
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    table::append(crc, bytes)
}

/// The CRC-32 of bytes whose CRC-32 is `crc`, followed by `bytes`; begin with 0. It guards
/// messages of magic 0 and 1, from the magic on.
///
/// # Examples
///
/// ```
/// # use alluvium_record_format::crc32_append;
/// assert_eq!(crc32_append(crc32_append(0, b"1234"), b"56789"), 0xcbf4_3926);
/// ```
#[must_use]
pub fn crc32_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(crc);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(any(not(feature = "std"), test))]
mod table {
    /// Reflected Castagnoli polynomial.
    const POLYNOMIAL: u32 = 0x82f6_3b78;

    const TABLE: [u32; 256] = make();

    #[expect(
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing,
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        reason = "computed at compile time, where a fault is a compile error"
    )]
    const fn make() -> [u32; 256] {
        let mut table = [0; 256];
        let mut index = 0;
        while index < 256 {
            let mut crc = index as u32;
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
                bit += 1;
            }
            table[index] = crc;
            index += 1;
        }
        table
    }

    pub(super) fn append(crc: u32, bytes: &[u8]) -> u32 {
        let mut state = !crc;
        for &byte in bytes {
            let [low, ..] = state.to_le_bytes();
            let entry = TABLE.get(usize::from(low ^ byte)).copied().unwrap_or(0);
            state = (state >> 8) ^ entry;
        }
        !state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_and_processor_agree_at_every_length() {
        // Lengths and addresses for all of the processor's ways: 20 KiB take the widest.
        let bytes: alloc::vec::Vec<u8> = (0..=250).cycle().take(20 << 10).collect();
        for len in (0..1_100).chain([2_047, 4_096, 4_097, 8_191, 16_385, bytes.len() - 3]) {
            let part = &bytes[len % 3..][..len];
            assert_eq!(table::append(0, part), crc32c(part), "{len} bytes");
            assert_eq!(table::append(7, part), crc32c_append(7, part), "{len} bytes");
        }
    }
}
