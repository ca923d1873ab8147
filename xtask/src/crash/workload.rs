//! The process whose system calls are recorded: every kind of change that a log sees.

use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_cleaner::{
    ActiveProducers, CleanError, CleanHost, CleanOptions, Cleaner, CleanerConfig, Progress,
};
use alluvium_log_manager::{
    BrokerConfig, Log, LogConfig, LogError, LogManager, ManualClock, NewLog, TaskQueue,
};
use alluvium_record_format::{LeaderEpoch, Offset, Timestamp};
use alluvium_recovery::TopicPartition;
use alluvium_segment::SegmentConfig;
use alluvium_segment::replace::Replacement;
use anyhow::{Context, Result};

use super::history::History;
use super::marks::Marks;
use crate::inject::{BEGUN, REFUSED};
use crate::proof::Dice;

/// The time at which the workload begins.
pub(super) const NOW: i64 = 1_700_000_000_000;

/// The logs: one of each kind of life.
pub(super) const TOPICS: [&str; 4] = ["plain", "compacted", "trimmed", "moved"];

/// Lives of the process: each but the last ends with a controlled shutdown or without one.
const LIVES: usize = 3;

/// What is done in a life, and how often, in an order that is drawn: none of the rare things is
/// left out.
const DEEDS: [(Deed, usize); 9] = [
    (Deed::Append, 10),
    (Deed::Burst, 2),
    (Deed::Flush, 4),
    (Deed::Roll, 2),
    (Deed::Truncate, 3),
    (Deed::DeleteRecords, 1),
    (Deed::Retain, 2),
    (Deed::Compact, 3),
    (Deed::Tick, 4),
];

#[derive(Clone, Copy, Debug)]
enum Deed {
    Append,
    /// Some appends to one log, after which the checkpoints are written.
    Burst,
    Flush,
    Roll,
    Truncate,
    DeleteRecords,
    Retain,
    Compact,
    Tick,
}

/// Runs the workload in this folder.
pub(super) fn run(root: &Path, seed: u64) -> Result<()> {
    lives(&mut Workload::new(root, seed)?, root)
}

/// Runs the workload, and where a call fails, looks at what still works: whatever happens is an
/// error that says what it is.
pub(super) fn run_on(root: &Path, seed: u64) -> Result<()> {
    let mut workload = Workload::new(root, seed)?;
    workload.goes_on = true;
    println!("{BEGUN}");
    if let Err(error) = lives(&mut workload, root) {
        println!("{REFUSED}{error:#}");
    }
    Ok(())
}

fn lives(workload: &mut Workload, root: &Path) -> Result<()> {
    for life in 0..LIVES {
        let mut live = Live::start(root, &workload.clock)?;
        workload.note_ends(&live)?;
        for deed in workload.shuffled_deeds() {
            if let Err(error) = workload.perform(deed, &mut live) {
                workload.look_around(&live, &error)?;
                return Err(error);
            }
            live.tasks.run_due();
            workload.show_indexes()?;
        }
        if life == 0 {
            workload.move_directory(&live)?;
        }
        if life + 1 == LIVES || workload.dice.one_in(2) {
            workload.stop(&live)?;
        }
        drop(live);
        workload.show_indexes()?;
    }
    Ok(())
}

/// The settings of the broker; `root` holds two log directories.
pub(super) fn broker(root: &Path) -> Result<BrokerConfig> {
    let dirs = format!("{0}/a,{0}/b", root.display());
    let properties = [
        ("log.dirs", dirs.as_str()),
        ("log.flush.offset.checkpoint.interval.ms", "1000"),
        ("log.flush.start.offset.checkpoint.interval.ms", "1000"),
        ("replica.high.watermark.checkpoint.interval.ms", "1000"),
        ("log.initial.task.delay.ms", "100"),
        ("log.cleaner.enable", "false"),
        ("num.recovery.threads.per.data.dir", "1"),
        // There is no coordinator here to verify them with.
        ("transaction.partition.verification.enable", "false"),
    ];
    Ok(BrokerConfig::from_properties(properties)?.0)
}

