//! `alluvium salvage`: every sound batch of a damaged partition into a new one.

mod neighbours;
mod scan;

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_log_manager::{AppendError, Log, LogOptions};
use alluvium_record_format::{Batch, BatchMut, ControlRecord, Entry, LeaderEpoch, Position};
use alluvium_recovery::PartitionMetadata;
use alluvium_segment::{Io, PartitionDirName};
use clap::Args;
use serde_json::json;

use self::neighbours::{Near, Place};
use self::scan::{Lost, Piece, Scan};

use crate::console::Console;
use crate::data_dir::{DataDir, hold, lock, log_dir_of};
use crate::error::CliError;
use crate::inflate::{Checked, Inflater};
use crate::log_file::LogFile;
use crate::partition::{Partition, must_be_partition};
use crate::readable::Count;
use crate::settings::TopicArgs;
use crate::walk::Head;

/// Copy every sound batch of a damaged partition into a new directory that Kafka opens
///
/// Nothing in DIR is changed, and the lock of its log directory is held meanwhile where it is a
/// broker's and this process may write the lock file. Batches with a wrong checksum or an offset
/// that cannot be, records that cannot be read, and bytes that are no batch are left out and
/// listed; offsets stay, so that there are gaps as after compaction. A leader epoch that does not
/// fit between its neighbours, which no checksum covers, becomes theirs, and is listed. Indexes,
/// producer state and leader epochs are made anew.
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

Exit codes: 0 nothing was lost, 1 something was lost or mended, 2 wrong usage or an I/O error.";

