//! Checks what stands beside the segments: names, snapshots, epochs, metadata, checkpoints.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use alluvium_record_format::Offset;
use alluvium_recovery::{
    CheckpointKind, FileError, MetaProperties, OffsetCheckpoint, PartitionMetadata, TopicPartition,
    read_epochs, read_snapshot,
};
use alluvium_segment::{Io, SegmentFileName, Suffix};

use super::finding::{Findings, Kind};
use crate::error::CliError;
use crate::partition::{Partition, SegmentFiles};

/// Where the logs of a log directory end.
pub(super) type Ends = BTreeMap<TopicPartition, Offset>;

/// Checks a partition directory, whose segments hold offsets below `end`.
pub(super) fn partition(
    partition: &Partition,
    end: Offset,
    findings: &mut Findings,
) -> Result<(), CliError> {
    names(partition, findings);
    for (offset, file) in &partition.snapshots {
        named(read_snapshot(&Io::new(), &file.path), Kind::Snapshot, findings)?;
        if *offset > end && end.get() > 0 {
            let detail = format_args!("the log ends at offset {end}");
            findings.add(Kind::SnapshotAhead, &file.path, None, detail);
        }
    }
    named(PartitionMetadata::read(&Io::new(), &partition.path), Kind::Metadata, findings)?;
    epochs(&partition.path, end, findings)
}

/// Names of files, and segments that lack some.
fn names(partition: &Partition, findings: &mut Findings) {
    for segment in &partition.segments {
        let SegmentFiles { log, index, time_index, txn_index, .. } = segment;
        let Some(log) = log else {
            for file in [index, time_index, txn_index].into_iter().flatten() {
                findings.add(Kind::IndexOrphan, &file.path, None, "there is no .log");
            }
            continue;
        };
        // Brokers make the indexes when they first use them, so an empty segment may have none.
        let missing = match (index, time_index) {
            _ if log.bytes == 0 => continue,
            (None, None) => "no offset index and no time index",
            (None, Some(_)) => "no offset index",
            (Some(_), None) => "no time index",
            (Some(_), Some(_)) => continue,
        };
        findings.add(Kind::IndexMissing, &log.path, None, missing);
    }
    for (name, path) in &partition.suffixed {
        if matches!(name.suffix, Suffix::Cleaned | Suffix::Swap) {
            findings.add(Kind::LeftOver, path, None, "a replacement was interrupted");
        }
    }
    for other in &partition.others {
        let name = other.name.to_str().unwrap_or_default();
        let extension = Path::new(name).extension().and_then(OsStr::to_str);
        let is_like_one =
            matches!(extension, Some("log" | "index" | "timeindex" | "txnindex" | "snapshot"));
        if is_like_one {
            let detail = match (other.is_dir, SegmentFileName::parse(name)) {
                (true, Some(_)) => "a directory, not a regular file",
                (false, Some(_)) => "not a regular file",
                (_, None) => "not the 20 digits of an offset before the extension",
            };
            findings.add(Kind::Name, &other.path, None, detail);
        }
    }
}

/// Whether epochs and their offsets rise, and stay within the log.
fn epochs(dir: &Path, end: Offset, findings: &mut Findings) -> Result<(), CliError> {
    let path = dir.join("leader-epoch-checkpoint");
    let entries = match read_epochs(&Io::new(), dir) {
        Ok(entries) => entries,
        // Damage was named when the segments were planned.
        Err(FileError::Corrupt { .. }) => return Ok(()),
        Err(source) => return Err(CliError::File { source }),
    };
    for pair in entries.windows(2) {
        let [before, after] = pair else { continue };
        if after.epoch <= before.epoch || after.start_offset < before.start_offset {
            let detail = format_args!(
                "epoch {} at offset {} after epoch {} at offset {}",
                after.epoch, after.start_offset, before.epoch, before.start_offset
            );
            findings.add(Kind::EpochFile, &path, None, detail);
        }
    }
    if let Some(last) = entries.last().filter(|last| last.start_offset > end && end.get() > 0) {
        let detail = format_args!(
            "epoch {} begins at offset {}, the log ends at {end}",
            last.epoch, last.start_offset
        );
        findings.add(Kind::EpochAhead, &path, None, detail);
    }
    Ok(())
}