/// The settings of the topics: small segments, small indexes, an entry every few batches.
fn topic(retention_bytes: Option<u64>) -> Result<LogConfig> {
    let config = LogConfig::builder()
        .internal_segment_bytes(Some(2500))
        .segment_index_bytes(1024)
        .index_interval_bytes(300)
        .retention_ms(None)
        .retention_bytes(retention_bytes)
        .file_delete_delay_ms(500);
    Ok(config.build()?)
}

/// Starts the logs of a folder at the time of this clock.
pub(super) fn start(root: &Path, clock: &Arc<ManualClock>) -> Result<(LogManager, Arc<TaskQueue>)> {
    let tasks = Arc::new(TaskQueue::new(Arc::<ManualClock>::clone(clock)));
    let mut options = LogManager::options(broker(root)?)
        .clock(Arc::<ManualClock>::clone(clock))
        .background(Arc::<TaskQueue>::clone(&tasks));
    for name in TOPICS {
        options = options.topic(name, topic(None)?);
    }
    let (manager, report) = options.start()?;
    let failed = report.dirs.iter().find_map(|dir| dir.failure.clone());
    anyhow::ensure!(failed.is_none(), "a log directory is offline: {failed:?}");
    Ok((manager, tasks))
}

/// One life of the process.
struct Live {
    manager: LogManager,
    tasks: Arc<TaskQueue>,
    root: PathBuf,
}

impl Live {
    fn start(root: &Path, clock: &Arc<ManualClock>) -> Result<Self> {
        let (manager, tasks) = start(root, clock)?;
        Ok(Self { manager, tasks, root: root.to_path_buf() })
    }

    /// A log that was made before.
    fn known(&self, name: &str) -> Option<Log> {
        self.manager.log(&TopicPartition::new(name, 0)).ok()
    }

    /// A log, which is made where it is not there.
    fn log(&self, name: &str) -> Result<Log> {
        let new = NewLog::new().dir(self.root.join("a"));
        Ok(self.manager.get_or_create(&TopicPartition::new(name, 0), &new)?)
    }
}

/// What goes on from one life to the next.
pub(super) struct Workload {
    pub(super) dice: Dice,
    clock: Arc<ManualClock>,
    marks: Marks,
    /// What was said so far: what the clients know.
    pub(super) history: History,
    root: PathBuf,
    pub(super) stamp: u64,
    pub(super) epoch: i32,
    /// Whether a failure is looked at, and no record of system calls is made.
    goes_on: bool,
}

impl Workload {
    fn new(root: &Path, seed: u64) -> Result<Self> {
        Ok(Self {
            dice: Dice::new(seed),
            clock: Arc::new(ManualClock::new(Timestamp::new(NOW))),
            marks: Marks::new(root)?,
            history: History::default(),
            root: root.to_path_buf(),
            stamp: 1,
            epoch: 0,
            goes_on: false,
        })
    }

    pub(super) fn mark(&mut self, text: &str) -> Result<()> {
        self.marks.say(text)?;
        self.history.take(text)
    }

    fn show_indexes(&mut self) -> Result<()> {
        if self.goes_on { Ok(()) } else { self.marks.show_indexes() }
    }

    /// After a failure: appends succeed or are refused, and where the directory is said to be
    /// offline, they are refused.
    fn look_around(&mut self, live: &Live, error: &anyhow::Error) -> Result<()> {
        if !self.goes_on {
            return Ok(());
        }
        let offline = match error.downcast_ref() {
            Some(LogError::Offline { path, .. }) => Some(path.as_path()),
            _ => None,
        };
        let of_ours = |path: &Path| ["a", "b"].iter().any(|dir| self.root.join(dir) == path);
        anyhow::ensure!(offline.is_none_or(of_ours), "{offline:?} is no log directory of ours");
        for name in TOPICS {
            let Some(log) = live.known(name) else { continue };
            let end = log.log_end_offset();
            // Readers see it, although something behind the bytes failed.
            let is_there = self.end_of(&log).is_some_and(|expected| expected == end.get());
            let word = if is_there { "acked" } else { "failed" };
            self.mark(&format!("{word} {}", log.name()))?;
            match self.append_by(&log, None) {
                Ok(()) => {
                    anyhow::ensure!(log.log_end_offset() > end, "an append did nothing");
                    let path = log.dir().path();
                    let is_offline = offline.is_some_and(|offline| path.starts_with(offline));
                    assert!(!is_offline, "appended to an offline directory");
                }
                Err(_refused) => self.mark(&format!("failed {}", log.name()))?,
            }
        }
        drop(live.manager.stop(None));
        Ok(())
    }