/// Runs the command.
pub(crate) fn run(args: &SalvageArgs, console: &mut Console) -> Result<(), CliError> {
    must_be_partition(&args.dir)?;
    let name = args.out.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if PartitionDirName::parse(name).is_none() {
        return Err(CliError::NotAPartition { path: args.out.clone() });
    }
    if args.out.exists() {
        let error = std::io::ErrorKind::AlreadyExists.into();
        return Err(CliError::io("make", &args.out)(error));
    }
    let config = args.topic.config(console)?;
    let held = hold(&log_dir_of(&args.dir)?)?;
    let partition = Partition::read(&args.dir)?;
    let parent = match args.out.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(parent).map_err(CliError::io("make", parent))?;
    // The copy may lie in a log directory that was closed properly; half of a copy was not.
    let absolute = fs::canonicalize(parent).map_err(CliError::io("open", parent))?;
    let lock = match &held {
        Some(held) if held.dir() == absolute => held.clone(),
        _ => lock(parent)?,
    };
    let mut around = DataDir::read(parent, console)?;
    let options = Log::options().config(config).lock(lock);
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
    let inflater = Inflater::default();
    let mut salvage = Salvage { args, log, inflater, kept: 0, lost, mended: 0, epoch: None };
    let mut later = partition.logs().skip(1);
    for (segment, file) in partition.logs() {
        let file = LogFile::open(&file.path)?;
        let next = later.next().map(|(segment, file)| (segment.base, file));
        let near = Near::new(segment.base, next)?;
        if salvage.kept == 0 && segment.base.get() > 0 {
            let start = salvage.log.truncate_fully_and_start_at(segment.base, None);
            start.map_err(|source| CliError::Log { source })?;
        }
        salvage.segment(&file, &near, console)?;
    }
    let end = salvage.log.log_end_offset();
    salvage.log.close().map_err(|source| CliError::Log { source })?;
    let (kept, lost, mended) = (salvage.kept, salvage.lost, salvage.mended);
    if args.json {
        let summary = json!({
            "kept_batches": kept, "lost": lost, "mended": mended, "end": end.get(),
        });
        let object = json!({ "summary": summary });
        console.print(format_args!("{object}\n"));
    } else {
        let out = args.out.display();
        let (kept, lost) = (Count(kept, "batch"), Count(lost, "loss"));
        let mended = if mended > 0 { format!(", {mended} mended") } else { String::new() };
        console.print(format_args!("{out}: {kept} up to offset {end}, {lost}{mended}\n"));
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
    /// Batches whose leader epoch was changed.
    mended: u64,
    /// The leader epoch of the last batch that was kept.
    epoch: Option<LeaderEpoch>,
}

impl Salvage<'_> {
    fn segment(
        &mut self,
        file: &LogFile,
        near: &Near,
        console: &mut Console,
    ) -> Result<(), CliError> {
        let places = near.places(file, self.epoch)?;
        let mut places = places.iter().peekable();
        let mut scan = Scan::new(file);
        while let Some(piece) = scan.step()? {
            let head = match piece {
                Piece::Sound(head) => head,
                Piece::Lost(lost) => {
                    self.lose(file, &lost, console)?;
                    continue;
                }
            };
            let place = Place::at(&mut places, head.position);
            let (base, last) = (head.base_offset, head.last_offset);
            let reason = match (scan.walk().entry(&head)?, place) {
                (Ok(Entry::Batch(batch)), Some(place)) if place.is_in_order => {
                    self.batch(&batch, (file, &head), place.epoch, console)?
                }
                (Ok(Entry::Legacy(_)), _) => {
                    Some("a message of magic 0 or 1, which is not written".to_owned())
                }
                (Ok(_), _) if near.holds(&head) => {
                    Some(format!("offsets {base} to {last} do not fit in between their neighbours"))
                }
                (Ok(_), _) => Some(format!("offsets {base} to {last} lie outside of the segment")),
                (Err(corruption), _) => Some(corruption.kind().to_string()),
            };
            match reason {
                None => self.kept += 1,
                Some(reason) => {
                    let bytes = (head.position, head.position + head.size);
                    let lost = Lost { bytes, offsets: Some((base, last)), reason };
                    self.lose(file, &lost, console)?;
                }
            }
        }
        Ok(())
    }

    /// Appends a sound batch; says why one is not.
    fn batch(
        &mut self,
        batch: &Batch<'_>,
        place: (&LogFile, &Head),
        epoch: Option<LeaderEpoch>,
        console: &mut Console,
    ) -> Result<Option<String>, CliError> {
        if let Some(unsound) = self.unsound(batch) {
            return Ok(Some(unsound));
        }
        let found = batch.header().leader_epoch();
        let appended = if epoch == found && batch.header().leader_epoch_raw() >= -1 {
            self.append(batch.bytes(), epoch)
        } else {
            let mut bytes = batch.bytes().to_vec();
            if let Ok(mut batch) = BatchMut::parse(&mut bytes, Position::new(0)) {
                batch.set_leader_epoch(epoch);
            }
            self.append(&bytes, epoch)
        };
        match appended {
            Ok(()) => {
                self.mend(place, batch.header().leader_epoch_raw(), epoch, console)?;
                self.epoch = epoch.or(self.epoch);
                Ok(None)
            }
            Err(AppendError::Log { source, .. }) => Err(CliError::Log { source }),
            Err(refused) => Ok(Some(refused.to_string())),
        }
    }

    fn append(&self, bytes: &[u8], epoch: Option<LeaderEpoch>) -> Result<(), AppendError> {
        self.log.append_as_follower(bytes, epoch.unwrap_or(LeaderEpoch::new(0))).map(drop)
    }

    /// Says what is wrong with what a batch holds.
    fn unsound(&mut self, batch: &Batch<'_>) -> Option<String> {
        let bytes = batch.payload().len();
        let checked = batch.verify_crc().and_then(|()| self.inflater.check(batch));
        let checked = checked.and_then(|checked| match checked {
            Checked::TooLarge => self.inflater.check_parts(batch),
            Checked::Offsets(_) => Ok(()),
        });
        match checked {
            Err(corruption) => Some(corruption.kind().to_string()),
            Ok(()) if batch.header().record_count() == 0 && bytes > 0 => {
                Some(format!("{bytes} bytes behind a count of 0"))
            }
            Ok(()) if batch.header().attributes().is_control() => self.no_marker(batch),
            Ok(()) => None,
        }
    }

    /// Says why a control batch is none.
    fn no_marker(&mut self, batch: &Batch<'_>) -> Option<String> {
        let mut records = self.inflater.records(batch).ok()?;
        while let Some(Ok(record)) = records.next_record() {
            if let Err(kind) = ControlRecord::parse(record.key(), record.value()) {
                return Some(kind.to_string());
            }
        }
        None
    }

    /// Lists an epoch that was changed.
    fn mend(
        &mut self,
        (file, head): (&LogFile, &Head),
        found: i32,
        epoch: Option<LeaderEpoch>,
        console: &mut Console,
    ) -> Result<(), CliError> {
        let written = epoch.map_or(-1, LeaderEpoch::get);
        if found == written {
            return Ok(());
        }
        self.mended += 1;
        console.mark_damaged();
        let (path, byte) = (file.path().display(), head.position);
        if self.args.json {
            let object = json!({
                "mended": path.to_string(), "byte": byte,
                "first_offset": head.base_offset.get(), "last_offset": head.last_offset.get(),
                "leader_epoch": found, "written_leader_epoch": written,
            });
            console.print(format_args!("{object}\n"));
        } else {
            let (first, last) = (head.base_offset, head.last_offset);
            console.print(format_args!(
                "mended: {path}, byte {byte}, offsets {first} to {last}: leader epoch {found} \
                 becomes {written}\n"
            ));
        }
        console.spill()
    }

    fn lose(
        &mut self,
        file: &LogFile,
        Lost { bytes: (start, end), offsets, reason }: &Lost,
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
