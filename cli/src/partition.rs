//! Lists a partition directory: its segments, snapshots, and what else lies there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::{CheckpointKind, OffsetCheckpoint, TopicPartition};
use alluvium_segment::{
    FileKind, Io, PartitionDirName, PartitionDirState, SegmentFileName, Suffix,
};

use crate::console::Console;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::walk::{Step, Walk};

/// A file and its size when the directory was listed.
#[derive(Clone, Debug)]
pub(crate) struct FileInfo {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
}

/// The files of one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentFiles {
    pub(crate) base: Offset,
    pub(crate) log: Option<FileInfo>,
    pub(crate) index: Option<FileInfo>,
    pub(crate) time_index: Option<FileInfo>,
    pub(crate) txn_index: Option<FileInfo>,
}

impl SegmentFiles {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        let files = [&self.log, &self.index, &self.time_index, &self.txn_index];
        files.into_iter().flatten().map(|file| file.bytes).sum()
    }
}

/// Something in the directory that belongs to no segment.
#[derive(Clone, Debug)]
pub(crate) struct Other {
    pub(crate) name: OsString,
    pub(crate) path: PathBuf,
    pub(crate) is_dir: bool,
}

impl Other {
    /// Why it cannot be what its name says: a file of a segment.
    pub(crate) fn not_a_file(&self) -> Option<CliError> {
        self.name.to_str().and_then(SegmentFileName::parse)?;
        Some(CliError::NotAFile { path: self.path.clone(), is_dir: self.is_dir })
    }
}

/// What lies in a partition directory.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) path: PathBuf,
    /// What the directory's name says; `None` when it is no name of a partition.
    pub(crate) name: Option<PartitionDirName>,
    /// By base offset. Indexes without a log are here too, logs of other names are not.
    pub(crate) segments: Vec<SegmentFiles>,
    /// By offset.
    pub(crate) snapshots: Vec<(Offset, FileInfo)>,
    /// Files with a suffix: `.deleted`, `.cleaned`, `.swap`.
    pub(crate) suffixed: Vec<(SegmentFileName, PathBuf)>,
    pub(crate) others: Vec<Other>,
}

impl Partition {
    /// Lists `path`. Refuses a directory, pipe or device under the name of a file of a segment:
    /// who passes it over takes the log for another one.
    pub(crate) fn read(path: &Path) -> Result<Self, CliError> {
        let partition = Self::survey(path)?;
        match partition.others.iter().find_map(Other::not_a_file) {
            Some(error) => Err(error),
            None => Ok(partition),
        }
    }

    /// Lists `path`. The caller names what among [`others`](Self::others) should be a file.
    pub(crate) fn survey(path: &Path) -> Result<Self, CliError> {
        let absolute = fs::canonicalize(path).map_err(CliError::io("open", path))?;
        let name = absolute.file_name().and_then(|name| name.to_str());
        let mut partition = Self {
            path: path.to_path_buf(),
            name: name.and_then(PartitionDirName::parse),
            segments: Vec::new(),
            snapshots: Vec::new(),
            suffixed: Vec::new(),
            others: Vec::new(),
        };
        let mut segments = BTreeMap::new();
        for entry in fs::read_dir(path).map_err(CliError::io("list", path))? {
            let entry = entry.map_err(CliError::io("list", path))?;
            partition.add(&entry, &mut segments)?;
        }
        partition.segments = segments.into_values().collect();
        partition.snapshots.sort_by_key(|(offset, _)| *offset);
        partition.others.sort_by(|a, b| a.name.cmp(&b.name));
        partition.suffixed.sort_by_key(|(name, _)| *name);
        Ok(partition)
    }

    /// Segments that have a log.
    pub(crate) fn logs(&self) -> impl DoubleEndedIterator<Item = (&SegmentFiles, &FileInfo)> {
        self.segments.iter().filter_map(|segment| Some((segment, segment.log.as_ref()?)))
    }

    /// The key of this partition in checkpoints; `None` for a stray and one that waits for
    /// deletion, as those lines are of the partition that took its place.
    pub(crate) fn key(&self) -> Option<TopicPartition> {
        let name = self.name.as_ref().filter(|name| is_loaded(name))?;
        Some(TopicPartition::new(&*name.topic, name.partition))
    }

    /// The log start offset: the base offset of the first segment, or what the checkpoint of
    /// the log directory says when that is more.
    pub(crate) fn log_start(&self, console: &mut Console) -> Result<Offset, CliError> {
        let first = self.logs().next().map_or(Offset::new(0), |(segment, _)| segment.base);
        let parent = fs::canonicalize(&self.path).map_err(CliError::io("open", &self.path))?;
        let (Some(key), Some(parent)) = (self.key(), parent.parent()) else { return Ok(first) };
        let stated = match OffsetCheckpoint::read(&Io::new(), CheckpointKind::LogStart, parent) {
            Ok(checkpoint) => checkpoint.offset(&key),
            Err(error) if error.is_not_found() => None,
            Err(error) if error.damage().is_some() => {
                console.shared_file_error(error)?;
                None
            }
            Err(source) => return Err(CliError::File { source }),
        };
        Ok(stated.map_or(first, |stated| stated.max(first)))
    }

