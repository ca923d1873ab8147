//! `alluvium doctor`: what operators of such logs regret later, found early.

mod block;
mod disk;
mod logs;
mod machine;
mod pitfall;
mod settings;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use alluvium_log_manager::{Clock, SystemClock};
use alluvium_record_format::Timestamp;
use anstyle::{AnsiColor, Style};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::json;

use self::disk::Wanted;
use self::logs::{Context, Times};
use self::machine::Machine;
use self::pitfall::Pitfall;
use crate::console::Console;
use crate::data_dir::{data_dir, readable};
use crate::each::each_listed;
use crate::error::CliError;
use crate::parallel::{self, default_jobs};
use crate::partition::{DirKind, Partition, kind_of};
use crate::progress::Progress;
use crate::readable::Count;
use crate::settings::TopicArgs;
use crate::topic_settings::TopicSettings;
use crate::verify::wrap;

/// Look for what operators of such logs regret later
///
/// Mount options and file system, arrays and rotating disks, free space, limits of the system
/// against the number of segments, settings of the broker and, from the metadata log beside the
/// partitions, of topics, and the partitions themselves: sizes and times of segments,
/// transactions, the cleaner. Each finding comes with its cause and a remedy. Changes
/// nothing, and may run beside a broker.
#[derive(Args, Debug)]
#[command(after_long_help = help())]
pub(crate) struct DoctorArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Print a JSON object a line: one for each finding, then one with a summary
    #[arg(long)]
    json: bool,

    /// Do not look for this; may be repeated
    #[arg(long, value_name = "ID", value_parser = PossibleValuesParser::new(ids()))]
    ignore: Vec<String>,

    /// Do not read the heads of batches: times are not checked
    #[arg(long)]
    quick: bool,

    /// Percent of the file system that should be free
    #[arg(long, value_name = "PERCENT", default_value_t = 10)]
    min_free: u64,

    /// The broker's process, whose limits count [default: this one's]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,

    /// Where /proc and /sys of the machine are, seen from a container
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,

    /// The present time, in milliseconds since 1970 [default: the clock's]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    now: Option<i64>,

    #[command(flatten)]
    topic: TopicArgs,
}

/// Something that was found.
#[derive(Debug)]
struct Finding {
    pitfall: Pitfall,
    subject: PathBuf,
    text: String,
}

impl Finding {
    fn new(pitfall: Pitfall, subject: &Path, text: String) -> Self {
        Self { pitfall, subject: subject.to_path_buf(), text }
    }
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    partitions: u64,
    segments: u64,
    txn_indexes: u64,
}

/// Runs the command.
pub(crate) fn run(args: &DoctorArgs, console: &mut Console) -> Result<(), CliError> {
    let data = data_dir(&args.dir, console)?;
    let topics = TopicSettings::read(&data.path)?;
    topics.name_damage(true, console)?;
    let (given, refused) = args.topic.but_refused()?;
    let (settings, refused_of_broker) = given.with_broker_but_refused(topics.of_broker());
    refused.iter().chain(&refused_of_broker).try_for_each(|error| console.failure(error))?;
    let checked = readable(&args.dir, console)?;
    // Limits hold for a whole broker, so all that shares the log directory counts.
    let counts = match (kind_of(&args.dir)?, kind_of(&data.path)?) {
        (DirKind::Partition, DirKind::LogDir) => counts(&readable(&data.path, console)?),
        _ => counts(&checked),
    };
    let dir = fs::canonicalize(&data.path).map_err(CliError::io("open", &data.path))?;
    let pid = args.pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let machine = Machine::probe(&args.root, &pid, &dir);
    let segment_bytes = settings.log.roll_bytes().into();
    let wanted = Wanted { free_percent: args.min_free, segment_bytes };
    let mut found = disk::check(&data.path, &machine, counts, wanted);
    let file = args.topic.file().unwrap_or_else(|| Path::new("the settings"));
    found.extend(settings::check(file, &given, &settings));
    found.extend(settings::check_topics(&topics, &settings, console)?);
    let times = if args.quick { Vec::new() } else { times(&checked, console)? };
    let now = args.now.map_or_else(|| SystemClock::default().now(), Timestamp::new);
    let context = Context { data: &data, settings: &settings, topics: &topics, now };
    let mut times = times.iter();
    each_listed(&checked, console, |partition, console| {
        let times = times.next().map_or(&[][..], Vec::as_slice);
        found.extend(logs::check(partition, times, &context, console)?);
        Ok(())
    })?;
    found.retain(|finding| args.ignore.iter().all(|id| id != finding.pitfall.id()));
    found.sort_by_key(|finding| finding.pitfall);
    for same in found.chunk_by(|one, next| one.pitfall == next.pitfall) {
        for finding in same {
            show(finding, args.json, console);
            console.spill()?;
        }
        if let ([finding, ..], false) = (same, args.json) {
            explain(finding.pitfall, console);
        }
    }
    if !found.is_empty() {
        console.mark_damaged();
    }
    let Counts { partitions, segments, .. } = counts;
    if args.json {
        let summary = json!({
            "findings": found.len(), "checks": Pitfall::ALL.len() - args.ignore.len(),
            "partitions": partitions, "segments": segments,
        });
        console.print(format_args!("{}\n", json!({ "summary": summary })));
    } else {
        let findings = Count(found.len() as u64, "finding");
        let (partitions, segments) = (Count(partitions, "partition"), Count(segments, "segment"));
        console.print(format_args!("{findings} on {partitions}, {segments}\n"));
    }
    Ok(())
}