    /// The gap that a truncation inside a batch leaves at the end is gone after a start.
    fn note_ends(&mut self, live: &Live) -> Result<()> {
        for log in TOPICS.iter().filter_map(|name| live.known(name)) {
            self.mark(&format!("end {} {}", log.name(), log.log_end_offset()))?;
        }
        Ok(())
    }

    fn shuffled_deeds(&mut self) -> Vec<Deed> {
        let deeds = DEEDS.iter().flat_map(|(deed, times)| iter::repeat_n(*deed, *times));
        let mut deeds: Vec<Deed> = deeds.collect();
        for at in (1..deeds.len()).rev() {
            deeds.swap(at, self.dice.index(at + 1));
        }
        deeds
    }

    fn perform(&mut self, deed: Deed, live: &mut Live) -> Result<()> {
        let name = match deed {
            Deed::Truncate => "plain",
            Deed::DeleteRecords | Deed::Retain => "trimmed",
            Deed::Compact => "compacted",
            Deed::Append | Deed::Burst | Deed::Flush | Deed::Roll | Deed::Tick => {
                TOPICS[self.dice.index(TOPICS.len())]
            }
        };
        let is_new = live.known(name).is_none();
        let log = live.log(name)?;
        if is_new {
            // What is flushed must not go with the name of the log.
            self.append(&log)?;
            self.flush(&log)?;
        }
        match deed {
            Deed::Append => self.append(&log),
            Deed::Burst => {
                self.burst(&log)?;
                self.clock.advance_ms(1000);
                live.manager.tick();
                Ok(())
            }
            Deed::Flush => self.flush(&log),
            Deed::Roll => self.roll(&log),
            Deed::Truncate => self.truncate(live, &log),
            Deed::DeleteRecords => self.delete_records(&log),
            Deed::Retain => self.retain(&log),
            Deed::Compact => self.compact(&log),
            Deed::Tick => {
                self.clock.advance_ms(400);
                live.manager.tick();
                Ok(())
            }
        }
    }

    /// More than one entry of an index covers.
    fn burst(&mut self, log: &Log) -> Result<()> {
        iter::repeat_n((), 4).try_for_each(|()| self.append(log))
    }

    fn flush(&mut self, log: &Log) -> Result<()> {
        let end = log.log_end_offset();
        if self.dice.one_in(2) {
            log.flush(false)?;
        } else {
            log.commit(end)?;
        }
        self.mark(&format!("flushed {} {end}", log.name()))
    }

    pub(super) fn roll(&mut self, log: &Log) -> Result<()> {
        self.mark(&format!("roll {}", log.name()))?;
        log.roll()?;
        self.mark(&format!("rolled {}", log.name()))
    }

