//! Whose data directory this is, `meta.properties`: `docs/format/meta-properties.md`.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use alluvium_record_format::{Position, Uuid};
use alluvium_segment::Io;

use crate::durable::{read_file, replace_file};
use crate::{Damage, DamageKind, FileError, Properties};

/// Which form of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetaVersion {
    /// A broker with `ZooKeeper`: the node id is called `broker.id`.
    V0,
    /// `KRaft`: cluster and node id are always there.
    V1,
}

impl MetaVersion {
    const fn node_id_key(self) -> &'static str {
        match self {
            Self::V0 => "broker.id",
            Self::V1 => "node.id",
        }
    }
}

/// The cluster, node and id of a data directory.
///
/// Keys that are not known are kept and written back.
///
/// Source: `MetaProperties` in Kafka; `docs/format/meta-properties.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetaProperties {
    /// The form of the file.
    pub version: MetaVersion,
    /// The id of the cluster: any text, mostly 22 characters of base64.
    pub cluster_id: Option<String>,
    /// The id of the node in the cluster.
    pub node_id: Option<i32>,
    /// The id of the directory, from Kafka 3.7 on.
    pub directory_id: Option<Uuid>,
    /// Further keys of the file.
    pub other: Properties,
}

impl MetaProperties {
    /// The name of the file in a data directory.
    pub const FILE_NAME: &'static str = "meta.properties";

    /// The properties of a directory of a `KRaft` node.
    #[must_use]
    pub fn new(cluster_id: impl Into<String>, node_id: i32, directory_id: Uuid) -> Self {
        Self {
            version: MetaVersion::V1,
            cluster_id: Some(cluster_id.into()),
            node_id: Some(node_id),
            directory_id: Some(directory_id),
            other: Properties::new(),
        }
    }

    /// Reads the content of the file. No version is version 0.
    ///
    /// # Errors
    ///
    /// A version that is neither 0 nor 1, a node id that is no number, a directory id that is
    /// none or reserved, and in version 1 a missing cluster or node id.
    pub fn parse(bytes: &[u8]) -> Result<Self, Damage> {
        let properties = Properties::parse(bytes)?;
        let version = match number::<i64>(&properties, "version")? {
            None | Some(0) => MetaVersion::V0,
            Some(1) => MetaVersion::V1,
            Some(found) => return Err(damage(DamageKind::Version { found })),
        };
        let cluster_id = properties.value("cluster.id").map(str::to_owned);
        let node_id = number(&properties, version.node_id_key())?;
        let directory_id = properties.value("directory.id").map(directory_id).transpose()?;
        if version == MetaVersion::V1 {
            let missing = |field| damage(DamageKind::Missing { field });
            cluster_id.as_ref().ok_or(missing("cluster.id"))?;
            node_id.as_ref().ok_or(missing("node.id"))?;
        }
        let known = ["version", "cluster.id", version.node_id_key(), "directory.id"];
        let mut other = Properties::new();
        for (key, value) in properties.iter().filter(|(key, _)| !known.contains(key)) {
            other.set(key, value);
        }
        Ok(Self { version, cluster_id, node_id, directory_id, other })
    }

    /// Reads the file of a data directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`FileError::Corrupt`] as for [`parse`](Self::parse), [`FileError::Io`].
    pub fn read(io: &Io, data_dir: &Path) -> Result<Option<Self>, FileError> {
        let path = Self::path(data_dir);
        match read_file(io, &path, MAX_BYTES) {
            Ok(bytes) => Self::parse(&bytes).map(Some).map_err(|e| FileError::corrupt(&path, e)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Replaces the file of a data directory, durably: see [`replace_file`].
    ///
    /// # Errors
    ///
    /// [`FileError::Io`].
    pub fn write(&self, io: &Io, data_dir: &Path) -> Result<(), FileError> {
        replace_file(io, &Self::path(data_dir), self.to_text().as_bytes())
    }

    /// The content of the file. Kafka adds a comment with the date, which means nothing.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut properties = self.other.clone();
        let version = match self.version {
            MetaVersion::V0 => "0",
            MetaVersion::V1 => "1",
        };
        properties.set("version", version);
        if let Some(id) = &self.cluster_id {
            properties.set("cluster.id", id);
        }
        if let Some(id) = self.node_id {
            properties.set(self.version.node_id_key(), id.to_string());
        }
        if let Some(id) = self.directory_id {
            properties.set("directory.id", id.to_string());
        }
        properties.to_text()
    }

    /// Compares with the directory of the same node beside this one. What one of them does not
    /// say, as version 0 need not, differs from nothing.
    ///
    /// # Errors
    ///
    /// What keeps the two from being directories of one broker.
    pub fn check_beside(&self, other: &Self) -> Result<(), MetaConflict> {
        if differ(self.cluster_id.as_ref(), other.cluster_id.as_ref()) {
            return Err(MetaConflict::Cluster);
        }
        if differ(self.node_id.as_ref(), other.node_id.as_ref()) {
            return Err(MetaConflict::Node);
        }
        match self.directory_id {
            Some(id) if other.directory_id == Some(id) => Err(MetaConflict::Directory { id }),
            _ => Ok(()),
        }
    }

    fn path(data_dir: &Path) -> PathBuf {
        data_dir.join(Self::FILE_NAME)
    }
}

/// Why two data directories cannot belong to one broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetaConflict {
    /// They belong to different clusters.
    #[error("the directories have different cluster ids")]
    Cluster,
    /// They belong to different nodes.
    #[error("the directories have different node ids")]
    Node,
    /// One is a copy of the other.
    #[error("both directories have the id {id}")]
    #[non_exhaustive]
    Directory {
        /// The id of both.
        id: Uuid,
    },
}

fn differ<T: PartialEq>(one: Option<&T>, other: Option<&T>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
}

/// More than any such file has.
const MAX_BYTES: u64 = 1 << 20;

fn number<T: FromStr>(properties: &Properties, key: &'static str) -> Result<Option<T>, Damage> {
    let bad = damage(DamageKind::Number { field: key });
    properties.value(key).map(|value| value.parse().map_err(|_not_a_number| bad)).transpose()
}

fn directory_id(text: &str) -> Result<Uuid, Damage> {
    let bad = damage(DamageKind::Id { field: "directory.id" });
    Uuid::parse(text).filter(|id| !is_reserved(*id)).ok_or(bad)
}

/// Kafka keeps the first hundred ids for its own use.
fn is_reserved(id: Uuid) -> bool {
    u128::from_be_bytes(id.into_bytes()) < 100
}

/// Keys have no fixed place, so the damage is the file's as a whole.
const fn damage(kind: DamageKind) -> Damage {
    Damage::at_byte(Position::new(0), kind)
}
