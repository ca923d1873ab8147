//! The topics: which partitions each has, found again at a start by the directories of the logs.

use std::collections::HashMap;
use std::sync::Arc;

use alluvium_log_manager::Log;
use alluvium_log_manager::{ConfigError, LogConfig, LogError, LogManager, ManagerError, NewLog};
use alluvium_record_format::{LeaderEpoch, Uuid};
use alluvium_recovery::{FileError, PartitionMetadata, TopicPartition};
use alluvium_segment::Io;
use parking_lot::{Mutex, RwLock};

use super::topic_settings::{Overrides, config_with};
use super::{IdentityError, StoreError, TopicSettings, random_uuid};

/// A topic. Immutable: a change puts another one in its place.
#[derive(Clone, Debug)]
pub(crate) struct Topic {
    pub(crate) name: Arc<str>,
    pub(crate) id: Uuid,
    /// The logs in the order of the partitions; `None` where a log is missing or offline.
    pub(crate) logs: Vec<Option<Log>>,
}

impl Topic {
    /// The log of a partition.
    pub(crate) fn log(&self, partition: i32) -> Option<&Log> {
        self.logs.get(usize::try_from(partition).ok()?)?.as_ref()
    }

    /// The numbers of the partitions, with their logs.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = (i32, Option<&Log>)> {
        (0..).zip(self.logs.iter().map(Option::as_ref))
    }
}

/// The topic to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    pub(crate) partition_count: u32,
    pub(crate) overrides: Overrides,
}

/// Why topics could not be changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TopicError {
    #[error("topic `{name}` exists already")]
    Exists { name: String },
    #[error("there is no such topic")]
    Unknown,
    #[error("`{name}` is no name of a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -")]
    Name { name: String },
    #[error("`{name}` is the log of Kafka's controllers, no topic of clients")]
    Reserved { name: String },
    #[error("`{name}` differs from `{other}` by `.` and `_` alone: metrics cannot tell them apart")]
    Collides { name: String, other: String },
    #[error("{count} partitions, a topic may have 1 to {max}")]
    PartitionCount { count: i64, max: u32 },
    #[error("the topic has {current} partitions, it cannot have {wanted}")]
    FewerPartitions { current: usize, wanted: i32 },
    #[error(transparent)]
    Config { source: ConfigError },
    #[error(transparent)]
    Manager { source: ManagerError },
    #[error("a new log failed")]
    Log { source: LogError },
    #[error(transparent)]
    File { source: FileError },
    #[error(transparent)]
    Store { source: StoreError },
    #[error("no id for the topic")]
    Id { source: IdentityError },
}

/// All topics of the broker.
#[derive(Debug)]
pub(crate) struct Topics {
    manager: LogManager,
    defaults: LogConfig,
    settings: TopicSettings,
    known: RwLock<Known>,
    /// Held while topics change: one at a time.
    changing: Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    by_name: HashMap<Arc<str>, Arc<Topic>>,
    by_id: HashMap<Uuid, Arc<str>>,
}

