//! Small files as a whole: read with a bound, replaced so that a crash leaves old or new.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use alluvium_record_format::Position;
use alluvium_segment::Io;

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
pub fn replace_file(io: &Io, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    replace_unsynced(io, path, bytes, true)?;
    sync_directory(io, parent(path))
}

/// Makes the names in a directory durable: new files, renames and removals.
///
/// # Errors
///
/// [`FileError::Io`].
pub fn sync_directory(io: &Io, path: &Path) -> Result<(), FileError> {
    io.sync_dir(path).map_err(|e| FileError::io(path, FileAction::Sync, e))
}

/// Replaces a file, without the sync of its directory, and of its bytes only if `sync` is set: a
/// crash of the process leaves old or new, one of the machine perhaps neither.
pub(crate) fn replace_unsynced(
    io: &Io,
    path: &Path,
    bytes: &[u8],
    sync: bool,
) -> Result<(), FileError> {
    let temporary = temporary_name(path);
    write_file(io, &temporary, bytes, sync)?;
    rename(io, &temporary, path)
}

/// Creates or overwrites a file in place; a crash may leave it torn.
pub(crate) fn write_file(io: &Io, path: &Path, bytes: &[u8], sync: bool) -> Result<(), FileError> {
    let fail = |action| move |e| FileError::io(path, action, e);
    let named = || path.to_path_buf();
    let file = io.open_or_create(path).map_err(fail(FileAction::Open))?;
    let len = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if file.metadata().map_err(fail(FileAction::Read))?.len() > len {
        io.set_len(&file, &named, 0).map_err(fail(FileAction::Truncate))?;
    }
    io.write_all(&file, &named, bytes, 0).map_err(fail(FileAction::Write))?;
    if sync {
        io.sync(&file, &named).map_err(fail(FileAction::Sync))?;
    }
    Ok(())
}

/// Cuts a file to `len` bytes, or extends it.
pub(crate) fn set_len(io: &Io, path: &Path, len: u64) -> Result<(), FileError> {
    let file = io.open(path, true).map_err(|e| FileError::io(path, FileAction::Open, e))?;
    io.set_len(&file, &|| path.to_path_buf(), len)
        .map_err(|e| FileError::io(path, FileAction::Truncate, e))
}

/// Renames without a sync of the directory: the caller's to add where it matters.
pub(crate) fn rename(io: &Io, from: &Path, to: &Path) -> Result<(), FileError> {
    io.rename(from, to).map_err(|e| FileError::io(from, FileAction::Rename, e))
}

/// Removes a file; one that is not there is as good as removed.
pub(crate) fn remove(io: &Io, path: &Path) -> Result<(), FileError> {
    match io.remove(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(FileError::io(path, FileAction::Remove, e))
        }
        _ => Ok(()),
    }
}

/// Reads a whole file of at most `max` bytes; the bound also holds for a file that grows.
pub(crate) fn read_file(io: &Io, path: &Path, max: u64) -> Result<Vec<u8>, FileError> {
    let fail = |action| move |e| FileError::io(path, action, e);
    let file = io.open(path, false).map_err(fail(FileAction::Open))?;
    let found = file.metadata().map_err(fail(FileAction::Read))?.len();
    if found > max {
        let position = Position::saturating_from_len(usize::try_from(max).unwrap_or(usize::MAX));
        let kind = DamageKind::TooLarge { found, max };
        return Err(FileError::corrupt(path, Damage::at_byte(position, kind)));
    }
    read_range(io, &file, path, 0, found)
}

/// Reads the first `len` bytes of a file, fewer where it is shorter.
pub(crate) fn read_start(io: &Io, path: &Path, len: usize) -> Result<Vec<u8>, FileError> {
    let file = io.open(path, false).map_err(|e| FileError::io(path, FileAction::Open, e))?;
    read_range(io, &file, path, 0, u64::try_from(len).unwrap_or(u64::MAX))
}

/// Reads `len` bytes of a file from `start` on, fewer only where the file ends.
pub(crate) fn read_range(
    io: &Io,
    file: &File,
    path: &Path,
    start: u64,
    len: u64,
) -> Result<Vec<u8>, FileError> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(usize::MAX)];
    let read = io
        .read_full(file, &|| path.to_path_buf(), &mut bytes, start)
        .map_err(|e| FileError::io(path, FileAction::Read, e))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// The name of a file while it is written.
pub(crate) fn temporary_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(TEMPORARY);
    PathBuf::from(name)
}

/// What is added to the name of a file while it is written.
pub(crate) const TEMPORARY: &str = ".tmp";

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_a_directory_lies_in_the_current_one() {
        assert_eq!(parent(Path::new("file")), Path::new("."));
        assert_eq!(parent(Path::new("dir/file")), Path::new("dir"));
        assert_eq!(parent(Path::new("/file")), Path::new("/"));
    }
}
