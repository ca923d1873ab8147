//! Thousands of partitions, as a broker leaves them after a clean stop.

use std::fs;
use std::path::Path;

use alluvium_log_manager::{LeaderRequest, Log, LogConfig};
use alluvium_record_format::{
    BatchBuilder, BatchSettings, LeaderEpoch, Offset, SimpleRecord, Timestamp, Uuid,
};
use alluvium_recovery::{
    CheckpointKind, CleanShutdown, OffsetCheckpoint, PartitionMetadata, TopicPartition,
};
use alluvium_segment::Io;
use anyhow::{Context, Result};

pub(super) const TOPIC: &str = "many";

/// How many of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) partitions: u32,
    pub(super) segments: u32,
}

pub(super) fn partition(number: u32) -> TopicPartition {
    TopicPartition::new(TOPIC, i32::try_from(number).unwrap_or(i32::MAX))
}

/// A batch of one record of a hundred bytes at this offset.
pub(super) fn batch(offset: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(offset)));
    let record = SimpleRecord::new().key(b"key").value(&[b'v'; 100]);
    let time = Timestamp::new(1_760_000_000_000 + offset);
    builder.append(&record.timestamp(time)).expect("a record of a hundred bytes fits");
    builder.finish().expect("a batch of one record").to_vec()
}

/// Has one log write its files and copies them; returns how many files there are.
pub(super) fn make(dir: &Path, layout: Layout) -> Result<usize> {
    let first = dir.join(partition(0).to_string());
    let log = Log::open(&first, LogConfig::builder().retention_ms(None).build()?)?;
    for number in 0..layout.segments {
        if number > 0 {
            log.roll()?;
        }
        log.append_as_leader(&mut batch(0), LeaderRequest::new(LeaderEpoch::new(0)))?;
    }
    let end = log.log_end_offset();
    log.close()?;
    drop(log);
    PartitionMetadata::new(Uuid::from_bytes([7; 16])).write(&Io::new(), &first)?;
    let files = read_files(&first)?;
    for number in 1..layout.partitions {
        let copy = dir.join(partition(number).to_string());
        fs::create_dir(&copy)?;
        for (name, bytes) in &files {
            fs::write(copy.join(name), bytes).with_context(|| copy.display().to_string())?;
        }
    }
    let ends: OffsetCheckpoint =
        (0..layout.partitions).map(|number| (partition(number), end)).collect();
    for kind in [CheckpointKind::RecoveryPoint, CheckpointKind::HighWatermark] {
        ends.write(&Io::new(), kind, dir)?;
    }
    OffsetCheckpoint::default().write(&Io::new(), CheckpointKind::LogStart, dir)?;
    CleanShutdown::new(None).write(&Io::new(), dir)?;
    Ok(files.len() * usize::try_from(layout.partitions)?)
}

fn read_files(dir: &Path) -> Result<Vec<(std::ffi::OsString, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        files.push((entry.file_name(), fs::read(entry.path())?));
    }
    Ok(files)
}