impl Topics {
    /// Finds the topics of the logs that were loaded.
    ///
    /// A single replica is in sync with itself, so all that is in a log is committed.
    pub(crate) fn load(
        manager: LogManager,
        defaults: LogConfig,
        settings: TopicSettings,
    ) -> Result<Self, TopicError> {
        let mut found: HashMap<String, Vec<TopicPartition>> = HashMap::new();
        for partition in manager.partitions() {
            if !has_place(&partition) {
                tracing::error!(%partition, max = MAX_PARTITIONS, "left out: its number is too high");
                continue;
            }
            found.entry(partition.topic().to_owned()).or_default().push(partition);
        }
        let mut known = Known::default();
        for (name, partitions) in found {
            let topic = load_topic(&manager, &name, &partitions)?;
            known.insert(Arc::new(topic));
        }
        let known = RwLock::new(known);
        Ok(Self { manager, defaults, settings, known, changing: Mutex::new(()) })
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Topic>> {
        self.known.read().by_name.get(name).cloned()
    }

    pub(crate) fn by_id(&self, id: Uuid) -> Option<Arc<Topic>> {
        let known = self.known.read();
        known.by_name.get(known.by_id.get(&id)?).cloned()
    }

    /// All topics, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Topic>> {
        let mut all: Vec<_> = self.known.read().by_name.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// The settings of a topic that are not the defaults.
    pub(crate) fn overrides(&self, name: &str) -> Overrides {
        self.settings.of(name)
    }

    /// `min.insync.replicas` of a topic: above 1 it refuses appends to all replicas.
    pub(crate) fn min_in_sync(&self, name: &str) -> u32 {
        self.settings.number(name, "min.insync.replicas").unwrap_or(1)
    }

    pub(crate) const fn defaults(&self) -> &LogConfig {
        &self.defaults
    }

    /// Says what [`create`](Self::create) would refuse.
    pub(crate) fn check_new(&self, new: &NewTopic) -> Result<LogConfig, TopicError> {
        check_name(&new.name)?;
        if self.by_name(&new.name).is_some() {
            return Err(TopicError::Exists { name: new.name.clone() });
        }
        if let Some(other) = self.known.read().colliding(&new.name) {
            return Err(TopicError::Collides { name: new.name.clone(), other: other.to_owned() });
        }
        check_count(i64::from(new.partition_count))?;
        self.check_overrides(&new.overrides)
    }

    pub(crate) fn check_overrides(&self, overrides: &Overrides) -> Result<LogConfig, TopicError> {
        config_with(&self.defaults, overrides).map_err(|source| TopicError::Config { source })
    }

    /// Makes a topic and the logs of its partitions.
    pub(crate) fn create(&self, new: &NewTopic) -> Result<Arc<Topic>, TopicError> {
        let _one_at_a_time = self.changing.lock();
        let config = self.check_new(new)?;
        let id = random_uuid().map_err(|source| TopicError::Id { source })?;
        self.store_settings(&new.name, new.overrides.clone())?;
        self.manager.set_topic_config(&new.name, config);
        let mut topic = Topic { name: Arc::from(new.name.as_str()), id, logs: Vec::new() };
        self.add_partitions(&mut topic, new.partition_count)?;
        let topic = Arc::new(topic);
        self.known.write().insert(Arc::clone(&topic));
        Ok(topic)
    }

    /// Says what [`grow`](Self::grow) would refuse.
    pub(crate) fn check_grow(&self, name: &str, wanted: i32) -> Result<Arc<Topic>, TopicError> {
        let topic = self.by_name(name).ok_or(TopicError::Unknown)?;
        let count = check_count(i64::from(wanted))?;
        let current = topic.logs.len();
        if usize::try_from(count).is_ok_and(|count| count <= current) {
            return Err(TopicError::FewerPartitions { current, wanted });
        }
        Ok(topic)
    }

    /// Adds partitions to a topic until it has as many as wanted.
    pub(crate) fn grow(&self, name: &str, wanted: i32) -> Result<(), TopicError> {
        let _one_at_a_time = self.changing.lock();
        let mut topic = Topic::clone(&*self.check_grow(name, wanted)?);
        self.add_partitions(&mut topic, u32::try_from(wanted).unwrap_or(0))?;
        self.known.write().insert(Arc::new(topic));
        Ok(())
    }

    /// Deletes a topic with its logs and settings. Reads that are under way end undisturbed.
    pub(crate) fn delete(&self, name: &str) -> Result<(), TopicError> {
        let _one_at_a_time = self.changing.lock();
        let topic = self.known.write().remove(name).ok_or(TopicError::Unknown)?;
        for (partition, log) in topic.partitions() {
            if log.is_some() {
                self.manager
                    .delete(&TopicPartition::new(&*topic.name, partition))
                    .map_err(|source| TopicError::Manager { source })?;
            }
        }
        self.store_settings(name, Overrides::new())
    }

    /// Changes the settings of a topic; its logs follow at once.
    pub(crate) fn alter(&self, name: &str, overrides: Overrides) -> Result<(), TopicError> {
        let _one_at_a_time = self.changing.lock();
        self.by_name(name).ok_or(TopicError::Unknown)?;
        let config = self.check_overrides(&overrides)?;
        self.store_settings(name, overrides)?;
        self.manager.set_topic_config(name, config);
        Ok(())
    }

    fn store_settings(&self, name: &str, overrides: Overrides) -> Result<(), TopicError> {
        self.settings.set(name, overrides).map_err(|source| TopicError::Store { source })
    }

    fn add_partitions(&self, topic: &mut Topic, count: u32) -> Result<(), TopicError> {
        let present = u32::try_from(topic.logs.len()).unwrap_or(u32::MAX);
        for partition in (present..count).filter_map(|number| i32::try_from(number).ok()) {
            let partition = TopicPartition::new(&*topic.name, partition);
            let log = self
                .manager
                .get_or_create(&partition, &NewLog::new().topic_id(topic.id).is_new())
                .map_err(|source| TopicError::Manager { source })?;
            lead(&log).map_err(|source| TopicError::Log { source })?;
            topic.logs.push(Some(log));
        }
        Ok(())
    }
}

impl Known {
    fn insert(&mut self, topic: Arc<Topic>) {
        self.by_id.insert(topic.id, Arc::clone(&topic.name));
        self.by_name.insert(Arc::clone(&topic.name), topic);
    }

