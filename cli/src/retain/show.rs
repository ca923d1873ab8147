//! What `retain` says.

use alluvium_log_manager::{RetentionFinding, RetentionRule, RetentionVerdict, SegmentFate};
use alluvium_record_format::{Offset, Timestamp};
use serde_json::{Value, json};

use super::{Decision, Policy, RetainArgs};
use crate::console::Console;
use crate::readable::{Bytes, Count, Span, Time};

/// Prints what goes, and why the rest stays.
pub(super) fn decision(decision: &Decision<'_>, args: &RetainArgs, console: &mut Console) {
    if args.json {
        return console.print(format_args!("{}\n", object(decision, args.dry_run)));
    }
    let (count, bytes) = dropped(decision);
    let name = decision.partition.path.display();
    let segments = Count(decision.plan.segments.len() as u64, "segment");
    console.print(format_args!("{name}: {segments}, "));
    match (count, args.dry_run) {
        (0, _) => console.print(format_args!("all stay\n")),
        (_, dry) => {
            let verb = if dry { "would drop" } else { "dropped" };
            let from = new_start(decision);
            let bytes = Bytes(bytes);
            console.print(format_args!("{verb} {count} with {bytes}; log start {from}\n"));
        }
    }
    match decision.policy {
        Policy::Given => {}
        Policy::Topic if !args.explain => {}
        Policy::Topic => {
            console.print(format_args!("  set at the topic:"));
            let own = decision.own.into_iter().flatten();
            let texts: Vec<_> = own.map(|(key, value)| format!(" {key}={value}")).collect();
            let texts = if texts.is_empty() { " nothing".to_owned() } else { texts.join(",") };
            console.print(format_args!("{texts}\n"));
        }
        Policy::InCheckpoint => console.print(format_args!(
            "  taken for compacted: cleaner-offset-checkpoint lists it (--set cleanup.policy=... \
             says otherwise)\n"
        )),
        Policy::Internal => console.print(format_args!(
            "  taken for compacted: a topic of Kafka's own (--set cleanup.policy=... says \
             otherwise)\n"
        )),
    }
    for segment in &decision.plan.segments {
        if args.explain || segment.dropped_by().is_some() {
            fate(segment, decision, args, console);
        }
    }
}

fn fate(segment: &SegmentFate, decision: &Decision<'_>, args: &RetainArgs, console: &mut Console) {
    let (base, bytes) = (segment.base_offset, Bytes(segment.size_bytes.into()));
    let verb = match (segment.dropped_by(), args.dry_run) {
        (None, _) => "stays",
        (Some(_), true) => "would go",
        (Some(_), false) => "went",
    };
    console.print(format_args!("  segment {base} ({bytes}) {verb}\n"));
    for verdict in &segment.verdicts {
        if args.explain || verdict.drops() {
            let text = reason(verdict, decision.state.high_watermark);
            console.print(format_args!("    {:<15}  {text}\n", setting(verdict.rule)));
        }
    }
}

/// What one rule found, as a sentence.
fn reason(verdict: &RetentionVerdict, high_watermark: Offset) -> String {
    let text = match verdict.finding {
        RetentionFinding::AboveHighWatermark { end, .. } => {
            format!("ends at {end}, above the high watermark {high_watermark}")
        }
        RetentionFinding::EmptyActive => "empty, and the active segment".to_owned(),
        RetentionFinding::Off => "not set: keeps all".to_owned(),
        RetentionFinding::Starts { next: None, .. } => "the active segment".to_owned(),
        RetentionFinding::Starts { next: Some(next), log_start, .. } => {
            let goes = if next <= log_start { "at or below" } else { "above" };
            format!("the next segment begins at {next}, {goes} the log start {log_start}")
        }
        RetentionFinding::Holds { rest_bytes, keep_bytes, .. } => {
            let (rest, keep) = (rest_bytes.unwrap_or(0), keep_bytes);
            let goes = if verdict.finding.lets_go() { "enough for" } else { "less than" };
            format!("{rest} bytes are left without it, {goes} the {keep} to keep")
        }
        RetentionFinding::Ages { largest, is_of_file, keep_ms, now, .. } => {
            age(largest, is_of_file, keep_ms, now)
        }
        other => format!("{other:?}"),
    };
    match verdict.behind {
        Some(base) => format!("{text}; behind segment {base}, which stays"),
        None => text,
    }
}

fn age(largest: Timestamp, is_of_file: bool, keep_ms: u64, now: Timestamp) -> String {
    let what = if is_of_file { "file changed last at" } else { "newest record of" };
    let time = Time(largest.get());
    let age = now.get().saturating_sub(largest.get());
    let Ok(age) = u64::try_from(age) else {
        let ahead = Span(now.get().abs_diff(largest.get()));
        return format!("{what} {time}, {ahead} in the future");
    };
    let (past, keep) = (Span(age), Span(keep_ms));
    if age > keep_ms {
        return format!("{what} {time}, {past} ago: older than {keep}");
    }
    let until = i64::try_from(keep_ms).unwrap_or(i64::MAX).saturating_add(largest.get());
    let until = Time(until.saturating_add(1));
    format!("{what} {time}, {past} ago: not older than {keep} until {until}")
}

fn setting(rule: RetentionRule) -> &'static str {
    match rule {
        RetentionRule::LogStart => "log start",
        RetentionRule::Size => "retention.bytes",
        RetentionRule::Time => "retention.ms",
        _ => "another rule",
    }
}

fn dropped(decision: &Decision<'_>) -> (usize, u64) {
    let bytes = decision.plan.dropped().map(|fate| u64::from(fate.size_bytes)).sum();
    (decision.plan.dropped().count(), bytes)
}

/// Where the log starts once the segments are gone.
fn new_start(decision: &Decision<'_>) -> Offset {
    let (count, _) = dropped(decision);
    let first = decision.plan.segments.get(count);
    let base = first.map_or(decision.state.log_end_offset, |fate| fate.base_offset);
    base.max(decision.state.log_start_offset)
}

fn object(decision: &Decision<'_>, dry_run: bool) -> Value {
    let (count, bytes) = dropped(decision);
    let segments: Vec<_> = decision
        .plan
        .segments
        .iter()
        .map(|fate| {
            let verdicts: Vec<_> = fate
                .verdicts
                .iter()
                .map(|verdict| {
                    json!({
                        "rule": setting(verdict.rule),
                        "drops": verdict.drops(),
                        "reason": reason(verdict, decision.state.high_watermark),
                        "largest_timestamp": match verdict.finding {
                            RetentionFinding::Ages { largest, .. } => Some(largest.get()),
                            _ => None,
                        },
                        "behind": verdict.behind.map(Offset::get),
                    })
                })
                .collect();
            json!({
                "base_offset": fate.base_offset.get(), "bytes": fate.size_bytes,
                "dropped_by": fate.dropped_by().map(setting), "rules": verdicts,
            })
        })
        .collect();
    json!({
        "partition": decision.partition.path.display().to_string(), "dry_run": dry_run,
        "log_start_offset": decision.state.log_start_offset.get(),
        "new_log_start_offset": new_start(decision).get(),
        "log_end_offset": decision.state.log_end_offset.get(),
        "high_watermark": decision.state.high_watermark.get(),
        "taken_for_compacted":
            matches!(decision.policy, Policy::InCheckpoint | Policy::Internal),
        "topic_settings": decision.own,
        "dropped_segments": count, "dropped_bytes": bytes, "segments": segments,
    })
}
