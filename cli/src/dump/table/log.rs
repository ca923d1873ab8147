//! The table of a log.

use std::ops::ControlFlow;

use alluvium_record_format::{Batch, Entry, LegacyEntry, Offset, Timestamp, TimestampType};
use anstyle::{AnsiColor, Style};

use super::Options;
use crate::console::Console;
use crate::dump::control;
use crate::error::CliError;
use crate::inflate::{AnyRecord, Inflater};
use crate::log_file::LogFile;
use crate::preview::Preview;
use crate::readable::{Bytes, Time};
use crate::walk::{Step, Walk};

/// Prints the table of one log.
pub(super) fn dump(
    file: &LogFile,
    options: &Options,
    console: &mut Console,
) -> Result<(), CliError> {
    let bold = console.style(Style::new().bold());
    let (path, size) = (file.path().display(), Bytes(file.len()));
    console.print(format_args!("{bold}{path}{bold:#}  {size}\n"));
    console.print(format_args!(
        "{:>10}  {:>21}  {:>7}  {:<6}  {:>10}  {:<24}  {:>5}  producer, flags\n",
        "byte", "offsets", "records", "codec", "size", "latest time", "epoch"
    ));
    let mut table = Table { file, options, console, inflater: Inflater::default() };
    let mut walk = Walk::new(file, 0);
    loop {
        let step = walk.step()?;
        let Step::Entry(head) = step else {
            if step.name(file.path(), table.console)? {
                continue;
            }
            return Ok(());
        };
        match walk.entry(&head)? {
            Ok(entry) => table.entry(&entry)?,
            Err(corruption) => table.console.corruption(file.path(), corruption)?,
        }
        table.console.spill()?;
    }
}

struct Table<'a> {
    file: &'a LogFile,
    options: &'a Options,
    console: &'a mut Console,
    inflater: Inflater,
}

impl Table<'_> {
    fn entry(&mut self, entry: &Entry<'_>) -> Result<(), CliError> {
        match entry {
            Entry::Batch(batch) => self.batch(batch)?,
            Entry::Legacy(entry) => self.legacy(entry)?,
            _ => {}
        }
        if self.options.batches { Ok(()) } else { self.records(entry) }
    }

    fn batch(&mut self, batch: &Batch<'_>) -> Result<(), CliError> {
        let header = batch.header();
        let attributes = header.attributes();
        let bold = self.console.style(Style::new().bold());
        self.console.print(format_args!(
            "{bold}{:>10}{bold:#}  {:>21}  {:>7}  {:<6}  {:>10}  {:<24}  {:>5}  ",
            batch.position(),
            Range(header.base_offset(), header.last_offset()).to_string(),
            header.record_count(),
            attributes.codec().map_or("?", |codec| codec.name()),
            Bytes(header.size_bytes()),
            Time(header.max_timestamp_raw()),
            header.leader_epoch_raw(),
        ));
        if let Some(id) = header.producer_id() {
            self.console.print(format_args!("{id}/{}", header.producer_epoch()));
            if let (Some(first), Some(last)) = (header.base_sequence(), header.last_sequence()) {
                self.console.print(format_args!(" #{first}..{last}"));
            }
        }
        let flags = [
            (attributes.is_transactional(), " transactional"),
            (attributes.is_control(), " control"),
            (attributes.has_delete_horizon(), " delete-horizon"),
            (attributes.timestamp_type() == TimestampType::LogAppendTime, " append-time"),
        ];
        for (_, flag) in flags.iter().filter(|(is_set, _)| *is_set) {
            self.console.print(format_args!("{flag}"));
        }
        let crc = batch.verify_crc();
        self.end_of_line(crc.is_ok());
        if let Err(corruption) = crc {
            self.console.corruption(self.file.path(), corruption)?;
        }
        Ok(())
    }

    fn legacy(&mut self, entry: &LegacyEntry<'_>) -> Result<(), CliError> {
        let bold = self.console.style(Style::new().bold());
        self.console.print(format_args!(
            "{bold}{:>10}{bold:#}  {:>21}  {:>7}  {:<6}  {:>10}  {:<24}  {:>5}  magic {}",
            entry.position(),
            format!("..{}", entry.offset()),
            "",
            entry.codec().map_or("?", |codec| codec.name()),
            Bytes(entry.bytes().len() as u64),
            Time(entry.timestamp_raw()),
            "",
            entry.magic(),
        ));
        let crc = entry.verify_crc();
        self.end_of_line(crc.is_ok());
        if let Err(corruption) = crc {
            self.console.corruption(self.file.path(), corruption)?;
        }
        Ok(())
    }

    fn records(&mut self, entry: &Entry<'_>) -> Result<(), CliError> {
        let is_control = match entry {
            Entry::Batch(batch) => batch.header().attributes().is_control(),
            _ => false,
        };
        let (width, console) = (self.options.width(), &mut *self.console);
        let failed = self.inflater.visit(entry, |record| {
            if is_control {
                control_line(console, &record);
            } else {
                line(console, width, record);
            }
            match console.spill() {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match failed {
            Ok(failed) => failed.map_or(Ok(()), Err),
            Err(corruption) => self.console.corruption(self.file.path(), corruption),
        }
    }

    /// Ends the line of a batch, with a warning where its checksum is wrong.
    fn end_of_line(&mut self, is_valid: bool) {
        if !is_valid {
            let red = self.console.style(AnsiColor::Red.on_default().bold());
            self.console.print(format_args!(" {red}WRONG CHECKSUM{red:#}"));
        }
        self.console.buffer().push(b'\n');
    }
}

/// First and last offset.
struct Range(Offset, Offset);

impl std::fmt::Display for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 == self.1 { self.0.fmt(f) } else { write!(f, "{}..{}", self.0, self.1) }
    }
}

/// A record.
fn line(console: &mut Console, width: usize, record: AnyRecord<'_>) {
    let dim = console.style(Style::new().dimmed());
    console.print(format_args!(
        "            {:>12}  {dim}{}{dim:#}  {} = {}",
        record.offset,
        Time(record.timestamp.map_or(-1, Timestamp::get)),
        Preview::new(record.key, width),
        Preview::new(record.value, width),
    ));
    for header in record.headers {
        console.print(format_args!(
            "  {}: {}",
            Preview::new(Some(header.key), width),
            Preview::new(header.value, width)
        ));
    }
    console.buffer().push(b'\n');
}

/// A control record.
fn control_line(console: &mut Console, record: &AnyRecord<'_>) {
    let dim = console.style(Style::new().dimmed());
    console.print(format_args!(
        "            {:>12}  {dim}{}{dim:#} ",
        record.offset,
        Time(record.timestamp.map_or(-1, Timestamp::get)),
    ));
    if let Err(kind) = control::print(record.key, record.value, console) {
        console.print(format_args!(" {kind}"));
    }
    console.buffer().push(b'\n');
}
