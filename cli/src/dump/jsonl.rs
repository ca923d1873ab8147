//! What a consumer sees of a partition: one JSON object a line.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Entry, Offset, Timestamp, TimestampType, crc32c};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::{Args, ValueEnum};

use super::aborted::Aborted;
use crate::console::Console;
use crate::error::CliError;
use crate::inflate::{AnyRecord, Inflater};
use crate::log_end::{self, LogEnd};
use crate::log_file::LogFile;
use crate::partition::{Partition, must_be_partition};
use crate::text::push_json_string;
use crate::walk::{Head, Step, Walk};

/// Which transactional records a consumer gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Isolation {
    /// All of them
    #[default]
    ReadUncommitted,
    /// Those of committed transactions, up to the first that is still open
    ReadCommitted,
}

/// How values are shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Values {
    /// Length and CRC-32C
    #[default]
    Crc32c,
    /// All bytes
    Base64,
    /// A string; bytes that are not UTF-8 as {"base64": ...}
    Utf8,
}

/// Options of the view.
#[derive(Args, Debug)]
#[group(skip)]
#[command(next_help_heading = "Options of --format jsonl")]
pub(crate) struct Options {
    /// Which transactional records are shown
    ///
    /// Without it, all of them are.
    #[arg(long, value_enum)]
    isolation: Option<Isolation>,

    /// How values are shown [default: crc32c]
    #[arg(long, value_enum)]
    values: Option<Values>,
}

impl Options {
    /// The first of these options that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let isolation = self.isolation.map(|_| "--isolation");
        isolation.or_else(|| self.values.map(|_| "--values"))
    }
}

/// Prints the records of each partition directory.
pub(crate) fn run(
    dirs: &[PathBuf],
    options: &Options,
    console: &mut Console,
) -> Result<(), CliError> {
    for dir in dirs {
        match partition(dir, options, console) {
            Err(
                error @ (CliError::Io { .. }
                | CliError::File { .. }
                | CliError::NotAFile { .. }
                | CliError::NotAPartition { .. }),
            ) => {
                console.failure(&error)?;
            }
            other => other?,
        }
    }
    Ok(())
}

fn partition(dir: &Path, options: &Options, console: &mut Console) -> Result<(), CliError> {
    let isolation = options.isolation.unwrap_or_default();
    let values = options.values.unwrap_or_default();
    must_be_partition(dir)?;
    let partition = Partition::read(dir)?;
    let begin = partition.log_start(console)?;
    let LogEnd { end, last_stable, .. } = log_end::of(&partition, begin)?;
    let end = match isolation {
        Isolation::ReadUncommitted => end,
        Isolation::ReadCommitted => last_stable,
    };
    let aborted = match isolation {
        Isolation::ReadUncommitted => Aborted::default(),
        Isolation::ReadCommitted => Aborted::read(&partition, console)?,
    };
    console.print(format_args!("{{\"begin\":{begin},\"end\":{end}}}\n"));
    let mut view = View { begin, end, values, aborted, inflater: Inflater::default() };
    let bases: Vec<Offset> = partition.logs().map(|(segment, _)| segment.base).collect();
    for (index, (segment, log)) in partition.logs().enumerate() {
        if segment.base >= end {
            break;
        }
        let next = bases.get(index + 1).copied();
        if next.is_some_and(|next| next <= begin) {
            continue;
        }
        view.segment(&LogFile::open(&log.path)?, next, console)?;
    }
    Ok(())
}

/// The view of a consumer, on its way over the segments.
struct View {
    begin: Offset,
    end: Offset,
    values: Values,
    aborted: Aborted,
    inflater: Inflater,
}

