//! Prints findings and the summary, for people or as JSON.

use anstyle::{AnsiColor, Style};
use serde_json::json;

use super::VerifySummary;
use super::finding::{Finding, Severity};
use super::run::Event;
use crate::console::Console;
use crate::error::CliError;
use crate::readable::{Bytes, Count};

/// The report on standard output.
pub(super) struct Report<'c> {
    is_json: bool,
    console: &'c mut Console,
}

impl<'c> Report<'c> {
    /// A report for people, or as JSON.
    pub(super) fn new(is_json: bool, console: &'c mut Console) -> Self {
        Self { is_json, console }
    }

    /// Prints what came up, at once: a long check is read while it runs.
    pub(super) fn event(&mut self, event: &Event) -> Result<(), CliError> {
        match event {
            Event::Failure(error) => self.console.failure(error),
            Event::Finding(finding) => {
                if finding.kind.severity() == Severity::Damage {
                    self.console.mark_damaged();
                }
                if self.is_json {
                    self.json(finding);
                } else {
                    self.text(finding);
                }
                self.console.flush()
            }
        }
    }

    fn json(&mut self, finding: &Finding) {
        let Finding { kind, path, byte, detail } = finding;
        let object = json!({
            "severity": kind.severity().name(),
            "kind": kind.code(),
            "path": path.display().to_string(),
            "byte": byte,
            "detail": detail,
            "meaning": kind.meaning(),
            "advice": kind.advice(),
        });
        self.console.print(format_args!("{object}\n"));
    }

    fn text(&mut self, finding: &Finding) {
        let Finding { kind, path, byte, detail } = finding;
        let colour = match kind.severity() {
            Severity::Damage => AnsiColor::Red.on_default().bold(),
            Severity::Note => AnsiColor::Yellow.on_default(),
        };
        let (style, dim) = (self.console.style(colour), self.console.style(Style::new().dimmed()));
        let (name, code) = (kind.severity().name(), kind.code());
        self.console.print(format_args!("{style}{name} {code}{style:#} {}", path.display()));
        if let Some(byte) = byte {
            self.console.print(format_args!(", byte {byte}"));
        }
        self.console.print(format_args!("\n  {detail}\n"));
        for line in super::wrap(kind.advice(), 96) {
            self.console.print(format_args!("  {dim}{line}{dim:#}\n"));
        }
    }

    /// Prints the summary.
    pub(super) fn finish(&mut self, summary: &VerifySummary) {
        let VerifySummary { partitions, segments, batches, records, bytes, .. } = *summary;
        let VerifySummary { damage, notes, failures, elapsed, .. } = *summary;
        if self.is_json {
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
            let object = json!({ "summary": {
                "partitions": partitions, "segments": segments, "batches": batches,
                "records": records, "bytes": bytes, "damage": damage, "notes": notes,
                "failures": failures, "elapsed_ms": elapsed_ms,
            }});
            return self.console.print(format_args!("{object}\n"));
        }
        let verdict = match (damage, failures) {
            (0, 0) => "sound".to_owned(),
            (0, _) => format!("{failures} not read"),
            (_, 0) => format!("{damage} damaged"),
            (_, _) => format!("{damage} damaged, {failures} not read"),
        };
        let notes = if notes > 0 { format!(", {}", Count(notes, "note")) } else { String::new() };
        self.console.print(format_args!(
            "{verdict}{notes}: {}, {}, {}, {}, {} in {:.1} s\n",
            Count(partitions, "partition"),
            Count(segments, "segment"),
            Count(batches, "batch"),
            Count(records, "record"),
            Bytes(bytes),
            elapsed.as_secs_f64()
        ));
    }
}
