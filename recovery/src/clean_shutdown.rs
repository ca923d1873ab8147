//! The marker of a clean shutdown, `.kafka_cleanshutdown`: `docs/format/clean-shutdown.md`.

use std::path::{Path, PathBuf};

use alluvium_segment::Io;

use crate::durable::{read_file, remove, replace_file, sync_directory, temporary_name};
use crate::{FileAction, FileError};

/// The marker that a data directory was closed with everything safe.
///
/// That the file exists is all that counts: an empty one, or one of another content, is a
/// marker without a broker epoch. Remove it before the first log of the directory is loaded,
/// write it after the last was closed and every checkpoint written.
///
/// Source: `CleanShutdownFileHandler` in Kafka; `docs/format/clean-shutdown.md`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CleanShutdown {
    /// The epoch under which the broker was registered, if the marker tells.
    pub broker_epoch: Option<i64>,
}

impl CleanShutdown {
    /// The name of the file in a data directory.
    pub const FILE_NAME: &'static str = ".kafka_cleanshutdown";

    /// The marker of a broker with this epoch.
    #[must_use]
    pub const fn new(broker_epoch: Option<i64>) -> Self {
        Self { broker_epoch }
    }

    /// Reads the content of the file; there is no content that is not a marker.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let epoch = find_number(bytes, "\"brokerEpoch\"").filter(|&epoch| epoch >= 0);
        Self { broker_epoch: epoch }
    }

    /// Reads the marker of a data directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]: the directory should go offline. A marker of absurd size is one
    /// without epoch.
    pub fn read(io: &Io, data_dir: &Path) -> Result<Option<Self>, FileError> {
        match read_file(io, &Self::path(data_dir), MAX_BYTES) {
            Ok(bytes) => Ok(Some(Self::parse(&bytes))),
            Err(FileError::Corrupt { .. }) => Ok(Some(Self::default())),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes the marker and makes it durable, as a whole or not at all: an empty one would count.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]: there is no marker then, unless the disk does not let go of it either.
    pub fn write(&self, io: &Io, data_dir: &Path) -> Result<(), FileError> {
        let path = Self::path(data_dir);
        let written = replace_file(io, &path, self.to_json().as_bytes());
        if written.is_err() {
            for left in [&temporary_name(&path), &path] {
                // The first failure is the one to tell of.
                drop(remove(io, left));
            }
        }
        written
    }

    /// Removes the marker, durably, so that a crash from here on is seen as one. Returns
    /// whether there was one.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`]: the directory must go offline, as its next start would take a crash
    /// for a clean stop.
    pub fn remove(io: &Io, data_dir: &Path) -> Result<bool, FileError> {
        let path = Self::path(data_dir);
        let there = path.try_exists().map_err(|e| FileError::io(&path, FileAction::Open, e))?;
        if there {
            remove(io, &path)?;
            sync_directory(io, data_dir)?;
        }
        Ok(there)
    }

    /// The content of the file, as Kafka writes it: -1 for an unknown epoch.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!("{{\"version\":0,\"brokerEpoch\":{}}}", self.broker_epoch.unwrap_or(-1))
    }

    fn path(data_dir: &Path) -> PathBuf {
        data_dir.join(Self::FILE_NAME)
    }
}

/// More than any marker has.
const MAX_BYTES: u64 = 64 << 10;

/// The integer behind `key` and a colon, in a flat JSON object.
fn find_number(bytes: &[u8], key: &str) -> Option<i64> {
    let (_, after) = std::str::from_utf8(bytes).ok()?.split_once(key)?;
    let number = after.trim_start().strip_prefix(':')?.trim_start();
    let end = number.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(number.len());
    number.get(..end)?.parse().ok()
}
