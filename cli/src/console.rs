//! Standard output through one buffer, messages on standard error, and the exit code.

use std::collections::BTreeSet;
use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fmt, fs};

use alluvium_record_format::Corruption;
use alluvium_recovery::FileError;
use anstream::{AutoStream, ColorChoice};
use anstyle::Style;

use crate::error::CliError;

/// Bytes of output that are collected before they are written.
const SPILL_BYTES: usize = 64 * 1024;

/// Where a command prints, and what it has found so far.
#[derive(Debug, Default)]
pub(crate) struct Console {
    buffer: Vec<u8>,
    is_coloured: bool,
    damaged: bool,
    failed: bool,
    /// Files of several partitions that were named.
    named: BTreeSet<PathBuf>,
    /// The first error of the output, where errors wait for [`finish`](Self::finish).
    held: Option<Result<(), CliError>>,
}

impl Console {
    /// A console that colours its output where standard output is a terminal.
    pub(crate) fn new() -> Self {
        let choice = AutoStream::choice(&io::stdout());
        Self { is_coloured: choice != ColorChoice::Never, ..Self::default() }
    }

    /// `style`, or none at all where output is not coloured.
    pub(crate) fn style(&self, style: Style) -> Style {
        if self.is_coloured { style } else { Style::new() }
    }

    /// Adds text to standard output.
    pub(crate) fn print(&mut self, text: fmt::Arguments<'_>) {
        // A Vec takes every byte, so there is no error to hand on.
        let _ = self.buffer.write_fmt(text);
    }

    /// The bytes that wait for standard output, to append to.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Writes out what was printed if it has become much. Call it once a line or so.
    pub(crate) fn spill(&mut self) -> Result<(), CliError> {
        if self.buffer.len() < SPILL_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes out all that was printed.
    pub(crate) fn flush(&mut self) -> Result<(), CliError> {
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&self.buffer).and_then(|()| stdout.flush());
        self.buffer.clear();
        let written = written.map_err(|source| CliError::Output { source });
        match &mut self.held {
            None => written,
            Some(held) => {
                if held.is_ok() {
                    *held = written;
                }
                Ok(())
            }
        }
    }

    /// From here on the command changes something, which it must not leave half done because
    /// nobody reads what it prints: errors of the output wait for [`finish`](Self::finish).
    pub(crate) fn hold_errors(&mut self) {
        self.held.get_or_insert(Ok(()));
    }

    /// Writes out all that was printed, and hands on an error that was held.
    pub(crate) fn finish(&mut self) -> Result<(), CliError> {
        self.flush()?;
        self.held.take().unwrap_or(Ok(()))
    }

    /// Names damage on standard error; the command then exits with 1.
    pub(crate) fn damage(
        &mut self,
        path: &Path,
        byte: impl Into<Option<u64>>,
        what: impl fmt::Display,
    ) -> Result<(), CliError> {
        self.damaged = true;
        self.message(path, byte.into(), &what)
    }

    /// Names damage in a batch on standard error; the command then exits with 1.
    pub(crate) fn corruption(
        &mut self,
        path: &Path,
        corruption: Corruption,
    ) -> Result<(), CliError> {
        self.damage(path, u64::from(corruption.position().get()), corruption.kind())
    }

    /// Names a small file that is damaged, or could not be read.
    pub(crate) fn file_error(&mut self, error: FileError) -> Result<(), CliError> {
        match error.damage() {
            Some(damage) => {
                let at = u64::from(damage.position().get());
                self.damage(error.path(), at, damage.kind())
            }
            None => self.failure(&CliError::File { source: error }),
        }
    }

    /// As [`file_error`](Self::file_error), for a file of several partitions: it is named once.
    pub(crate) fn shared_file_error(&mut self, error: FileError) -> Result<(), CliError> {
        let path = fs::canonicalize(error.path()).unwrap_or_else(|_| error.path().to_path_buf());
        if self.named.insert(path) { self.file_error(error) } else { Ok(()) }
    }

    /// Makes the command exit with 1; what is damaged is printed elsewhere.
    pub(crate) fn mark_damaged(&mut self) {
        self.damaged = true;
    }

    /// Says on standard error what is no damage but worth knowing.
    pub(crate) fn note(
        &mut self,
        path: &Path,
        byte: impl Into<Option<u64>>,
        what: impl fmt::Display,
    ) -> Result<(), CliError> {
        self.message(path, byte.into(), &what)
    }

    /// Prints a line of a report on standard error, as it is.
    pub(crate) fn report(&mut self, line: fmt::Arguments<'_>) -> Result<(), CliError> {
        self.flush()?;
        // Standard error may be closed; there is nowhere left to say so.
        let _ = writeln!(io::stderr().lock(), "{line}");
        Ok(())
    }

    /// Names an error with its causes on standard error; the command then exits with 2.
    pub(crate) fn failure(&mut self, error: &CliError) -> Result<(), CliError> {
        self.failed = true;
        let mut text = format!("alluvium: {error}");
        let mut cause = error.source();
        while let Some(source) = cause {
            text.push_str(": ");
            text.push_str(&source.to_string());
            cause = source.source();
        }
        self.report(format_args!("{text}"))
    }

    /// 0 good, 1 damage found, 2 something could not be read.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(if self.failed { 2 } else { u8::from(self.damaged) })
    }

    fn message(
        &mut self,
        path: &Path,
        byte: Option<u64>,
        what: &dyn fmt::Display,
    ) -> Result<(), CliError> {
        let path = path.display();
        match byte {
            Some(byte) => self.report(format_args!("alluvium: {path}: byte {byte}: {what}")),
            None => self.report(format_args!("alluvium: {path}: {what}")),
        }
    }
}
