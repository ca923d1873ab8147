//! The bare pass that `verify` and recovery are measured against: logs read in pieces, each piece
//! through a CRC, on some threads.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread::ScopedJoinHandle;

use anyhow::{Context as _, Result};

/// Bytes of a `pread`.
pub(super) const PIECE: usize = 256 << 10;

/// The log of the segments that are measured.
pub(super) const LOG: &str = "00000000000000000000.log";

/// A CRC: ours, or that of the `crc32c` crate.
pub(super) type Crc = fn(&[u8]) -> u32;

/// The sum over the pieces from `at` to `end`, which the file reaches.
pub(super) fn read_range(file: &File, mut at: u64, end: u64, crc: Crc) -> Result<u64> {
    let (mut piece, mut sum) = (vec![0; PIECE], 0);
    while at < end {
        let want = usize::try_from((end - at).min(PIECE as u64))?;
        file.read_exact_at(&mut piece[..want], at).context("cannot read a log")?;
        sum += u64::from(crc(&piece[..want]));
        at += want as u64;
    }
    Ok(sum)
}

/// The sum of all threads.
pub(super) fn sum(readers: Vec<ScopedJoinHandle<'_, Result<u64>>>) -> Result<u64> {
    readers.into_iter().map(|reader| reader.join().expect("a reader does not panic")).sum()
}

/// Flips a bit among the records in the middle of a log.
pub(super) fn damage(log: &Path) -> Result<()> {
    let mut bytes = fs::read(log).context("cannot read a log")?;
    let middle = bytes.len() / 2 + 1_000;
    bytes[middle] ^= 1;
    fs::write(log, bytes).context("cannot write a log")
}
