//! What the dumps of the index files have in common.

use std::path::{Path, PathBuf};

use alluvium_record_format::{Corruption, Offset};

use super::Options;
use super::report::Report;
use crate::console::Console;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::text::java_path;

/// One index file on its way to standard output.
pub(super) struct IndexDump<'a, 'f> {
    pub(super) file: &'f LogFile,
    pub(super) options: &'a Options,
    pub(super) report: &'a mut Report,
    pub(super) console: &'a mut Console,
}

impl IndexDump<'_, '_> {
    /// The base offset that the name begins with.
    pub(super) fn base_offset(&mut self) -> Result<Option<Offset>, CliError> {
        let offset = self.file.base_offset();
        if offset.is_none() {
            let what = "the name does not begin with an offset";
            self.console.damage(self.file.path(), None, what)?;
        }
        Ok(offset)
    }

    /// The file of the same segment with another extension; named as damage when it is missing.
    pub(super) fn beside(&mut self, extension: &str) -> Result<Option<LogFile>, CliError> {
        let path = sibling(self.file.path(), extension);
        match LogFile::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.is_not_found() => {
                let what = format_args!("there is no .{extension} file beside it to compare with");
                self.console.damage(self.file.path(), None, what)?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The outcome of Kafka's sanity check.
    pub(super) fn sanity(&mut self, found: Result<(), Corruption>) -> Result<(), CliError> {
        match found {
            Ok(()) => {
                let path = java_path(self.file.path());
                self.console.print(format_args!("{path} passed sanity check.\n"));
                Ok(())
            }
            Err(corruption) => self.damage(corruption),
        }
    }

    /// Names damage inside the file.
    pub(super) fn damage(&mut self, corruption: Corruption) -> Result<(), CliError> {
        let at = u64::from(corruption.position().get());
        self.console.damage(self.file.path(), at, corruption.kind())
    }

    /// Says that the file ends in the zeros of an index that was not trimmed: no damage.
    pub(super) fn name_padding(&mut self, slots: usize, at: usize) -> Result<(), CliError> {
        if slots == 0 {
            return Ok(());
        }
        let what = format_args!("{slots} slots of zero padding: the index was not trimmed");
        self.console.note(self.file.path(), Some(at as u64), what)
    }

    /// Names the bytes behind the last whole entry.
    pub(super) fn name_spare_bytes(&mut self, count: usize) -> Result<(), CliError> {
        if count == 0 {
            return Ok(());
        }
        let at = self.file.len().saturating_sub(count as u64);
        let what = format_args!("{count} spare bytes behind the last whole entry");
        self.console.damage(self.file.path(), at, what)
    }
}

/// The path of a file of the same segment: what stands before the first dot of the name, and
/// `extension`.
fn sibling(path: &Path, extension: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = name.split('.').next().unwrap_or_default();
    path.with_file_name(format!("{number}.{extension}"))
}
