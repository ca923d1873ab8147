//! What is printed on standard error after all files: disagreements of indexes and logs.

use std::collections::BTreeMap;
use std::path::Path;

use crate::console::Console;
use crate::error::CliError;
use crate::text::java_absolute_path;

/// Disagreements found in all files, in the order of the files.
#[derive(Debug, Default)]
pub(super) struct Report {
    index_mismatches: Vec<(String, BTreeMap<i64, i64>)>,
    time_mismatches: Vec<(String, Vec<(i64, i64)>)>,
    out_of_order: Vec<(String, Vec<(i64, i64)>)>,
    not_found: Vec<(String, Vec<(i64, i64)>)>,
    gaps: Vec<(String, BTreeMap<i64, i64>)>,
}

impl Report {
    /// An offset index entry whose batch ends at another offset.
    pub(super) fn index_mismatch(&mut self, path: &Path, index_offset: i64, log_offset: i64) {
        entry(&mut self.index_mismatches, path).insert(index_offset, log_offset);
    }

    /// A time index entry whose batch has another largest timestamp.
    pub(super) fn time_mismatch(&mut self, path: &Path, index_time: i64, log_time: i64) {
        entry(&mut self.time_mismatches, path).push((index_time, log_time));
    }

    /// A time index entry that is not above the one before it.
    pub(super) fn out_of_order(&mut self, path: &Path, index_time: i64, previous: i64) {
        entry(&mut self.out_of_order, path).push((index_time, previous));
    }

    /// A time index entry whose offset ends no batch.
    pub(super) fn not_found(&mut self, path: &Path, index_offset: i64, log_offset: i64) {
        entry(&mut self.not_found, path).push((index_offset, log_offset));
    }

    /// Two records in a row whose offsets are not.
    pub(super) fn gap(&mut self, path: &Path, offset: i64, next: i64) {
        entry(&mut self.gaps, path).insert(offset, next);
    }

    /// Whether an index disagrees with its log. Gaps are no damage.
    pub(super) fn has_damage(&self) -> bool {
        !(self.index_mismatches.is_empty()
            && self.time_mismatches.is_empty()
            && self.out_of_order.is_empty()
            && self.not_found.is_empty())
    }

    /// Prints the report, if there is anything in it.
    pub(super) fn print(&self, console: &mut Console) -> Result<(), CliError> {
        if self.has_damage() {
            console.mark_damaged();
        }
        for (path, pairs) in &self.index_mismatches {
            console.report(format_args!("Mismatches in :{path}"))?;
            for (index, log) in pairs.iter().rev() {
                console.report(format_args!("  Index offset: {index}, log offset: {log}"))?;
            }
        }
        for (path, pairs) in &self.time_mismatches {
            console.report(format_args!("Found timestamp mismatch in :{path}"))?;
            for (index, log) in pairs {
                console.report(format_args!("  Index timestamp: {index}, log timestamp: {log}"))?;
            }
        }
        for (path, pairs) in &self.out_of_order {
            console.report(format_args!("Found out of order timestamp in :{path}"))?;
            for (index, previous) in pairs {
                console.report(format_args!(
                    "  Index timestamp: {index}, Previously indexed timestamp: {previous}"
                ))?;
            }
        }
        for (path, pairs) in &self.not_found {
            console
                .report(format_args!("The following indexed offsets are not found in :{path}"))?;
            for (index, log) in pairs {
                console.report(format_args!("Indexed offset: {index}, found log offset: {log}"))?;
            }
        }
        for (path, pairs) in &self.gaps {
            console.report(format_args!("Non-consecutive offsets in {path}"))?;
            for (offset, next) in pairs {
                console.report(format_args!("  {offset} is followed by {next}"))?;
            }
        }
        Ok(())
    }
}

/// The findings of one file. Files come one after the other, so the last one is looked at alone.
fn entry<'m, T: Default>(files: &'m mut Vec<(String, T)>, path: &Path) -> &'m mut T {
    let path = java_absolute_path(path);
    if files.last().is_none_or(|(last, _)| *last != path) {
        files.push((path, T::default()));
    }
    let last = files.len() - 1;
    &mut files[last].1
}