    /// A topic whose name is the same but for `.` and `_`. Source: `Topic.hasCollision` in Kafka.
    fn colliding(&self, name: &str) -> Option<&str> {
        if !name.contains(['.', '_']) {
            return None;
        }
        let same = |c: u8| if c == b'.' { b'_' } else { c };
        let mut names = self.by_name.keys().map(|known| &**known);
        names.find(|known| known.bytes().map(same).eq(name.bytes().map(same)))
    }

    fn remove(&mut self, name: &str) -> Option<Arc<Topic>> {
        let topic = self.by_name.remove(name)?;
        self.by_id.remove(&topic.id);
        Some(topic)
    }
}

/// The epoch in which this broker leads a partition: the one in which it was last written.
pub(crate) fn leader_epoch(log: &Log) -> LeaderEpoch {
    log.latest_epoch().unwrap_or(LeaderEpoch::new(0))
}

/// Whether a log can be in a topic: the number in the name of a directory costs memory.
fn has_place(partition: &TopicPartition) -> bool {
    u32::try_from(partition.partition()).is_ok_and(|number| number < MAX_PARTITIONS)
}

fn load_topic(
    manager: &LogManager,
    name: &str,
    partitions: &[TopicPartition],
) -> Result<Topic, TopicError> {
    let io = Io::new();
    let mut id = None;
    let mut logs = Vec::new();
    for partition in partitions {
        let Ok(index) = usize::try_from(partition.partition()) else { continue };
        if logs.len() <= index {
            logs.resize(index.saturating_add(1), None);
        }
        let log = manager.log(partition).map_err(|source| TopicError::Manager { source })?;
        let metadata = match PartitionMetadata::read(&io, &log.dir().path()) {
            Ok(metadata) => metadata,
            Err(source) => {
                // Whose log this is cannot be told: the others are served.
                let error = &source as &dyn std::error::Error;
                tracing::error!(%partition, error, "left out");
                continue;
            }
        };
        id = id.or(metadata.map(|metadata| metadata.topic_id));
        lead(&log).map_err(|source| TopicError::Log { source })?;
        if let Some(slot) = logs.get_mut(index) {
            *slot = Some(log);
        }
    }
    let is_known = id.is_some();
    let id = match id {
        Some(id) => id,
        None => random_uuid().map_err(|source| TopicError::Id { source })?,
    };
    for log in logs.iter().flatten().filter(|_| !is_known) {
        let metadata = PartitionMetadata::new(id);
        metadata.write(&io, &log.dir().path()).map_err(|source| TopicError::File { source })?;
    }
    Ok(Topic { name: Arc::from(name), id, logs })
}

/// Makes this broker the leader of a log: it has an epoch, and all of it is committed.
fn lead(log: &Log) -> Result<(), LogError> {
    let end = log.log_end_offset();
    if log.latest_epoch().is_none() {
        log.assign_epoch(LeaderEpoch::new(0), end)?;
    }
    log.update_high_watermark(end).map(drop)
}

fn check_name(name: &str) -> Result<(), TopicError> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name == CLUSTER_METADATA {
        return Err(TopicError::Reserved { name: name.to_owned() });
    }
    let fits = (1..=MAX_NAME_LEN).contains(&name.len()) && name != "." && name != "..";
    if fits && name.chars().all(is_legal) {
        return Ok(());
    }
    Err(TopicError::Name { name: name.to_owned() })
}

fn check_count(count: i64) -> Result<u32, TopicError> {
    match u32::try_from(count) {
        Ok(fits @ 1..=MAX_PARTITIONS) => Ok(fits),
        _ => Err(TopicError::PartitionCount { count, max: MAX_PARTITIONS }),
    }
}

/// The log of Kafka's controllers: tools read the settings of topics from it.
const CLUSTER_METADATA: &str = "__cluster_metadata";
const MAX_NAME_LEN: usize = 249;
/// Neither a request nor the name of a directory may cost directories or memory without end.
const MAX_PARTITIONS: u32 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_leave_the_directory_are_refused() {
        for bad in ["", ".", "..", "a/b", "../x", "a b", "ä", "a\0b", &"x".repeat(250)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
        for good in ["a", "A.b_c-9", &"x".repeat(249)] {
            assert!(check_name(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_topic_has_at_least_one_partition_and_not_millions() {
        assert!(
            check_count(0).is_err() && check_count(-1).is_err() && check_count(10_001).is_err()
        );
        assert_eq!(check_count(10_000).unwrap(), 10_000);
    }
}
