//! `alluvium reindex`: offset and time indexes, built anew from the logs.

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_log_manager::LogConfig;
use alluvium_record_format::{CorruptKind, Offset};
use alluvium_segment::{DirLock, FilePool, PartitionDir, Segment, SegmentError};
use alluvium_sparse_index::{BatchInfo, BuiltIndexes, IndexBuilder};
use clap::Args;

use crate::console::Console;
use crate::data_dir::{DataDir, partition_paths};
use crate::each::each;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::{FileInfo, Partition, SegmentFiles};
use crate::settings::TopicArgs;
use crate::walk::{Step, Walk, position_of};

/// Build the offset and time indexes of partitions anew from their logs
///
/// Every segment whose indexes are not what a rebuild gives is named, and gets them. The index
/// interval of the topic decides which batches are indexed: say it with --set, or a sound index of
/// another interval is replaced, too. Where a log is damaged, which is named, its indexes are left
/// alone, as a rebuild would leave out what lies behind; they are made where both are missing.
/// Transaction indexes are rebuilt by recover. The broker must be stopped.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct ReindexArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Say which indexes would be replaced, and change no byte
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    topic: TopicArgs,
}

const EXAMPLES: &str = "\
Examples:
  alluvium reindex --dry-run /var/lib/kafka/data
  alluvium reindex --set index.interval.bytes=512 /var/lib/kafka/data/orders-0

Exit codes: 0 good, 1 a log is damaged, 2 wrong usage, a directory in use, or one that cannot be
read or written.";

/// Runs the command.
pub(crate) fn run(args: &ReindexArgs, console: &mut Console) -> Result<(), CliError> {
    let config = args.topic.config(console)?;
    let (mut data, lock) = DataDir::locked(&args.dir, args.dry_run, console)?;
    let paths = partition_paths(&args.dir)?;
    match lock {
        None => reindex(&paths, &config, None, console),
        Some(lock) => {
            data.unmarked(console, |_, console| reindex(&paths, &config, Some(&lock), console))
        }
    }
}

/// Rebuilds what is stale under a lock, or says what would be.
fn reindex(
    paths: &[PathBuf],
    config: &LogConfig,
    lock: Option<&DirLock>,
    console: &mut Console,
) -> Result<(), CliError> {
    let verb = if lock.is_some() { "rebuilt" } else { "would rebuild" };
    each(paths, console, |partition, console| {
        let Found { stale, left } = look(partition, config, console)?;
        if let Some(lock) = lock
            && !stale.is_empty()
        {
            rebuild(partition, &stale, config, lock)
                .map_err(|source| CliError::Segment { source })?;
        }
        for (files, which) in &stale {
            let log = files.log.as_ref().map_or(Path::new(""), |log| &log.path);
            console.print(format_args!("{verb} {which} of {}\n", log.display()));
        }
        for log in &left {
            console.print(format_args!(
                "left alone: the indexes of {}, a damaged log\n",
                log.display()
            ));
        }
        if stale.is_empty() && left.is_empty() {
            console.print(format_args!("{}: in order\n", partition.path.display()));
        }
        console.spill()
    })
}

fn rebuild(
    partition: &Partition,
    stale: &[(SegmentFiles, &'static str)],
    config: &LogConfig,
    lock: &DirLock,
) -> Result<(), SegmentError> {
    let dir = PartitionDir::open(&partition.path, lock, &FilePool::for_this_process())?;
    for (files, _) in stale {
        let segment = Segment::open(&dir, files.base, config.segment())?;
        segment.rebuild_indexes()?;
        segment.flush()?;
    }
    dir.sync_names()
}

/// What there is to do for a partition.
#[derive(Debug, Default)]
struct Found {
    /// The segments whose indexes are not what a rebuild gives, and which of them.
    stale: Vec<(SegmentFiles, &'static str)>,
    /// Damaged logs whose indexes know more than a rebuild would.
    left: Vec<PathBuf>,
}

fn look(
    partition: &Partition,
    config: &LogConfig,
    console: &mut Console,
) -> Result<Found, CliError> {
    let mut found = Found::default();
    for (files, log) in partition.logs() {
        let (built, is_whole) = build(files, &log.path, config, console)?;
        if !is_whole && (files.index.is_some() || files.time_index.is_some()) {
            found.left.push(log.path.clone());
            continue;
        }
        let offsets = is_same(files.index.as_ref(), &built.offset_index)?;
        let times = is_same(files.time_index.as_ref(), &built.time_index)?;
        let which = match (offsets, times) {
            (true, true) => continue,
            (false, true) => "the offset index",
            (true, false) => "the time index",
            (false, false) => "offset and time index",
        };
        found.stale.push((files.clone(), which));
    }
    Ok(found)
}

/// What a rebuild gives, and whether it has met no damage, which is named. What lies behind gets no
/// entries.
fn build(
    files: &SegmentFiles,
    log: &Path,
    config: &LogConfig,
    console: &mut Console,
) -> Result<(BuiltIndexes, bool), CliError> {
    let file = LogFile::open(log)?;
    let mut builder = IndexBuilder::new(files.base, config.index_interval_bytes());
    let mut walk = Walk::new(&file, 0);
    let (mut next_offset, mut is_whole) = (files.base, true);
    loop {
        let head = match walk.step()? {
            Step::Entry(head) => head,
            other => {
                is_whole &= !other.name(log, console)?;
                break;
            }
        };
        if head.last_offset < next_offset {
            console.damage(
                log,
                head.position,
                CorruptKind::out_of_range(head.last_offset.get()),
            )?;
            is_whole = false;
            continue;
        }
        let size = u32::try_from(head.size).unwrap_or(u32::MAX);
        let position = position_of(head.position);
        let info = BatchInfo::new(head.last_offset, position, size, head.max_timestamp);
        if let Err(refusal) = builder.push(info) {
            console.damage(log, head.position, refusal)?;
            is_whole = false;
            continue;
        }
        next_offset = Offset::new(head.last_offset.get().saturating_add(1));
    }
    Ok((builder.finish().unwrap_or_default(), is_whole))
}

/// Whether the file holds these bytes; a missing one is the same as an empty one.
fn is_same(file: Option<&FileInfo>, bytes: &[u8]) -> Result<bool, CliError> {
    let Some(file) = file else { return Ok(bytes.is_empty()) };
    if file.bytes != bytes.len() as u64 {
        return Ok(false);
    }
    let found = fs::read(&file.path).map_err(CliError::io("read", &file.path))?;
    Ok(found == bytes)
}