impl View {
    /// Shows a segment, behind which the next one begins at `next`.
    fn segment(
        &mut self,
        log: &LogFile,
        next: Option<Offset>,
        console: &mut Console,
    ) -> Result<(), CliError> {
        let mut walk = Walk::new(log, 0);
        let mut beyond: Option<Head> = None;
        loop {
            let step = walk.step()?;
            let Step::Entry(head) = step else {
                if !step.name(log.path(), console)? {
                    return Ok(());
                }
                continue;
            };
            if let Some(next) = next
                && head.base_offset >= next
            {
                let what = format_args!(
                    "offset {}, but the next segment begins at {next}",
                    head.base_offset
                );
                console.damage(log.path(), head.position, what)?;
                continue;
            }
            if head.base_offset >= self.end {
                beyond.get_or_insert(head);
                continue;
            }
            // Only what goes on below shows that the offset was a wrong one, and not the end.
            if let Some(wrong) = beyond.take() {
                let (offset, back) = (wrong.base_offset, head.base_offset);
                let what = format_args!("offset {offset}, but {back} comes behind it");
                console.damage(log.path(), wrong.position, what)?;
            }
            if head.last_offset < self.begin || self.is_hidden(&head) {
                continue;
            }
            match walk.entry(&head)? {
                Ok(entry) => self.entry(&entry, log.path(), console)?,
                Err(corruption) => console.corruption(log.path(), corruption)?,
            }
        }
    }

    /// Whether a consumer does not get the batch: control records, and what was aborted.
    fn is_hidden(&mut self, head: &Head) -> bool {
        let Some(header) = &head.header else { return false };
        header.attributes().is_control() || self.aborted.contains(header)
    }

    fn entry(
        &mut self,
        entry: &Entry<'_>,
        path: &Path,
        console: &mut Console,
    ) -> Result<(), CliError> {
        let (crc, label, epoch) = match entry {
            Entry::Batch(batch) => {
                let header = batch.header();
                let label = header.attributes().timestamp_type().name();
                (batch.verify_crc(), label, header.leader_epoch_raw())
            }
            Entry::Legacy(entry) => {
                let label = entry.timestamp_type().map_or("NoTimestampType", TimestampType::name);
                (entry.verify_crc(), label, -1)
            }
            _ => return Ok(()),
        };
        if let Err(corruption) = crc {
            return console.corruption(path, corruption);
        }
        let (shown, values) = (self.begin..self.end, self.values);
        let failed = self.inflater.visit(entry, |record| {
            if shown.contains(&record.offset) {
                line(record, label, epoch, values, console);
            }
            match console.spill() {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match failed {
            Ok(failed) => failed.map_or(Ok(()), Err),
            Err(corruption) => console.corruption(path, corruption),
        }
    }
}

/// One line of the view.
fn line(
    record: AnyRecord<'_>,
    timestamp_type: &str,
    epoch: i32,
    values: Values,
    console: &mut Console,
) {
    console.print(format_args!(
        "{{\"offset\":{},\"timestamp\":{},\"timestamp_type\":\"{timestamp_type}\",\
         \"epoch\":{epoch},\"key\":",
        record.offset,
        record.timestamp.map_or(-1, Timestamp::get),
    ));
    let out = console.buffer();
    push_base64(record.key, out);
    out.extend_from_slice(b",\"value\":");
    push_value(record.value, values, out);
    out.extend_from_slice(b",\"headers\":[");
    for (index, header) in record.headers.enumerate() {
        out.extend_from_slice(if index > 0 { b",[" } else { b"[" });
        push_base64(Some(header.key), out);
        out.push(b',');
        push_base64(header.value, out);
        out.push(b']');
    }
    out.extend_from_slice(b"]}\n");
}

fn push_value(value: Option<&[u8]>, values: Values, out: &mut Vec<u8>) {
    let Some(bytes) = value else { return out.extend_from_slice(b"null") };
    match values {
        Values::Crc32c => {
            let (len, crc) = (bytes.len(), crc32c(bytes));
            out.extend_from_slice(format!("{{\"len\":{len},\"crc32c\":{crc}}}").as_bytes());
        }
        Values::Base64 => push_base64(value, out),
        Values::Utf8 => match str::from_utf8(bytes) {
            Ok(text) => push_json_string(text, out),
            Err(_not_text) => {
                out.extend_from_slice(b"{\"base64\":");
                push_base64(value, out);
                out.push(b'}');
            }
        },
    }
}

/// Appends bytes as a JSON string in base64, or null.
fn push_base64(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(bytes) = bytes else { return out.extend_from_slice(b"null") };
    out.push(b'"');
    out.extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes());
    out.push(b'"');
}
