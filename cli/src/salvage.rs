//! `alluvium salvage`: every sound batch of a damaged partition into a new one.

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_log_manager::{AppendError, Log, LogOptions};
use alluvium_record_format::{Entry, LeaderEpoch, Offset};
use alluvium_recovery::PartitionMetadata;
use alluvium_segment::{Io, PartitionDirName};
use clap::Args;
use serde_json::json;

use crate::console::Console;
use crate::data_dir::DataDir;
use crate::error::CliError;
use crate::inflate::Inflater;
use crate::log_file::LogFile;
use crate::partition::{Partition, must_be_partition};
use crate::readable::Count;
use crate::settings::TopicArgs;
use crate::walk::{Step, Walk};

/// Copy every sound batch of a damaged partition into a new directory that Kafka opens
///
/// Nothing in DIR is changed. Batches with a wrong checksum, records that cannot be read, and
/// bytes that are no batch are left out and listed; offsets stay, so that there are gaps as after
/// compaction. Indexes, producer state and leader epochs are made anew.
#[derive(Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct SalvageArgs {
    /// Damaged partition directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// New partition directory, such as /mnt/rescue/orders-0; must not exist
    #[arg(value_name = "OUT")]
    out: PathBuf,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    topic: TopicArgs,
}

const EXAMPLES: &str = "\
Examples:
  alluvium salvage /var/lib/kafka/data/orders-0 /mnt/rescue/orders-0

Exit codes: 0 nothing was lost, 1 something was, 2 wrong usage or an I/O error.";

/// Runs the command.
pub(crate) fn run(args: &SalvageArgs, console: &mut Console) -> Result<(), CliError> {
    must_be_partition(&args.dir)?;
    DataDir::above(&args.dir, console)?.refuse_if_in_use()?;
    let partition = Partition::read(&args.dir)?;
    let name = args.out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if PartitionDirName::parse(name).is_none() {
        return Err(CliError::NotAPartition { path: args.out.clone() });
    }
    if args.out.exists() {
        let error = std::io::ErrorKind::AlreadyExists.into();
        return Err(CliError::io("make", &args.out)(error));
    }
    let config = args.topic.config(console)?;
    let parent = match args.out.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(CliError::io("make", parent))?;
    // The copy may lie in a log directory that was closed properly; half of a copy was not.
    let mut around = DataDir::read(parent, console)?;
    let options = Log::options().config(config).lock(around.lock()?);
    around.unmarked(console, |_, console| {
        fs::create_dir(&args.out).map_err(CliError::io("make", &args.out))?;
        copy(args, &partition, options, console)
    })
}

/// Copies what is sound.
fn copy(
    args: &SalvageArgs,
    partition: &Partition,
    options: LogOptions,
    console: &mut Console,
) -> Result<(), CliError> {
    let io = Io::new();
    let mut lost = 0;
    match PartitionMetadata::read(&io, &args.dir) {
        Ok(None) => {}
        Ok(Some(metadata)) => {
            metadata.write(&io, &args.out).map_err(|source| CliError::File { source })?;
        }
        // Kafka starts on a partition without one, and not on one that it cannot read.
        Err(error) => {
            console.file_error(error)?;
            lost += 1;
        }
    }
    let log = options.open(&args.out).map_err(|source| CliError::Log { source })?;
    let mut salvage = Salvage { args, log, inflater: Inflater::default(), kept: 0, lost };
    for (segment, file) in partition.logs() {
        let file = LogFile::open(&file.path)?;
        if salvage.kept == 0 && segment.base.get() > 0 {
            let start = salvage.log.truncate_fully_and_start_at(segment.base, None);
            start.map_err(|source| CliError::Log { source })?;
        }
        salvage.segment(&file, console)?;
    }
    let end = salvage.log.log_end_offset();
    salvage.log.close().map_err(|source| CliError::Log { source })?;
    let (kept, lost) = (salvage.kept, salvage.lost);
    if args.json {
        let object = json!({"summary": {"kept_batches": kept, "lost": lost, "end": end.get()}});
        console.print(format_args!("{object}\n"));
    } else {
        let out = args.out.display();
        let (kept, lost) = (Count(kept, "batch"), Count(lost, "loss"));
        console.print(format_args!("{out}: {kept} up to offset {end}, {lost}\n"));
    }
    Ok(())
}

/// A copy on its way.
struct Salvage<'a> {
    args: &'a SalvageArgs,
    log: Log,
    inflater: Inflater,
    kept: u64,
    lost: u64,
}

impl Salvage<'_> {
    fn segment(&mut self, file: &LogFile, console: &mut Console) -> Result<(), CliError> {
        let mut walk = Walk::new(file, 0);
        loop {
            match walk.step()? {
                Step::Entry(head) => {
                    let reason = match walk.entry(&head)? {
                        Ok(entry) => self.entry(&entry)?,
                        Err(corruption) => Some(corruption.kind().to_string()),
                    };
                    match reason {
                        None => self.kept += 1,
                        Some(reason) => {
                            let offsets = Some((head.base_offset, head.last_offset));
                            let range = (head.position, head.position + head.size);
                            self.lose(file, range, offsets, &reason, console)?;
                        }
                    }
                }
                Step::Damage { at, corruption, .. } => {
                    let reason = corruption.kind().to_string();
                    let end = walk.position().max(at);
                    self.lose(file, (at, end), None, &reason, console)?;
                }
                Step::Tail { at, left, .. } => {
                    self.lose(file, (at, at + left), None, "no whole batch", console)?;
                }
                Step::End => return Ok(()),
            }
        }
    }

    /// Appends a sound entry; says why one is not.
    fn entry(&mut self, entry: &Entry<'_>) -> Result<Option<String>, CliError> {
        let epoch = match entry {
            Entry::Batch(batch) => {
                if let Err(corruption) = batch.verify_crc() {
                    return Ok(Some(corruption.kind().to_string()));
                }
                if let Err(corruption) = self.inflater.check(batch) {
                    return Ok(Some(corruption.kind().to_string()));
                }
                batch.header().leader_epoch().unwrap_or(LeaderEpoch::new(0))
            }
            _ => return Ok(Some("a message of magic 0 or 1, which is not written".to_owned())),
        };
        match self.log.append_as_follower(entry.bytes(), epoch) {
            Ok(_) => Ok(None),
            Err(AppendError::Log { source, .. }) => Err(CliError::Log { source }),
            Err(refused) => Ok(Some(refused.to_string())),
        }
    }

    fn lose(
        &mut self,
        file: &LogFile,
        (start, end): (u64, u64),
        offsets: Option<(Offset, Offset)>,
        reason: &str,
        console: &mut Console,
    ) -> Result<(), CliError> {
        self.lost += 1;
        console.mark_damaged();
        let path = file.path().display();
        if self.args.json {
            let object = json!({
                "lost": path.to_string(), "byte": start, "bytes": end - start,
                "first_offset": offsets.map(|(first, _)| first.get()),
                "last_offset": offsets.map(|(_, last)| last.get()), "reason": reason,
            });
            console.print(format_args!("{object}\n"));
        } else {
            console.print(format_args!("lost: {path}, bytes {start} to {end}"));
            if let Some((first, last)) = offsets {
                console.print(format_args!(", offsets {first} to {last}"));
            }
            console.print(format_args!(": {reason}\n"));
        }
        console.spill()
    }
}
