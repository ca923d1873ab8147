//! Turns the paths of the command line into segments to check and directories to round off.

use std::ffi::OsStr;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use alluvium_record_format::Offset;
use alluvium_recovery::{EpochEntry, read_epochs};
use alluvium_segment::{FileKind, Io, PartitionDirName, PartitionDirState, SegmentFileName};

use super::finding::{Findings, Kind};
use super::segment::SegmentJob;
use crate::error::CliError;
use crate::partition::{DirKind, FileInfo, Partition, is_small_file, kind_of, list};

/// What is to be done, in the order of the report.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) segments: Vec<SegmentJob>,
    pub(super) groups: Vec<Group>,
    /// Bytes of all files that will be read.
    pub(super) bytes: u64,
    /// Partitions of log directories that cannot be listed.
    pub(super) failures: Vec<CliError>,
}

/// Some segments, and what is checked when they are done.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) segments: Range<usize>,
    pub(super) rest: Rest,
    /// What listing it has shown already.
    pub(super) findings: Findings,
}

/// What is checked beside segments.
#[derive(Debug)]
pub(super) enum Rest {
    /// Nothing: segment files named one by one.
    Nothing,
    /// A file that is no segment.
    File(PathBuf),
    /// A partition directory; whether its log directory is checked, too.
    Partition { partition: Partition, is_alone: bool },
    /// A log directory, after its partitions.
    LogDir(PathBuf),
}

impl Plan {
    /// Plans the check of one path: a file, a partition directory or a log directory.
    pub(super) fn add(&mut self, path: &Path) -> Result<(), CliError> {
        let metadata = fs::metadata(path).map_err(CliError::io("open", path))?;
        if metadata.is_file() {
            return self.add_file(path, metadata.len());
        }
        match kind_of(path)? {
            DirKind::Partition => self.add_partition(path, true),
            DirKind::LogDir => self.add_log_dir(path),
            DirKind::Neither => Err(CliError::NotKafka { path: path.to_path_buf() }),
        }
    }

    fn add_file(&mut self, path: &Path, bytes: u64) -> Result<(), CliError> {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let parsed = SegmentFileName::parse(name);
        if is_small_file(name) || parsed.is_some_and(|name| name.kind == FileKind::Snapshot) {
            let rest = Rest::File(path.to_path_buf());
            return self.group(Vec::new(), rest, Findings::default());
        }
        let job = match parsed {
            Some(parsed) => segment_around(path, parsed),
            None if matches!(path.extension(), Some(e) if e == "checkpoint" || e == "log") => {
                Some(SegmentJob { log: path.to_path_buf(), is_active: true, ..Default::default() })
            }
            None => return Err(CliError::NotKafka { path: path.to_path_buf() }),
        };
        let mut findings = Findings::default();
        if job.is_none() {
            findings.add(Kind::IndexOrphan, path, None, "no .log beside it to compare with");
        }
        self.bytes += bytes;
        self.group(job.into_iter().collect(), Rest::Nothing, findings)
    }

    fn add_partition(&mut self, path: &Path, is_alone: bool) -> Result<(), CliError> {
        let partition = Partition::survey(path)?;
        let mut findings = Findings::default();
        let epochs = epochs(path, &mut findings)?;
        let bases: Vec<Offset> = partition.logs().map(|(segment, _)| segment.base).collect();
        let mut jobs = Vec::new();
        for (index, (segment, log)) in partition.logs().enumerate() {
            let path = |file: &Option<FileInfo>| file.as_ref().map(|file| file.path.clone());
            self.bytes += segment.bytes();
            jobs.push(SegmentJob {
                base: segment.base,
                log: log.path.clone(),
                index: path(&segment.index),
                time_index: path(&segment.time_index),
                txn_index: path(&segment.txn_index),
                next_base: bases.get(index + 1).copied(),
                is_active: index + 1 == bases.len(),
                epochs: epochs.clone().into(),
            });
        }
        self.group(jobs, Rest::Partition { partition, is_alone }, findings)
    }

    fn add_log_dir(&mut self, path: &Path) -> Result<(), CliError> {
        let mut findings = Findings::default();
        let mut names = list(path)?;
        names.sort();
        for name in names {
            let child = path.join(&name);
            let text = name.to_str().unwrap_or_default();
            if text == "bootstrap.checkpoint" {
                let bytes = fs::metadata(&child).map_err(CliError::io("look at", &child))?.len();
                self.add_file(&child, bytes)?;
            }
            if !child.is_dir() || text == "remote-log-index-cache" {
                continue;
            }
            match PartitionDirName::parse(text) {
                Some(name) if matches!(name.state, PartitionDirState::Delete(_)) => {}
                Some(_) => {
                    let added = self.add_partition(&child, false);
                    self.failures.extend(added.err());
                }
                None => {
                    let detail = "a directory whose name is not that of a partition";
                    findings.add(Kind::Name, &child, None, detail);
                }
            }
        }
        self.group(Vec::new(), Rest::LogDir(path.to_path_buf()), findings)
    }

    #[expect(clippy::unnecessary_wraps, reason = "ends every function above")]
    fn group(
        &mut self,
        jobs: Vec<SegmentJob>,
        rest: Rest,
        findings: Findings,
    ) -> Result<(), CliError> {
        let start = self.segments.len();
        self.segments.extend(jobs);
        self.groups.push(Group { segments: start..self.segments.len(), rest, findings });
        Ok(())
    }
}

/// The segment of which `path` is a file; `None` where there is no log. A log is checked alone,
/// an index with its log.
fn segment_around(path: &Path, name: SegmentFileName) -> Option<SegmentJob> {
    let file = |kind| {
        let name = SegmentFileName { kind, ..name };
        let path = path.with_file_name(name.to_string());
        path.is_file().then_some(path)
    };
    let only = |kind| file(kind).filter(|_| name.kind == kind);
    Some(SegmentJob {
        base: name.offset,
        log: file(FileKind::Log)?,
        index: only(FileKind::OffsetIndex),
        time_index: only(FileKind::TimeIndex),
        txn_index: file(FileKind::TransactionIndex),
        is_active: true,
        ..SegmentJob::default()
    })
}

/// The leader epochs of a partition. A damaged file is named here, and taken for empty.
fn epochs(path: &Path, findings: &mut Findings) -> Result<Vec<EpochEntry>, CliError> {
    match read_epochs(&Io::new(), path) {
        Ok(epochs) => Ok(epochs),
        Err(error) => match error.damage() {
            Some(damage) => {
                let at = u64::from(damage.position().get());
                findings.add(Kind::EpochFile, error.path(), at, damage.kind());
                Ok(Vec::new())
            }
            None => Err(CliError::File { source: error }),
        },
    }
}
