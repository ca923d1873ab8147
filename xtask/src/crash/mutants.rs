//! Builds that are wrong on purpose: the explorer must find each of them.
//!
//! A mutant is the record that a wrong build would have left: a sync that is missing is taken out,
//! a step that comes too early is moved forward.

use std::path::Path;

use super::trace::Event;

/// Makes the record of a wrong build from that of the right one.
pub(super) type Mutate = fn(&[Event]) -> Vec<Event>;

/// Each mutant, and what is wrong with it.
pub(super) const EVERY: [(&str, Mutate); 5] = [
    ("no sync of any directory", no_directory_sync),
    ("no sync of log files", no_log_sync),
    ("old segments renamed before the new ones have `.swap`", swapped_rename),
    ("the marker of a clean stop written before the logs are flushed", early_marker),
    ("recovery points written before the logs are flushed", early_recovery_point),
];

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

fn no_directory_sync(events: &[Event]) -> Vec<Event> {
    let is_dir = |path: &Path| {
        path.as_os_str() == "a"
            || path.as_os_str() == "b"
            || path.file_name().is_some_and(|name| {
                name.to_str().is_some_and(|name| name.ends_with("-0") || name.contains("-future"))
            })
    };
    without(events, |event| matches!(event, Event::Sync { path } if is_dir(path)))
}

fn no_log_sync(events: &[Event]) -> Vec<Event> {
    without(events, |event| matches!(event, Event::Sync { path } if extension(path) == "log"))
}

fn without(events: &[Event], is_left_out: impl Fn(&Event) -> bool) -> Vec<Event> {
    events.iter().filter(|event| !is_left_out(event)).cloned().collect()
}

/// Old segments get `.deleted` before the new ones have `.swap`.
fn swapped_rename(events: &[Event]) -> Vec<Event> {
    let is_to = |event: &Event, end: &str| matches!(event, Event::Rename { to, .. } if extension(to) == end);
    let mut swapped: Vec<Event> = Vec::new();
    for event in events {
        let run = swapped
            .iter()
            .rev()
            .take_while(|earlier| is_to(earlier, "swap") || matches!(earlier, Event::Sync { .. }));
        let count = run.count();
        let place = swapped.len() - count;
        if is_to(event, "deleted") && swapped[place..].iter().any(|event| is_to(event, "swap")) {
            swapped.insert(place, event.clone());
        } else {
            swapped.push(event.clone());
        }
    }
    swapped
}

/// What is about the marker moves before the shutdown that it ends: behind the last word of the
/// workload.
fn early_marker(events: &[Event]) -> Vec<Event> {
    let is_marker = |event: &Event| match event {
        Event::Open { path, .. } | Event::Write { path, .. } | Event::Sync { path } => {
            path.ends_with(".kafka_cleanshutdown")
        }
        _ => false,
    };
    let mut moved: Vec<Event> = Vec::new();
    let mut early = 0;
    for event in events {
        if matches!(event, Event::Mark(_)) {
            early = moved.len() + 1;
        }
        if !is_marker(event) {
            moved.push(event.clone());
            continue;
        }
        moved.insert(early, event.clone());
        early += 1;
        if let Event::Sync { path } = event
            && let Some(dir) = path.parent()
        {
            moved.insert(early, Event::Sync { path: dir.to_path_buf() });
            early += 1;
        }
    }
    moved
}

/// A checkpoint holds what the one after the next will hold.
fn early_recovery_point(events: &[Event]) -> Vec<Event> {
    let point = |event: &Event| match event {
        Event::Write { path, .. } if path.ends_with("recovery-point-offset-checkpoint.tmp") => {
            Some(path.clone())
        }
        _ => None,
    };
    let later = |at: usize, path: &Path| {
        let mut same =
            events[at + 1..].iter().filter(|event| point(event).as_deref() == Some(path));
        same.nth(1).cloned()
    };
    let early = |(at, event): (usize, &Event)| {
        let found = point(event).and_then(|path| later(at, &path));
        found.unwrap_or_else(|| event.clone())
    };
    events.iter().enumerate().map(early).collect()
}
