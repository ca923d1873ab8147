//! The four offset checkpoints of a data directory: `docs/format/checkpoints.md`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use alluvium_record_format::Offset;
use alluvium_segment::Io;

use crate::durable::{read_file, replace_file};
use crate::text::{MAX_TEXT_BYTES, read_entries, write_entries};
use crate::{Damage, FileError};

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    topic: String,
    partition: i32,
}

impl TopicPartition {
    /// Names a partition. The name of the topic is not checked.
    #[must_use]
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }

    /// The name of the topic.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The number of the partition within the topic.
    #[must_use]
    pub const fn partition(&self) -> i32 {
        self.partition
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// Which of the offset checkpoints of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CheckpointKind {
    /// The offset below which everything is synced.
    RecoveryPoint,
    /// The first visible offset, for logs where it is above the first segment's base.
    LogStart,
    /// High watermarks.
    HighWatermark,
    /// The first offset that the cleaner has not reached.
    Cleaner,
}

impl CheckpointKind {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::RecoveryPoint, Self::LogStart, Self::HighWatermark, Self::Cleaner];

    /// The name of the file, as in Kafka.
    #[must_use]
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::RecoveryPoint => "recovery-point-offset-checkpoint",
            Self::LogStart => "log-start-offset-checkpoint",
            Self::HighWatermark => "replication-offset-checkpoint",
            Self::Cleaner => "cleaner-offset-checkpoint",
        }
    }

    /// The path of the file in a data directory.
    #[must_use]
    pub fn path(self, data_dir: &Path) -> PathBuf {
        data_dir.join(self.file_name())
    }
}

/// An offset for each partition of a data directory: the content of a checkpoint file.
///
/// Source: `OffsetCheckpointFile` in Kafka; `docs/format/checkpoints.md`.
///
/// # Examples
///
/// ```
/// # use alluvium_recovery::{OffsetCheckpoint, TopicPartition};
/// # use alluvium_record_format::Offset;
/// let checkpoint = OffsetCheckpoint::parse(b"0\n1\norders 3 1500\n")?;
/// let partition = TopicPartition::new("orders", 3);
/// assert_eq!(checkpoint.offset(&partition), Some(Offset::new(1500)));
/// # Ok::<(), alluvium_recovery::Damage>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCheckpoint {
    offsets: BTreeMap<TopicPartition, Offset>,
}

impl OffsetCheckpoint {
    /// No entries.
    #[must_use]
    pub const fn new() -> Self {
        Self { offsets: BTreeMap::new() }
    }

    /// Reads the content of a checkpoint file.
    ///
    /// An empty file has no entries, and one of its version line alone neither. Of two entries
    /// for one partition the later counts. Offsets may be negative: clamp them.
    ///
    /// # Errors
    ///
    /// Any other version than 0, lines that are no entry, a count that does not match.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let entries = read_entries(bytes, |line| {
            let [topic, partition, offset] = line.fields()?;
            let partition = line.number(partition, "partition")?;
            let offset = Offset::new(line.number(offset, "offset")?);
            Ok((TopicPartition::new(topic, partition), offset))
        })?;
        Ok(entries.into_iter().collect())
    }

    /// Reads the file of this kind in a data directory; no file is no entries.
    ///
    /// # Errors
    ///
    /// [`FileError::Corrupt`] as for [`parse`](Self::parse): the offsets can be had in other
    /// ways, so warn and go on with the safe value (0, the first segment). [`FileError::Io`].
    pub fn read(io: &Io, kind: CheckpointKind, data_dir: &Path) -> Result<Self, FileError> {
        Self::read_file(io, &kind.path(data_dir))
    }

    /// Reads one file; no file is no entries.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_file(io: &Io, path: &Path) -> Result<Self, FileError> {
        match read_file(io, path, MAX_TEXT_BYTES) {
            Ok(bytes) => Self::parse(&bytes).map_err(|e| FileError::corrupt(path, e)),
            Err(e) if e.is_not_found() => Ok(Self::new()),
            Err(e) => Err(e),
        }
    }

    /// Replaces the file of this kind in a data directory, durably: see [`replace_file`].
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn write(&self, io: &Io, kind: CheckpointKind, data_dir: &Path) -> Result<(), FileError> {
        replace_file(io, &kind.path(data_dir), self.to_text().as_bytes())
    }

    /// The content of the file, sorted by topic and partition.
    #[must_use]
    pub fn to_text(&self) -> String {
        write_entries(self.offsets.iter().map(|(TopicPartition { topic, partition }, offset)| {
            format!("{topic} {partition} {offset}")
        }))
    }

    /// Sets the offset of a partition; returns the one before.
    pub fn insert(&mut self, partition: TopicPartition, offset: Offset) -> Option<Offset> {
        self.offsets.insert(partition, offset)
    }

    /// Drops the entry of a partition; returns its offset.
    pub fn remove(&mut self, partition: &TopicPartition) -> Option<Offset> {
        self.offsets.remove(partition)
    }

    /// The offset of a partition.
    #[must_use]
    pub fn offset(&self, partition: &TopicPartition) -> Option<Offset> {
        self.offsets.get(partition).copied()
    }

    /// All entries, sorted by topic and partition.
    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&TopicPartition, Offset)> {
        self.offsets.iter().map(|(partition, offset)| (partition, *offset))
    }

    /// How many partitions have an entry.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether no partition has an entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }
}

impl FromIterator<(TopicPartition, Offset)> for OffsetCheckpoint {
    fn from_iter<I: IntoIterator<Item = (TopicPartition, Offset)>>(entries: I) -> Self {
        Self { offsets: entries.into_iter().collect() }
    }
}