fn counts(all: &[Partition]) -> Counts {
    let logs: Vec<_> = all.iter().flat_map(Partition::logs).collect();
    Counts {
        partitions: all.len() as u64,
        segments: logs.len() as u64,
        txn_indexes: logs.iter().filter(|(files, _)| files.txn_index.is_some()).count() as u64,
    }
}

/// The times of all segments, partition by partition. A segment that cannot be read has none.
fn times(checked: &[Partition], console: &mut Console) -> Result<Vec<Vec<Times>>, CliError> {
    let logs: Vec<_> = checked
        .iter()
        .map(Partition::logs)
        .enumerate()
        .flat_map(|(index, logs)| logs.map(move |(_, log)| (index, log)))
        .collect();
    let progress = Progress::new(logs.iter().map(|(_, log)| log.bytes).sum());
    let mut times: Vec<Vec<Times>> = checked.iter().map(|_| Vec::new()).collect();
    parallel::run(
        default_jobs(),
        &logs,
        |(_, log)| logs::times(log, &progress),
        |index, read| {
            let (times, read) = (&mut times[logs[index].0], read);
            match read {
                Ok(read) => times.push(read),
                Err(error) => {
                    times.push(Times::default());
                    progress.beside(|| console.failure(&error))?;
                }
            }
            Ok::<(), CliError>(())
        },
        || progress.draw(),
    )?;
    progress.finish();
    Ok(times)
}

fn show(finding: &Finding, is_json: bool, console: &mut Console) {
    let Finding { pitfall, subject, text } = finding;
    let (id, subject) = (pitfall.id(), subject.display());
    if is_json {
        let object = json!({
            "id": id, "subject": subject.to_string(), "finding": text,
            "cause": pitfall.cause(), "remedy": pitfall.remedy(),
        });
        return console.print(format_args!("{object}\n"));
    }
    let bold = console.style(AnsiColor::Yellow.on_default().bold());
    console.print(format_args!("{bold}{id}{bold:#} {subject}\n  {text}\n"));
}

/// Says once, behind all findings of a pitfall, where it comes from and what helps.
fn explain(pitfall: Pitfall, console: &mut Console) {
    let dim = console.style(Style::new().dimmed());
    for (title, paragraph) in [("cause", pitfall.cause()), ("remedy", pitfall.remedy())] {
        for (index, line) in wrap(paragraph, 86).iter().enumerate() {
            let title = if index == 0 { title } else { "" };
            console.print(format_args!("  {dim}{title:<8}{line}{dim:#}\n"));
        }
    }
}

fn ids() -> Vec<&'static str> {
    Pitfall::ALL.iter().map(|pitfall| pitfall.id()).collect()
}

/// The help of all pitfalls, for the end of `--help`.
fn help() -> String {
    let mut text = String::from(
        "Examples:\n  \
         alluvium doctor /var/lib/kafka/data\n  \
         alluvium doctor --config /etc/kafka/server.properties --pid $(pgrep -f kafka.Kafka) \
         /var/lib/kafka/data\n  \
         alluvium doctor --ignore rotational --json /var/lib/kafka/data\n\n\
         What is looked for:\n",
    );
    for pitfall in Pitfall::ALL {
        // A String takes every character, so there is no error to hand on.
        let _ = write!(text, "\n  {}\n", pitfall.id());
        for paragraph in [pitfall.cause(), pitfall.remedy()] {
            for line in wrap(paragraph, 88) {
                let _ = writeln!(text, "      {line}");
            }
        }
    }
    text.push_str(
        "\nExit codes: 0 nothing found, 1 a finding, 2 wrong usage or something unreadable.",
    );
    text
}
