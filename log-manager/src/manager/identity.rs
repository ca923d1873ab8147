//! Whose directories these are: `meta.properties` is compared before anything is changed.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_record_format::Uuid;
use alluvium_recovery::{MetaConflict, MetaProperties, MetaVersion};
use alluvium_segment::Io;

use super::data_dir::DataDir;
use super::{LogManager, ManagerError};
use crate::LogError;

/// Who a broker is: its log directories must belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct BrokerIdentity {
    cluster_id: String,
    node_id: i32,
    formats_new_dirs: bool,
}

impl BrokerIdentity {
    /// This node of this cluster. A log directory without `meta.properties` is refused, as Kafka
    /// does: it may be the mount point of a disk that is not there.
    pub fn new(cluster_id: impl Into<String>, node_id: i32) -> Self {
        Self { cluster_id: cluster_id.into(), node_id, formats_new_dirs: false }
    }

    /// Gives a log directory without `meta.properties` and without partitions one, instead of
    /// refusing it: what `kafka-storage.sh format` does.
    pub const fn format_new_dirs(mut self) -> Self {
        self.formats_new_dirs = true;
        self
    }

    fn check(&self, path: &Path, found: &MetaProperties) -> Result<(), ManagerError> {
        // A directory of version 0 may not have a cluster id yet.
        let conflict = match &found.cluster_id {
            Some(id) if *id != self.cluster_id => MetaConflict::Cluster,
            _ if found.node_id.is_some_and(|id| id != self.node_id) => MetaConflict::Node,
            _ => return Ok(()),
        };
        Err(ManagerError::OtherBroker {
            path: path.to_path_buf(),
            cluster_id: self.cluster_id.clone(),
            node_id: self.node_id,
            source: conflict,
        })
    }
}

impl LogManager {
    /// The id of a log directory, by which a cluster's controller names it; `None` where the
    /// directory has none or is none of these.
    #[must_use]
    pub fn directory_id(&self, dir: &Path) -> Option<Uuid> {
        self.shared.dir(dir)?.id()
    }
}

/// What is to be written to a directory, once all are found to fit together.
type Rewrite = (usize, MetaProperties);

/// Compares `meta.properties` of all directories with each other and with the broker, and gives
/// an id to those that have none. A directory whose file cannot be read goes offline. Where
/// something does not fit, nothing is changed anywhere.
///
/// Source: `MetaPropertiesEnsemble.verify` in Kafka.
pub(super) fn check(
    dirs: &[Arc<DataDir>],
    io: &Io,
    identity: Option<&BrokerIdentity>,
) -> Result<(), ManagerError> {
    let mut known: Vec<(PathBuf, MetaProperties)> = Vec::new();
    let mut rewrites: Vec<Rewrite> = Vec::new();
    for (index, dir) in dirs.iter().enumerate().filter(|(_, dir)| dir.is_live()) {
        let (path, found) = (dir.path(), MetaProperties::read(io, dir.path()));
        let mut properties = match found {
            Ok(Some(properties)) => properties,
            Ok(None) => match identity {
                None => continue,
                Some(identity) => new_properties(identity, path)?,
            },
            Err(source) => {
                dir.fail(LogError::File { source });
                continue;
            }
        };
        if let Some(identity) = identity {
            identity.check(path, &properties)?;
        }
        for (other, beside) in &known {
            properties.check_beside(beside).map_err(|source| ManagerError::DirsDiffer {
                first: other.clone(),
                second: path.to_path_buf(),
                source,
            })?;
        }
        if properties.directory_id.is_none() && properties.version == MetaVersion::V1 {
            properties.directory_id = Some(random_id());
            rewrites.push((index, properties.clone()));
        }
        known.push((path.to_path_buf(), properties));
    }
    for (path, properties) in &known {
        let dir = dirs.iter().find(|dir| dir.path() == path);
        if let (Some(dir), Some(id)) = (dir, properties.directory_id) {
            dir.set_id(id);
        }
    }
    for (index, properties) in rewrites {
        write(&dirs[index], io, &properties);
    }
    Ok(())
}

/// The properties of a directory that has none: its id is still to come.
fn new_properties(identity: &BrokerIdentity, path: &Path) -> Result<MetaProperties, ManagerError> {
    if !identity.formats_new_dirs || holds_partitions(path) {
        return Err(ManagerError::Unformatted { path: path.to_path_buf() });
    }
    let id = random_id();
    let mut new = MetaProperties::new(identity.cluster_id.clone(), identity.node_id, id);
    new.directory_id = None;
    Ok(new)
}

/// Whether there is a directory in it, or it cannot be listed.
fn holds_partitions(path: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(path) else { return true };
    let is_dir = |entry: std::fs::DirEntry| {
        let name = entry.file_name();
        name != "lost+found" && entry.path().is_dir()
    };
    entries.into_iter().any(|entry| entry.map_or(true, is_dir))
}

fn write(dir: &DataDir, io: &Io, properties: &MetaProperties) {
    match properties.write(io, dir.path()) {
        Ok(()) => tracing::info!(
            dir = %dir.path().display(),
            id = properties.directory_id.map(tracing::field::display),
            "wrote meta.properties"
        ),
        Err(source) => dir.fail(LogError::File { source }),
    }
}

/// An id as Kafka makes them: random, of version 4, and no dash at the start of its text.
fn random_id() -> Uuid {
    loop {
        let half = || RandomState::new().hash_one(std::process::id());
        let mut bytes = ((u128::from(half()) << 64) | u128::from(half())).to_be_bytes();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let id = Uuid::from_bytes(bytes);
        if !id.to_string().starts_with('-') {
            return id;
        }
    }
}
