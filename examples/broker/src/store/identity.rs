//! Which cluster and node this is: `meta.properties` of every log directory.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use alluvium_record_format::Uuid;
use alluvium_recovery::{FileError, MetaConflict, MetaProperties};
use alluvium_segment::Io;

/// The cluster and the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) cluster_id: String,
    pub(crate) node_id: i32,
}

/// Why the log directories do not say who this is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error("cannot create the log directory {}", path.display())]
    Create { path: PathBuf, source: io::Error },
    #[error(transparent)]
    File { source: FileError },
    #[error("{} belongs to another broker than {}", path.display(), first.display())]
    Conflict { first: PathBuf, path: PathBuf, source: MetaConflict },
    #[error("{} belongs to node {found}, not to {expected}", path.display())]
    OtherNode { path: PathBuf, found: i32, expected: i32 },
    #[error("cannot draw a random number")]
    Random { source: io::Error },
}

impl Identity {
    /// Reads who this is, and writes it into directories that do not say so yet.
    pub(crate) fn establish(
        dirs: &[PathBuf],
        node_id: Option<i32>,
        cluster_id: Option<&str>,
    ) -> Result<Self, IdentityError> {
        let io = Io::new();
        let mut found: Option<(PathBuf, MetaProperties)> = None;
        let mut missing = Vec::new();
        for dir in dirs {
            fs::create_dir_all(dir)
                .map_err(|source| IdentityError::Create { path: dir.clone(), source })?;
            let read = MetaProperties::read(&io, dir);
            match (read.map_err(|source| IdentityError::File { source })?, &found) {
                (None, _) => missing.push(dir),
                (Some(meta), None) => found = Some((dir.clone(), meta)),
                (Some(meta), Some((first, of_first))) => {
                    meta.check_beside(of_first).map_err(|source| IdentityError::Conflict {
                        first: first.clone(),
                        path: dir.clone(),
                        source,
                    })?;
                }
            }
        }
        let known = found.as_ref().map(|(_, meta)| meta);
        if let (Some(expected), Some((path, meta))) = (node_id, &found)
            && let Some(found) = meta.node_id.filter(|found| *found != expected)
        {
            return Err(IdentityError::OtherNode { path: path.clone(), found, expected });
        }
        let identity = Self {
            cluster_id: match known.and_then(|meta| meta.cluster_id.clone()) {
                Some(cluster_id) => cluster_id,
                None => cluster_id.map_or_else(random_text, |id| Ok(id.to_owned()))?,
            },
            node_id: known.and_then(|meta| meta.node_id).or(node_id).unwrap_or(FIRST_NODE),
        };
        for dir in missing {
            let directory_id = random_uuid()?;
            MetaProperties::new(&identity.cluster_id, identity.node_id, directory_id)
                .write(&io, dir)
                .map_err(|source| IdentityError::File { source })?;
        }
        Ok(identity)
    }
}

fn random_text() -> Result<String, IdentityError> {
    random_uuid().map(|uuid| uuid.to_string())
}

/// A random id: version 4, and like Kafka's never one that begins with a dash.
pub(crate) fn random_uuid() -> Result<Uuid, IdentityError> {
    let draw = || -> io::Result<[u8; 16]> {
        let mut bytes = [0; 16];
        fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(bytes)
    };
    loop {
        let bytes = draw().map_err(|source| IdentityError::Random { source })?;
        let uuid =
            Uuid::from_bytes(uuid::Builder::from_random_bytes(bytes).into_uuid().into_bytes());
        if !uuid.to_string().starts_with('-') {
            return Ok(uuid);
        }
    }
}

const FIRST_NODE: i32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_start_finds_the_same_cluster_and_a_new_disk_joins_it() {
        let disk = tempfile::tempdir().unwrap();
        let one = disk.path().join("one");
        let two = disk.path().join("two");
        let first = Identity::establish(std::slice::from_ref(&one), None, None).unwrap();
        assert_eq!(first.node_id, 1);
        let second = Identity::establish(&[two.clone(), one], None, Some("other")).unwrap();
        assert_eq!(second, first);
        assert_eq!(Identity::establish(&[two], Some(1), None).unwrap(), first);
    }

    #[test]
    fn a_disk_of_another_node_is_refused() {
        let disk = tempfile::tempdir().unwrap();
        let dirs = [disk.path().to_path_buf()];
        Identity::establish(&dirs, Some(7), None).unwrap();
        let refused = Identity::establish(&dirs, Some(8), None).unwrap_err();
        assert!(matches!(refused, IdentityError::OtherNode { found: 7, expected: 8, .. }));
    }
}