/// Checks the files of a log directory against its partitions.
pub(super) fn log_dir(dir: &Path, ends: &Ends, findings: &mut Findings) -> Result<(), CliError> {
    named(MetaProperties::read(&Io::new(), dir), Kind::Metadata, findings)?;
    for kind in CheckpointKind::ALL {
        let read = match OffsetCheckpoint::read(&Io::new(), kind, dir) {
            Err(error) if error.is_not_found() => continue,
            read => named(read, Kind::Checkpoint, findings)?,
        };
        let path = kind.path(dir);
        let mut strangers = Vec::new();
        for (partition, offset) in read.iter().flat_map(OffsetCheckpoint::iter) {
            match ends.get(partition) {
                Some(end) => entry(kind, &path, (partition, offset), *end, findings),
                None => strangers.push(partition.to_string()),
            }
        }
        if let Some(first) = strangers.iter().min() {
            let detail = match strangers.len() {
                1 => format!("{first} is not in the directory"),
                count => format!("{first} and {} more are not in the directory", count - 1),
            };
            findings.add(Kind::CheckpointStranger, &path, None, detail);
        }
    }
    Ok(())
}

/// Checks the lines of one partition in the checkpoints of the directory above it.
pub(super) fn above(
    partition: &Partition,
    end: Offset,
    findings: &mut Findings,
) -> Result<(), CliError> {
    let absolute = std::fs::canonicalize(&partition.path);
    let absolute = absolute.map_err(CliError::io("open", &partition.path))?;
    let (Some(key), Some(dir)) = (partition.key(), absolute.parent()) else { return Ok(()) };
    for kind in CheckpointKind::ALL {
        // The checkpoints themselves are not what was asked about.
        let Ok(checkpoint) = OffsetCheckpoint::read(&Io::new(), kind, dir) else { continue };
        if let Some(offset) = checkpoint.offset(&key) {
            entry(kind, &kind.path(dir), (&key, offset), end, findings);
        }
    }
    Ok(())
}

/// One line of a checkpoint against the end of its log.
fn entry(
    kind: CheckpointKind,
    path: &Path,
    (partition, offset): (&TopicPartition, Offset),
    end: Offset,
    findings: &mut Findings,
) {
    if offset <= end {
        return;
    }
    let detail = format_args!("{partition}: offset {offset}, the log ends at {end}");
    let is_start = kind == CheckpointKind::LogStart;
    let kind = if is_start { Kind::LogStart } else { Kind::CheckpointAhead };
    findings.add(kind, path, None, detail);
}

/// Checks a file that is no segment, alone.
pub(super) fn file(path: &Path, findings: &mut Findings) -> Result<(), CliError> {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match name {
        "meta.properties" => {
            named(MetaProperties::read(&Io::new(), dir), Kind::Metadata, findings)?;
        }
        "partition.metadata" => {
            named(PartitionMetadata::read(&Io::new(), dir), Kind::Metadata, findings)?;
        }
        "leader-epoch-checkpoint" => {
            named(read_epochs(&Io::new(), dir), Kind::EpochFile, findings)?;
            epochs(dir, Offset::MAX, findings)?;
        }
        _ if name.ends_with(".snapshot") => {
            named(read_snapshot(&Io::new(), path), Kind::Snapshot, findings)?;
        }
        _ => {
            named(OffsetCheckpoint::read_file(&Io::new(), path), Kind::Checkpoint, findings)?;
        }
    }
    Ok(())
}

/// What was read, or `None` with its damage named as `kind`.
fn named<T>(
    read: Result<T, FileError>,
    kind: Kind,
    findings: &mut Findings,
) -> Result<Option<T>, CliError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.damage() {
            Some(damage) => {
                let at = u64::from(damage.position().get());
                let line = damage.line().map_or_else(String::new, |line| format!("line {line}: "));
                findings.add(kind, error.path(), at, format_args!("{line}{}", damage.kind()));
                Ok(None)
            }
            None => Err(CliError::File { source: error }),
        },
    }
}
