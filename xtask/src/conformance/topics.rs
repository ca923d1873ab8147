//! The settings of topics, as the broker's own metadata log has them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use alluvium_record_format::{Entries, Entry, Position};
use anyhow::{Context, Result};

use crate::workspace::entries;

/// Settings by topic: what was set at the topic itself, in the order of the log.
#[derive(Debug, Default)]
pub(crate) struct Topics(BTreeMap<String, BTreeMap<String, String>>);

/// The record of the metadata log that sets one key of one resource.
const CONFIG_RECORD: u8 = 4;

/// The kind of resource that is a topic.
const TOPIC: u8 = 2;

impl Topics {
    /// Reads `__cluster_metadata-0` of a log directory; nothing is set where it is missing.
    ///
    /// # Errors
    ///
    /// When a log is there and cannot be read.
    pub(crate) fn read(disk: &Path) -> Result<Self> {
        let mut topics = Self::default();
        let metadata = disk.join("__cluster_metadata-0");
        if !metadata.is_dir() {
            return Ok(topics);
        }
        for path in entries(&metadata)? {
            if path.extension().is_some_and(|extension| extension == "log") {
                let log = fs::read(&path).with_context(|| format!("no {}", path.display()))?;
                topics.read_log(&log).with_context(|| format!("in {}", path.display()))?;
            }
        }
        Ok(topics)
    }

    /// The value of a key at the topic of this partition, if it was set there.
    pub(crate) fn get(&self, partition: &str, key: &str) -> Option<&str> {
        let (topic, _number) = partition.rsplit_once('-')?;
        Some(self.0.get(topic)?.get(key)?.as_str())
    }

    /// All that was set at the topic of this partition.
    pub(crate) fn of(&self, partition: &str) -> impl Iterator<Item = (&str, &str)> {
        let topic = partition.rsplit_once('-').map_or(partition, |(topic, _number)| topic);
        let keys = self.0.get(topic).into_iter().flatten();
        keys.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn read_log(&mut self, log: &[u8]) -> Result<()> {
        for entry in Entries::new(log, Position::new(0)) {
            let Entry::Batch(batch) = entry? else { continue };
            if batch.header().attributes().is_control() {
                continue;
            }
            for record in batch.records()? {
                if let Some(value) = record?.value() {
                    self.read_record(value);
                }
            }
        }
        Ok(())
    }

    /// A record is: version of the frame, kind of record, version of the record, fields. Other
    /// kinds are none of ours.
    fn read_record(&mut self, value: &[u8]) -> Option<()> {
        let [_frame, CONFIG_RECORD, _version, TOPIC, fields @ ..] = value else { return None };
        let (topic, rest) = compact_string(fields)?;
        let (key, rest) = compact_string(rest?)?;
        let (value, _tags) = compact_string(rest?)?;
        let keys = self.0.entry(topic?).or_default();
        match value {
            Some(value) => keys.insert(key?, value),
            None => keys.remove(&key?),
        };
        Some(())
    }
}

/// A length, one too large and below 128 in all that we look for, and so many bytes; 0 is null.
fn compact_string(bytes: &[u8]) -> Option<(Option<String>, Option<&[u8]>)> {
    let (&length, rest) = bytes.split_first()?;
    let Some(length) = usize::from(length).checked_sub(1) else { return Some((None, Some(rest))) };
    let (text, rest) = rest.split_at_checked(length)?;
    Some((Some(String::from_utf8_lossy(text).into_owned()), Some(rest)))
}