    fn truncate(&mut self, live: &Live, log: &Log) -> Result<()> {
        if !self.dice.one_in(3) {
            // The checkpoint calls everything durable that is about to be cut.
            self.burst(log)?;
            let end = log.log_end_offset();
            log.flush(false)?;
            self.mark(&format!("flushed {} {end}", log.name()))?;
            self.clock.advance_ms(1000);
            live.manager.tick();
        }
        let (start, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        let back = i64::try_from(1 + self.dice.below(6))?;
        let mut to = (end - back).max(start);
        if self.dice.one_in(2) {
            // Several segments go at once.
            for _ in 0..3 {
                self.roll(log)?;
                self.append(log)?;
            }
            self.flush(log)?;
            to = to.max(end - 2);
        }
        self.mark(&format!("truncate {} {to}", log.name()))?;
        log.truncate_to(Offset::new(to))?;
        self.epoch += 1;
        self.mark(&format!("truncated {} {to}", log.name()))?;
        // What was cut off must not come back beside what takes its place.
        match self.dice.below(4) {
            0 => self.append(log),
            1 => self.follow(log),
            _ => Ok(()),
        }
    }

    fn delete_records(&mut self, log: &Log) -> Result<()> {
        let (start, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        let to = start + (end - start) / 3;
        self.mark(&format!("delete {} {to}", log.name()))?;
        log.update_high_watermark(log.log_end_offset())?;
        log.delete_records(Some(Offset::new(to)))?;
        Ok(())
    }

    fn retain(&mut self, log: &Log) -> Result<()> {
        let mut keep = 6000;
        if self.dice.one_in(2) {
            // Many go at once.
            for _ in 0..4 {
                self.append(log)?;
                self.roll(log)?;
            }
            self.flush(log)?;
            keep = 600;
        }
        // Any of it may go, the last record excepted.
        self.mark(&format!("delete {} {}", log.name(), log.log_end_offset()))?;
        log.update_high_watermark(log.log_end_offset())?;
        log.set_config(topic(Some(keep))?);
        log.delete_old_segments()?;
        log.set_config(topic(None)?);
        self.mark(&format!("deleted {} {}", log.name(), log.log_start_offset()))?;
        match log.segments().first() {
            Some((base, _)) => self.mark(&format!("gone {} {base}", log.name())),
            None => Ok(()),
        }
    }

    fn compact(&mut self, log: &Log) -> Result<()> {
        if self.dice.one_in(2) {
            // An open transaction holds back the cleaning.
            self.end_transactions(log)?;
            self.roll(log)?;
        }
        log.update_high_watermark(log.log_end_offset())?;
        let view = log.cleaning_view()?;
        let bases = view.segments.iter().map(|segment| segment.base_offset());
        let mut stable = bases.filter(|base| *base <= view.last_stable_offset);
        let Some(upto) = stable.next_back().filter(|upto| *upto > view.log_start_offset) else {
            return Ok(());
        };
        self.mark(&format!("compact {} {upto}", log.name()))?;
        let producers = log.active_producers()?;
        let options = CleanOptions::new(view.log_start_offset, upto, Timestamp::new(NOW))
            .segment_bytes(2500)
            .segment(SegmentConfig::new().index_interval_bytes(300).max_index_bytes(1024))
            .active_producers(ActiveProducers::from_iter(&producers))
            .high_watermark(view.high_watermark);
        let config = CleanerConfig::new().map_bytes(1 << 16);
        let mut host = Host { log, refused: None };
        let cleaned = Cleaner::new(config).clean(&view.segments, &options, &mut host);
        host.refused.map_or(Ok(()), Err)?;
        cleaned?;
        Ok(())
    }

    /// Moves a log to the other directory, as a change of its log directory does.
    fn move_directory(&mut self, live: &Live) -> Result<()> {
        let partition = TopicPartition::new("moved", 0);
        let log = live.log("moved")?;
        let future = live.manager.create_future(&partition, live.root.join("b"))?;
        while future.log_end_offset() < log.log_end_offset() {
            let from = future.log_end_offset().max(log.log_start_offset());
            let isolation = alluvium_log_manager::Isolation::LogEnd;
            let fetched = log.read(from, 2000, isolation, true)?;
            let mut bytes = Vec::new();
            fetched.slice.context("there is more to read")?.read_to(&mut bytes)?;
            future.append_as_follower(&bytes, LeaderEpoch::new(self.epoch))?;
        }
        self.show_indexes()?;
        self.mark("moving moved-0")?;
        live.manager.promote_future(&partition)?;
        self.mark("moved moved-0")?;
        self.show_indexes()
    }

    fn stop(&mut self, live: &Live) -> Result<()> {
        let log = live.log(TOPICS[self.dice.index(TOPICS.len())])?;
        self.burst(&log)?;
        let ends: Vec<_> = TOPICS
            .iter()
            .filter_map(|name| live.known(name))
            .map(|log| (log.name().to_owned(), log.log_end_offset()))
            .collect();
        live.manager.stop(None)?;
        for (name, end) in ends {
            self.mark(&format!("flushed {name} {end}"))?;
        }
        Ok(())
    }
}

/// Puts the new segments in their place in the log.
struct Host<'a> {
    log: &'a Log,
    refused: Option<LogError>,
}

impl CleanHost for Host<'_> {
    fn progress(&mut self, _progress: Progress) -> Result<(), CleanError> {
        Ok(())
    }

    fn replace(&mut self, replacement: Replacement) -> Result<(), CleanError> {
        self.log.replace_segments(replacement).map_err(|error| {
            self.refused = Some(error);
            CleanError::Stopped
        })
    }
}
