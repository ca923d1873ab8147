//! What `compact` says.

use alluvium_cleaner::{CleanReport, CleanedSegment, CompactionLags};
use alluvium_log_manager::LogConfig;

use crate::cleaning_range::{Begin, CleaningRange, End};
use crate::console::Console;
use crate::partition::Partition;
use crate::readable::{Bytes, Count, Span};

/// Says from where to where is cleaned.
pub(super) fn range(
    partition: &Partition,
    range: &CleaningRange,
    explain: bool,
    console: &mut Console,
) {
    let path = partition.path.display();
    let (from, to) = (range.first_dirty, range.first_uncleanable);
    if from >= to {
        console.print(format_args!("{path}: nothing to clean, clean up to {from}\n"));
    } else {
        console.print(format_args!("{path}: dirty from {from} up to {to}\n"));
    }
    if !explain {
        return;
    }
    match range.begin {
        Begin::Checkpoint => {
            console.print(format_args!("  from {from}: cleaner-offset-checkpoint says so\n"));
        }
        Begin::LogStart => {
            console
                .print(format_args!("  from {from}: the log start, as no checkpoint is there\n"));
        }
        Begin::Outside(found) => console.print(format_args!(
            "  from {from}: the log start, as the checkpoint's {found} is outside the log\n"
        )),
    }
    let bound = range.bound;
    match range.end {
        End::ActiveSegment => {
            console.print(format_args!("  up to {bound}: the active segment begins there\n"));
        }
        End::HighWatermark => {
            console.print(format_args!("  up to {bound}: the high watermark as last noted\n"));
        }
        End::Young(lag_ms) => console.print(format_args!(
            "  up to {bound}: records there are younger than min.compaction.lag.ms, {lag_ms}\n"
        )),
        End::OpenTransaction(id) => console.print(format_args!(
            "  up to {bound}: a transaction of producer {id} is open from there\n"
        )),
    }
    if to < bound {
        console.print(format_args!("  cut to {to}: only whole segments are cleaned\n"));
    }
}

/// Says whether a broker would clean now.
pub(super) fn due(
    range: &CleaningRange,
    lags: &CompactionLags,
    config: &LogConfig,
    console: &mut Console,
) {
    let Some(ratio) = range.dirty_ratio() else { return };
    let least = config.min_cleanable_dirty_ratio();
    let (above, does) = if ratio > least { ("", "cleans") } else { ("not ", "waits") };
    console.print(format_args!(
        "  dirty ratio {ratio:.2}, {above}above min.cleanable.dirty.ratio {least}: a broker {does}\n"
    ));
    if lags.overdue_ms > 0 && range.cleanable_bytes > 0 {
        let (late, lag) = (Span(lags.overdue_ms), config.max_compaction_lag_ms());
        console.print(format_args!(
            "  {late} late for max.compaction.lag.ms, {lag}: a broker cleans whatever the ratio\n"
        ));
    }
}

/// Says what was, or would be, kept and freed.
pub(super) fn report(report: &CleanReport, dry_run: bool, console: &mut Console) {
    console.print(format_args!(
        "{:>20}  {:>10}  {:>10}  {:>10}  records\n",
        "segment", "bytes", "kept", "freed"
    ));
    for group in &report.groups {
        for segment in &group.segments {
            self::segment(segment, console);
        }
        if let ([first, .., last], true) = (&*group.segments, group.segments.len() > 1) {
            let (first, last) = (first.base_offset, last.base_offset);
            let becomes = if dry_run { "would become" } else { "became" };
            console.print(format_args!("{:>20}  {first} to {last} {becomes} one\n", ""));
        }
    }
    let counts = report.counts;
    let freed = counts.bytes_read.saturating_sub(counts.bytes_written);
    let keeps = if dry_run { "would keep" } else { "kept" };
    console.print(format_args!(
        "{keeps} {} of {}, {} freed; {}; dirty from {} on\n",
        Bytes(counts.bytes_written),
        Bytes(counts.bytes_read),
        Bytes(freed),
        Count(report.key_count as u64, "key"),
        report.next_dirty_offset,
    ));
    if report.is_map_full {
        console.print(format_args!(
            "the map of keys was full before the end: clean again, or give --map-bytes\n"
        ));
    }
}

fn segment(segment: &CleanedSegment, console: &mut Console) {
    let kept = segment.counts.bytes_written;
    let bytes = u64::from(segment.size_bytes);
    console.print(format_args!(
        "{:>20}  {:>10}  {:>10}  {:>10}  {} kept\n",
        segment.base_offset.get(),
        Bytes(bytes),
        Bytes(kept),
        Bytes(bytes.saturating_sub(kept)),
        segment.counts.records_written,
    ));
}
