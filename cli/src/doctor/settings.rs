//! Checks of the settings.

use std::path::{Path, PathBuf};

use alluvium_log_manager::LogConfig;

use super::Finding;
use super::pitfall::Pitfall;
use crate::console::Console;
use crate::error::CliError;
use crate::readable::{Bytes, Span};
use crate::settings::Settings;
use crate::topic_settings::TopicSettings;

/// Checks the settings of the broker: those `given`, in `file` or on the command line, and those
/// that the cluster has besides.
pub(super) fn check(file: &Path, given: &Settings, settings: &Settings) -> Vec<Finding> {
    let of_given = check_log(file, &given.log);
    let mut found = check_log(Path::new("the broker's settings in the cluster"), &settings.log);
    for finding in &mut found {
        if is_in(&of_given, finding) {
            finding.subject = file.to_path_buf();
        }
    }
    for key in &given.misspelled {
        let (key, nearest) = (&key.key, key.nearest);
        let text = format!("{key}: did you mean {nearest}?");
        found.push(Finding::new(Pitfall::MisspelledSetting, file, text));
    }
    found
}

/// Checks what topics set themselves, if it is another pitfall than the broker's. What is refused
/// is named, and does not count.
pub(super) fn check_topics(
    topics: &TopicSettings,
    settings: &Settings,
    console: &mut Console,
) -> Result<Vec<Finding>, CliError> {
    let of_broker = check_log(Path::new(""), &settings.log);
    let mut found = Vec::new();
    for (topic, own) in topics.iter().filter(|(_, own)| !own.is_empty()) {
        let subject = PathBuf::from(format!("topic {topic}"));
        let (log, refused) = settings.of_topic_but_refused(topic, own);
        refused.iter().try_for_each(|error| console.failure(error))?;
        let of_topic = check_log(&subject, &log).into_iter();
        found.extend(of_topic.filter(|finding| !is_in(&of_broker, finding)));
    }
    Ok(found)
}

/// Whether this was found elsewhere too.
fn is_in(others: &[Finding], finding: &Finding) -> bool {
    others.iter().any(|other| other.text == finding.text)
}

fn check_log(subject: &Path, log: &LogConfig) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |pitfall, text: String| found.push(Finding::new(pitfall, subject, text));
    if log.flush_messages() == 1 {
        add(Pitfall::FlushEveryMessage, "flush.messages is 1".to_owned());
    }
    let bytes = log.roll_bytes().into();
    if bytes < TINY_SETTING_BYTES {
        add(Pitfall::TinySegments, format!("segment.bytes is {bytes}, {}", Bytes(bytes)));
    }
    if log.roll_ms() < TINY_SETTING_MS {
        let (ms, span) = (log.roll_ms(), Span(log.roll_ms()));
        add(Pitfall::TinySegments, format!("segments roll after {ms} ms, {span}"));
    }
    let policy = log.cleanup_policy();
    if policy.compacts() && bytes >= LARGE_BYTES && log.roll_ms() > LARGE_MS {
        let text = format!("cleanup.policy has compact, and segment.bytes is {bytes}");
        add(Pitfall::LargeCompactedSegments, text);
    }
    if let Some(keep_ms) = log.retention_ms()
        && policy.deletes()
        && keep_ms < log.roll_ms()
    {
        let (keep, roll) = (Span(keep_ms), Span(log.roll_ms()));
        let (roll_ms, most) = (log.roll_ms(), Span(log.roll_ms().saturating_add(keep_ms)));
        add(
            Pitfall::RetentionBelowRoll,
            format!(
                "retention.ms is {keep_ms} ({keep}), segment.ms {roll_ms} ({roll}): records stay \
                 for up to {most}"
            ),
        );
    }
    found
}

/// Segments of a compacted topic that are as large as the default.
pub(super) const LARGE_BYTES: u64 = 1 << 30;

/// Where segments roll as often as this, their size does not matter.
const LARGE_MS: u64 = 86_400_000;

const TINY_SETTING_BYTES: u64 = 10 << 20;
const TINY_SETTING_MS: u64 = 600_000;
