//! Settings of topics that are not the broker's defaults, in one file of the first log directory.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::{fs, io};

use alluvium_log_manager::{ConfigError, LogConfig};
use alluvium_recovery::{Properties, replace_file};
use alluvium_segment::Io;
use parking_lot::Mutex;

use super::StoreError;

/// The settings of one topic, by Kafka's keys.
pub(crate) type Overrides = BTreeMap<String, String>;

/// The settings of all topics.
#[derive(Debug)]
pub(crate) struct TopicSettings {
    path: PathBuf,
    topics: Mutex<HashMap<String, Overrides>>,
}

impl TopicSettings {
    /// Reads the file; without one, every topic has the defaults.
    pub(crate) fn open(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join(FILE_NAME);
        let mut topics: HashMap<String, Overrides> = HashMap::new();
        for (name, value) in read_properties(&path)?.iter() {
            if let Some((topic, key)) = name.split_once('/') {
                topics
                    .entry(topic.to_owned())
                    .or_default()
                    .insert(key.to_owned(), value.to_owned());
            }
        }
        Ok(Self { path, topics: Mutex::new(topics) })
    }

    /// The settings of a topic that differ from the defaults.
    pub(crate) fn of(&self, topic: &str) -> Overrides {
        self.topics.lock().get(topic).cloned().unwrap_or_default()
    }

    /// A whole number among the settings of a topic.
    pub(crate) fn number(&self, topic: &str, key: &str) -> Option<u32> {
        self.topics.lock().get(topic)?.get(key)?.parse().ok()
    }

    /// All topics that have settings of their own.
    pub(crate) fn all(&self) -> Vec<(String, Overrides)> {
        self.topics.lock().iter().map(|(topic, own)| (topic.clone(), own.clone())).collect()
    }

    /// Replaces the settings of a topic, durably; empty ones forget it.
    pub(crate) fn set(&self, topic: &str, overrides: Overrides) -> Result<(), StoreError> {
        let mut topics = self.topics.lock();
        let unchanged = match topics.get(topic) {
            Some(old) => *old == overrides,
            None => overrides.is_empty(),
        };
        if unchanged {
            return Ok(());
        }
        let mut next = topics.clone();
        if overrides.is_empty() {
            next.remove(topic);
        } else {
            next.insert(topic.to_owned(), overrides);
        }
        let mut properties = Properties::new();
        for (topic, overrides) in &next {
            for (key, value) in overrides {
                properties.set(&format!("{topic}/{key}"), value.clone());
            }
        }
        replace_file(&Io::new(), &self.path, properties.to_text().as_bytes())
            .map_err(|source| StoreError::Write { source })?;
        *topics = next;
        Ok(())
    }
}

/// The defaults with these settings on top.
pub(crate) fn config_with(
    defaults: &LogConfig,
    overrides: &Overrides,
) -> Result<LogConfig, ConfigError> {
    let pairs = overrides.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    defaults.to_builder().properties(pairs)?.build()
}

/// A properties file; an absent one is empty.
pub(super) fn read_properties(path: &Path) -> Result<Properties, StoreError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Properties::new()),
        Err(source) => return Err(StoreError::Read { path: path.to_path_buf(), source }),
    };
    Properties::parse(&bytes)
        .map_err(|source| StoreError::Damaged { path: path.to_path_buf(), source })
}

const FILE_NAME: &str = "alluvium-topics.properties";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_a_restart_and_go_with_their_topic() {
        let disk = tempfile::tempdir().unwrap();
        let own = Overrides::from([("cleanup.policy".to_owned(), "compact".to_owned())]);
        let settings = TopicSettings::open(disk.path()).unwrap();
        settings.set("a.b", own.clone()).unwrap();
        settings.set("c", own.clone()).unwrap();
        settings.set("c", Overrides::new()).unwrap();
        let again = TopicSettings::open(disk.path()).unwrap();
        assert_eq!(again.all(), [("a.b".to_owned(), own)]);
        assert_eq!(again.of("c"), Overrides::new());
    }
}