    /// What a checkpoint of the log directory says of the partition.
    pub(crate) fn noted(&self, kind: CheckpointKind) -> Result<Option<Offset>, CliError> {
        let absolute = fs::canonicalize(&self.path).map_err(CliError::io("open", &self.path))?;
        let (Some(key), Some(log_dir)) = (self.key(), absolute.parent()) else { return Ok(None) };
        match OffsetCheckpoint::read(&Io::new(), kind, log_dir) {
            Ok(checkpoint) => Ok(checkpoint.offset(&key)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(source) => Err(CliError::File { source }),
        }
    }

    /// The largest time of the batch that holds `offset`, where there is one.
    pub(crate) fn time_at(&self, offset: Offset) -> Result<Option<Timestamp>, CliError> {
        let Some((_, log)) = self.logs().rfind(|(files, _)| files.base <= offset) else {
            return Ok(None);
        };
        let file = LogFile::open(&log.path)?;
        let mut walk = Walk::new(&file, 0);
        loop {
            match walk.step()? {
                Step::Entry(head) if head.last_offset >= offset => return Ok(head.max_timestamp),
                Step::End => return Ok(None),
                _ => {}
            }
        }
    }

    fn add(
        &mut self,
        entry: &fs::DirEntry,
        segments: &mut BTreeMap<Offset, SegmentFiles>,
    ) -> Result<(), CliError> {
        let (name, path) = (entry.file_name(), self.path.join(entry.file_name()));
        let parsed = name.to_str().and_then(SegmentFileName::parse);
        let metadata = match fs::metadata(&path) {
            Ok(metadata) => metadata,
            // Gone since the directory was listed, as files of a running broker go; or a link to
            // nothing, which is no absence where a segment should be.
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && (parsed.is_none() || fs::symlink_metadata(&path).is_err()) =>
            {
                return Ok(());
            }
            Err(error) => return Err(CliError::io("look at", &path)(error)),
        };
        let Some(parsed) = parsed.filter(|_| metadata.is_file()) else {
            self.others.push(Other { name, path, is_dir: metadata.is_dir() });
            return Ok(());
        };
        if parsed.suffix != Suffix::None {
            self.suffixed.push((parsed, path));
            return Ok(());
        }
        let info = FileInfo { path, bytes: metadata.len() };
        if parsed.kind == FileKind::Snapshot {
            self.snapshots.push((parsed.offset, info));
            return Ok(());
        }
        let segment = segments
            .entry(parsed.offset)
            .or_insert_with(|| SegmentFiles { base: parsed.offset, ..SegmentFiles::default() });
        match parsed.kind {
            FileKind::Log => segment.log = Some(info),
            FileKind::OffsetIndex => segment.index = Some(info),
            FileKind::TimeIndex => segment.time_index = Some(info),
            FileKind::TransactionIndex => segment.txn_index = Some(info),
            _ => {}
        }
        Ok(())
    }
}

/// Whether a start of the broker loads a partition from a directory of this name.
pub(crate) const fn is_loaded(name: &PartitionDirName) -> bool {
    matches!(name.state, PartitionDirState::Current | PartitionDirState::Future(_))
}

/// What a directory is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DirKind {
    Partition,
    LogDir,
    Neither,
}

/// Refuses what is no partition directory.
pub(crate) fn must_be_partition(path: &Path) -> Result<(), CliError> {
    match kind_of(path)? {
        DirKind::Partition => Ok(()),
        DirKind::LogDir | DirKind::Neither => {
            Err(CliError::NotAPartition { path: path.to_path_buf() })
        }
    }
}

/// What `path` is, by what lies in it.
pub(crate) fn kind_of(path: &Path) -> Result<DirKind, CliError> {
    let names = list(path)?;
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str()).collect();
    let is_partition = |name: &&str| {
        SegmentFileName::parse(name).is_some()
            || matches!(*name, "partition.metadata" | "leader-epoch-checkpoint")
    };
    if names.iter().any(is_partition) {
        return Ok(DirKind::Partition);
    }
    let is_log_dir = |name: &&str| {
        is_small_file(name) || (PartitionDirName::parse(name).is_some() && path.join(name).is_dir())
    };
    if names.iter().any(is_log_dir) {
        return Ok(DirKind::LogDir);
    }
    let absolute = fs::canonicalize(path).map_err(CliError::io("open", path))?;
    let name = absolute.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let is_empty_partition = PartitionDirName::parse(name).is_some();
    Ok(if is_empty_partition { DirKind::Partition } else { DirKind::Neither })
}

/// Whether a file is one of the small ones that stand beside partitions or segments.
pub(crate) fn is_small_file(name: &str) -> bool {
    CheckpointKind::ALL.iter().any(|kind| kind.file_name() == name)
        || matches!(name, "meta.properties" | "partition.metadata" | "leader-epoch-checkpoint")
}

/// The names in a directory.
pub(crate) fn list(path: &Path) -> Result<Vec<OsString>, CliError> {
    let entries = fs::read_dir(path).map_err(CliError::io("list", path))?;
    entries.map(|entry| Ok(entry.map_err(CliError::io("list", path))?.file_name())).collect()
}
