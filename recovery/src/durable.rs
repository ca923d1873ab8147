//! Small files as a whole: read with a bound, replaced so that a crash leaves old or new.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use alluvium_record_format::Position;

use crate::{Damage, DamageKind, FileAction, FileError};

/// Writes `bytes` so that a crash at any point leaves the old content or the new, never a mix.
///
/// Writes `<name>.tmp` beside the file, syncs it, renames it over the file and syncs the
/// directory: two syncs a call. A left-over `.tmp` of an earlier crash is overwritten.
///
/// Source: `CheckpointFile.write` in Kafka; `docs/format/checkpoints.md#writing`.
///
/// # Errors
///
/// [`FileError::Io`]. After a failed sync the old file still stands under its name; do not
/// count a later success as proof that these bytes are durable.
pub fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let temporary = temporary_name(path);
    write_file(&temporary, bytes, true)?;
    rename(&temporary, path)?;
    sync_directory(parent(path))
}

/// Makes the names in a directory durable: new files, renames and removals.
///
/// # Errors
///
/// [`FileError::Io`].
pub fn sync_directory(path: &Path) -> Result<(), FileError> {
    let directory = File::open(path).map_err(|e| FileError::io(path, FileAction::Open, e))?;
    directory.sync_all().map_err(|e| FileError::io(path, FileAction::Sync, e))
}

/// Creates or overwrites a file in place; a crash may leave it torn.
pub(crate) fn write_file(path: &Path, bytes: &[u8], sync: bool) -> Result<(), FileError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(|e| FileError::io(path, FileAction::Open, e))?;
    file.write_all(bytes).map_err(|e| FileError::io(path, FileAction::Write, e))?;
    if sync {
        file.sync_all().map_err(|e| FileError::io(path, FileAction::Sync, e))?;
    }
    Ok(())
}

/// Renames without a sync of the directory: the caller's to add where it matters.
#[expect(clippy::disallowed_methods, reason = "this is the helper that the rule points to")]
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    fs::rename(from, to).map_err(|e| FileError::io(from, FileAction::Rename, e))
}

/// Removes a file; one that is not there is as good as removed.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(FileError::io(path, FileAction::Remove, e))
        }
        _ => Ok(()),
    }
}

/// Reads a whole file of at most `max` bytes; the bound also holds for a file that grows.
pub(crate) fn read_file(path: &Path, max: u64) -> Result<Vec<u8>, FileError> {
    let file = File::open(path).map_err(|e| FileError::io(path, FileAction::Open, e))?;
    let mut bytes = Vec::new();
    let mut bounded = file.take(max.saturating_add(1));
    bounded.read_to_end(&mut bytes).map_err(|e| FileError::io(path, FileAction::Read, e))?;
    let found = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if found > max {
        let position = Position::saturating_from_len(usize::try_from(max).unwrap_or(usize::MAX));
        let kind = DamageKind::TooLarge { found, max };
        return Err(FileError::corrupt(path, Damage::at_byte(position, kind)));
    }
    Ok(bytes)
}

fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".tmp");
    PathBuf::from(name)
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}
