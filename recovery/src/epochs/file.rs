//! The file `leader-epoch-checkpoint`: `docs/format/leader-epochs.md`.

use std::path::Path;

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_segment::Io;

use crate::durable::read_file;
use crate::text::{Line, MAX_TEXT_BYTES, read_entries, write_entries};
use crate::{Damage, DamageKind, FileError};

/// The name of the file in a partition directory.
pub(crate) const FILE_NAME: &str = "leader-epoch-checkpoint";

/// A leader epoch and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// The first offset that was, or will be, written under it.
    pub start_offset: Offset,
}

impl EpochEntry {
    /// An epoch that begins at an offset.
    #[must_use]
    pub const fn new(epoch: LeaderEpoch, start_offset: Offset) -> Self {
        Self { epoch, start_offset }
    }
}

/// Reads the content of a `leader-epoch-checkpoint` file, as it stands there: whether epochs
/// and offsets rise is not checked.
///
/// # Errors
///
/// Any other version than 0, lines that are not two numbers of at least 0, a count that does
/// not match.
pub fn parse_epochs(bytes: &[u8]) -> Result<Vec<EpochEntry>, Damage> {
    read_entries(bytes, |line| {
        let [epoch, start_offset] = line.fields()?;
        let epoch = natural(line, epoch, "epoch")?;
        let start_offset = natural(line, start_offset, "start offset")?;
        Ok(EpochEntry::new(LeaderEpoch::new(epoch), Offset::new(start_offset)))
    })
}

/// Reads the file of a partition directory; no file is no entries.
///
/// # Errors
///
/// [`FileError::Corrupt`] as for [`parse_epochs`]: the epochs can be rebuilt from the log.
/// [`FileError::Io`].
pub fn read_epochs(io: &Io, partition_dir: &Path) -> Result<Vec<EpochEntry>, FileError> {
    let path = partition_dir.join(FILE_NAME);
    match read_file(io, &path, MAX_TEXT_BYTES) {
        Ok(bytes) => parse_epochs(&bytes).map_err(|e| FileError::corrupt(&path, e)),
        Err(e) if e.is_not_found() => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

/// The content of the file of these entries.
#[must_use]
pub fn encode_epochs(entries: &[EpochEntry]) -> String {
    write_entries(entries.iter().map(|entry| format!("{} {}", entry.epoch, entry.start_offset)))
}

fn natural<T>(line: &Line<'_>, text: &str, field: &'static str) -> Result<T, Damage>
where
    T: std::str::FromStr + Default + PartialOrd,
{
    let number: T = line.number(text, field)?;
    if number < T::default() {
        return Err(line.damage(DamageKind::Number { field }));
    }
    Ok(number)
}
