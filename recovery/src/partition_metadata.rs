//! The topic id of a partition, `partition.metadata`: `docs/format/partition-metadata.md`.

use std::path::{Path, PathBuf};

use alluvium_record_format::Uuid;
use alluvium_segment::Io;

use crate::durable::{read_file, replace_file};
use crate::text::{Line, Lines};
use crate::{Damage, DamageKind, FileError};

/// Which topic a partition directory belongs to, whatever its name says.
///
/// Source: `PartitionMetadataFile` in Kafka; `docs/format/partition-metadata.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionMetadata {
    /// The version of the file: 0, or above where a later Kafka wrote it.
    pub version: i32,
    /// The id of the topic; never the zero id.
    pub topic_id: Uuid,
}

impl PartitionMetadata {
    /// The name of the file in a partition directory.
    pub const FILE_NAME: &'static str = "partition.metadata";

    /// The metadata of a partition of this topic.
    #[must_use]
    pub const fn new(topic_id: Uuid) -> Self {
        Self { version: 0, topic_id }
    }

    /// Reads the content of the file. As in Kafka, the names before the colons do not count,
    /// nor do further lines.
    ///
    /// # Errors
    ///
    /// A negative version, a line that is missing or not `name: value`, an id that is none or
    /// zero.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let mut lines = Lines::new(bytes);
        let line = lines.expect("version")?;
        let version: i32 = line.number(value(&line)?, "version")?;
        if version < 0 {
            return Err(line.damage(DamageKind::Version { found: version.into() }));
        }
        let line = lines.expect("topic_id")?;
        let topic_id = Uuid::parse(value(&line)?)
            .filter(|id| *id != Uuid::default())
            .ok_or(line.damage(DamageKind::Id { field: "topic_id" }))?;
        Ok(Self { version, topic_id })
    }

    /// Reads the file of a partition directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`FileError::Corrupt`] as for [`parse`](Self::parse), [`FileError::Io`].
    pub fn read(io: &Io, partition_dir: &Path) -> Result<Option<Self>, FileError> {
        let path = Self::path(partition_dir);
        match read_file(io, &path, MAX_BYTES) {
            Ok(bytes) => Self::parse(&bytes).map(Some).map_err(|e| FileError::corrupt(&path, e)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Replaces the file of a partition directory, durably: see [`replace_file`].
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn write(&self, io: &Io, partition_dir: &Path) -> Result<(), FileError> {
        replace_file(io, &Self::path(partition_dir), self.to_text().as_bytes())
    }

    /// The content of the file, as Kafka writes it: no newline at the end.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!("version: {}\ntopic_id: {}", self.version, self.topic_id)
    }

    fn path(partition_dir: &Path) -> PathBuf {
        partition_dir.join(Self::FILE_NAME)
    }
}

/// More than two lines take.
const MAX_BYTES: u64 = 64 << 10;

/// What follows the colon and the whitespace behind it.
fn value<'a>(line: &Line<'a>) -> Result<&'a str, Damage> {
    let space = |c: char| c.is_ascii_whitespace();
    line.text
        .split_once(':')
        .filter(|(_, rest)| rest.starts_with(space))
        .map(|(_, rest)| rest.trim_start_matches(space))
        .filter(|value| !value.is_empty())
        .ok_or(line.damage(DamageKind::FieldCount { found: 1, need: 2 }))
}
