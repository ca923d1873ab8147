//! Plays a trace on a log of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_log_manager::{
    Appended, Fetched, FoundOffset, Inline, Isolation, LeaderRequest, Log, LogConfig, ManualClock,
    OffsetQuery,
};
use alluvium_record_format::{Entries, Entry, LeaderEpoch, Offset, Position, Timestamp};
use alluvium_recovery::{ProducerEntry, ProducerStateConfig};
use alluvium_segment::DirLock;
use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::errors::Failure;
use super::files::{self, Allowed};
use super::operation::{self, Operation, Origin, Stop};
use super::trace::{Head, Line, State};
use crate::tally::Tally;

/// A log that goes through a trace.
pub(super) struct Player {
    /// `None` while it is opened again: no handle of the old one may be left.
    log: Option<Log>,
    dir: PathBuf,
    /// The folder of the trace.
    trace: PathBuf,
    clock: Arc<ManualClock>,
    config: LogConfig,
    producers: ProducerStateConfig,
    lock: DirLock,
    recompresses: bool,
    /// Whether the log was started again, and cut since.
    cut_since_start: Option<bool>,
}

impl Player {
    pub(super) fn open(head: &Head, trace: &Path, dir: &Path) -> Result<Self> {
        fs::create_dir(dir).context("cannot make the partition's directory")?;
        let settings = head.config.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let config = LogConfig::from_properties(settings)?;
        let expiration_ms = i64::try_from(head.producer_id_expiration_ms)?;
        let producers = ProducerStateConfig::new()
            .producer_id_expiration_ms(expiration_ms)
            .transaction_verification(false);
        let clock = Arc::new(ManualClock::new(Timestamp::new(head.start_ms)));
        let lock = DirLock::acquire(dir.parent().context("the directory has no parent")?)?;
        let log = open(dir, &config, producers, &clock, &lock, Start::FIRST)?;
        let recompresses = head.recompresses();
        let (log, dir, trace) = (Some(log), dir.to_owned(), trace.to_owned());
        Ok(Self {
            log,
            dir,
            trace,
            clock,
            config,
            producers,
            lock,
            recompresses,
            cut_since_start: None,
        })
    }

    /// Does what the line says, and compares the result and the state after it. Says why where
    /// the results may differ.
    pub(super) fn play(&mut self, line: &Line, tally: &mut Tally) -> Result<Option<&'static str>> {
        self.clock.set(Timestamp::new(line.now_ms));
        let ours = self.perform(&line.operation, tally)?;
        if matches!(line.operation, Operation::TruncateTo { .. }) {
            self.cut_since_start = self.cut_since_start.map(|_| true);
        }
        if let (Operation::OffsetForTimestamp { timestamp }, Ok(found)) = (&line.operation, &ours)
            && self.allowed().forgotten
            && line.error.is_none()
            && line.ok.is_null()
            && !found.is_null()
        {
            self.is_first_from(*timestamp, found)?;
            return self.same_state(&line.state).map(|()| Some(files::FORGOTTEN));
        }
        let result = match (ours, &line.error) {
            (Ok(ours), None) => self.same_result(&line.operation, &ours, &line.ok),
            (Err(failure), Some(class)) if failure.is(class) => Ok(()),
            (Err(failure), Some(class)) => {
                bail!("ours fails with {failure:?}, Kafka's with {class}: {:?}", line.message)
            }
            (Ok(ours), Some(class)) => bail!("ours is {ours}, Kafka's fails with {class}"),
            (Err(failure), None) => bail!("ours fails with {failure:?}, Kafka's is {}", line.ok),
        };
        result.and_then(|()| self.same_state(&line.state)).map(|()| None)
    }

    /// What may differ so far.
    pub(super) fn allowed(&self) -> Allowed {
        let forgotten = self.cut_since_start == Some(true);
        Allowed { recompressed: self.recompresses, forgotten }
    }

    /// Checks by all records that the one found is the first that is not before `timestamp`.
    fn is_first_from(&self, timestamp: i64, found: &Value) -> Result<()> {
        let log = self.log()?;
        let mut next = log.log_start_offset();
        while next < log.log_end_offset() {
            let fetched = log.read(next, u32::MAX, Isolation::LogEnd, true)?;
            let Some(slice) = fetched.slice else { break };
            let mut bytes = Vec::new();
            slice.read_to(&mut bytes).context("cannot read the slice")?;
            let (times, end) = files::times(&bytes)?;
            for (offset, time) in times {
                if offset >= log.log_start_offset() && time.get() >= timestamp {
                    let first = json!([offset.get(), time.get()]);
                    let ours = json!([found["offset"], found["timestamp"]]);
                    ensure!(ours == first, "ours is {found}, the first record is {first}");
                    return Ok(());
                }
            }
            next = end;
        }
        bail!("ours is {found}, no record is that late")
    }

    fn perform(
        &mut self,
        operation: &Operation,
        tally: &mut Tally,
    ) -> Result<Result<Value, Failure>> {
        let log = self.log()?;
        Ok(match operation {
            Operation::Append { origin, leader_epoch, batches, transaction_version } => {
                let mut bytes = STANDARD.decode(batches).context("the batches are not base64")?;
                let epoch = LeaderEpoch::new(*leader_epoch);
                let request = LeaderRequest::new(epoch);
                let appended = match origin {
                    Origin::Client => log.append_as_leader(&mut bytes, request),
                    Origin::Coordinator => {
                        let version = transaction_version.unwrap_or(1);
                        log.append_as_leader(&mut bytes, request.coordinator(version))
                    }
                    Origin::Raft => log.append_as_raft_leader(&bytes, epoch),
                    Origin::Replication => log.append_as_follower(&bytes, epoch),
                };
                appended.map(|appended| appended_json(&appended)).map_err(Failure::Append)
            }
            Operation::Read { offset, max_bytes, isolation, min_one_message } => {
                let isolation = isolation_of(*isolation);
                match log.read(Offset::new(*offset), *max_bytes, isolation, *min_one_message) {
                    Ok(fetched) => Ok(fetched_json(&fetched)?),
                    Err(error) => Err(Failure::Log(error)),
                }
            }
            Operation::OffsetForTimestamp { timestamp } => {
                match OffsetQuery::from_kafka(*timestamp) {
                    Some(query) => log.offset_for(query).map(found_json).map_err(Failure::Log),
                    // What only a tiered log knows.
                    None => Ok(json!({"offset": -1, "timestamp": -1, "leader_epoch": -1})),
                }
            }
            Operation::EndOffsetForEpoch { leader_epoch } => {
                let end = log.end_offset_for_epoch(LeaderEpoch::new(*leader_epoch));
                Ok(end.map_or(
                    Value::Null,
                    |(epoch, offset)| json!({"offset": offset.get(), "leader_epoch": epoch.get()}),
                ))
            }
            Operation::CloseAndReopenClean => {
                let closed = log.close().map_err(Failure::Log);
                if let Ok(closed) = &closed {
                    ensure!(closed.clean, "the close was not clean");
                    self.log = None;
                    self.start(Start::FIRST)?;
                }
                closed.map(|_| json!(true))
            }
            Operation::StopAndStart(stop) => self.restart(stop, tally)?,
            Operation::SetConfig { config } => {
                let settings = config.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                let config = LogConfig::from_properties(settings)?;
                self.config = config.clone();
                self.log()?.set_config(config);
                Ok(json!(true))
            }
            other => perform_simple(log, other),
        })
    }

    /// A stop, what happens to the files, and the start after it.
    fn restart(&mut self, stop: &Stop, tally: &mut Tally) -> Result<Result<Value, Failure>> {
        let log = self.log.take().context("the log could not be opened again")?;
        if stop.clean {
            match log.close() {
                Ok(closed) => ensure!(closed.clean, "the close was not clean"),
                Err(error) => return Ok(Err(Failure::Log(error))),
            }
        } else {
            log.abandon();
        }
        drop(log);
        if let Some(folder) = &stop.left {
            let theirs = self.trace.join(folder);
            let at = self.dir.file_name().unwrap_or_default().to_string_lossy();
            files::compare(&format!("{at} {folder}"), &self.dir, &theirs, self.allowed(), tally)?;
        }
        if let Some(folder) = &stop.found {
            files::replace(&self.dir, &self.trace.join(folder))?;
        }
        let start = Start {
            clean: stop.clean,
            recovery_point: Offset::new(stop.recovery_point),
            log_start_offset: Offset::new(stop.log_start_offset),
        };
        self.start(start)?;
        Ok(Ok(json!(true)))
    }

    fn start(&mut self, start: Start) -> Result<()> {
        let log = open(&self.dir, &self.config, self.producers, &self.clock, &self.lock, start)?;
        self.log = Some(log);
        self.cut_since_start.get_or_insert(false);
        Ok(())
    }

    fn log(&self) -> Result<&Log> {
        self.log.as_ref().context("the log could not be opened again")
    }

    fn same_result(&self, operation: &Operation, ours: &Value, theirs: &Value) -> Result<()> {
        if self.recompresses {
            match operation {
                // Sizes follow the compressor, and where segments end follows sizes.
                Operation::Read { .. } => {
                    for key in ["offset", "aborted"] {
                        ensure!(ours[key] == theirs[key], "{key}: {ours}, Kafka's {theirs}");
                    }
                    return Ok(());
                }
                Operation::DeleteOldSegments => return Ok(()),
                _ => {}
            }
        }
        ensure!(ours == theirs, "ours is {ours}, Kafka's {theirs}");
        Ok(())
    }

    fn same_state(&self, theirs: &State) -> Result<()> {
        let segments = if self.recompresses {
            theirs.segments.clone()
        } else {
            let of = |(base, bytes): (Offset, u32)| (base.get(), u64::from(bytes));
            self.log()?.segments().into_iter().map(of).collect()
        };
        let log = self.log()?;
        let ours = State {
            log_start_offset: log.log_start_offset().get(),
            log_end_offset: log.log_end_offset().get(),
            high_watermark: log.high_watermark().get(),
            last_stable_offset: log.last_stable_offset().get(),
            segments,
        };
        ensure!(ours == *theirs, "the state is {ours:?}, Kafka's {theirs:?}");
        Ok(())
    }
}

/// How a log is started.
#[derive(Clone, Copy, Debug)]
struct Start {
    clean: bool,
    recovery_point: Offset,
    log_start_offset: Offset,
}

impl Start {
    /// Without checkpoints.
    const FIRST: Self =
        Self { clean: true, recovery_point: Offset::new(0), log_start_offset: Offset::new(0) };
}

fn open(
    dir: &Path,
    config: &LogConfig,
    producers: ProducerStateConfig,
    clock: &Arc<ManualClock>,
    lock: &DirLock,
    start: Start,
) -> Result<Log> {
    let options = Log::options()
        .config(config.clone())
        .clean(start.clean)
        .recovery_point(start.recovery_point)
        .log_start_offset(start.log_start_offset)
        .producers(producers)
        .clock(Arc::<ManualClock>::clone(clock))
        .background(Arc::new(Inline::default()))
        .lock(lock.clone());
    options.open(dir).context("cannot open the log")
}

fn perform_simple(log: &Log, operation: &Operation) -> Result<Value, Failure> {
    let result = match operation {
        Operation::UpdateHighWatermark { offset } => {
            log.update_high_watermark(Offset::new(*offset)).map(|set| json!(set.get()))
        }
        Operation::Roll => log.roll().map(|base| json!(base.get())),
        Operation::IncrementHighWatermark { offset } => log
            .increment_high_watermark(Offset::new(*offset))
            .map(|moved| moved.map_or(Value::Null, |to| json!(to.get()))),
        Operation::Flush { inclusive } => log.flush(*inclusive).map(|()| json!(true)),
        Operation::TruncateFullyAndStartAt { offset, log_start_offset } => log
            .truncate_fully_and_start_at(Offset::new(*offset), log_start_offset.map(Offset::new))
            .map(|()| json!(true)),
        Operation::AssignEpoch { leader_epoch, offset } => log
            .assign_epoch(LeaderEpoch::new(*leader_epoch), Offset::new(*offset))
            .map(|()| json!(true)),
        Operation::RemoveExpiredProducers => log.remove_expired_producers().map(|()| json!(true)),
        Operation::Producers => log.active_producers().map(|all| producers_json(&all)),
        Operation::TruncateTo { offset } => {
            log.truncate_to(Offset::new(*offset)).map(|truncated| json!(truncated))
        }
        Operation::IncrementLogStartOffset { offset } => {
            log.increment_log_start_offset(Offset::new(*offset)).map(|moved| json!(moved))
        }
        Operation::DeleteOldSegments => log.delete_old_segments().map(|count| json!(count)),
        _ => log.close().map(|_| json!(true)),
    };
    result.map_err(Failure::Log)
}

const fn isolation_of(isolation: operation::Isolation) -> Isolation {
    match isolation {
        operation::Isolation::LogEnd => Isolation::LogEnd,
        operation::Isolation::HighWatermark => Isolation::HighWatermark,
        operation::Isolation::TxnCommitted => Isolation::TxnCommitted,
    }
}

fn appended_json(appended: &Appended) -> Value {
    let offset = |offset: Option<Offset>| offset.map_or(-1, Offset::get);
    let time = |time: Option<Timestamp>| time.map_or(-1, Timestamp::get);
    json!({
        "first_offset": offset(appended.first_offset),
        "last_offset": offset(appended.last_offset),
        "max_timestamp": time(appended.max_timestamp),
        "log_append_time": time(appended.log_append_time),
    })
}

fn fetched_json(fetched: &Fetched) -> Result<Value> {
    let place = fetched.position.place.context("a read without a place")?;
    let mut bytes = Vec::new();
    if let Some(slice) = &fetched.slice {
        slice.read_to(&mut bytes).context("cannot read the slice")?;
    }
    let (mut count, mut first, mut last) = (0, -1, -1);
    for entry in Entries::new(&bytes, Position::new(0)) {
        // The slice may end inside a batch.
        let Ok(Entry::Batch(batch)) = entry else { break };
        if count == 0 {
            first = batch.header().base_offset().get();
        }
        last = batch.header().last_offset().get();
        count += 1;
    }
    let aborted = fetched.aborted.as_ref().map(|aborted| {
        let pairs = aborted.iter().map(|txn| (txn.producer_id.get(), txn.first_offset.get()));
        pairs.collect::<Vec<_>>()
    });
    Ok(json!({
        "offset": fetched.position.offset.get(),
        "segment": place.segment_base.get(),
        "position": place.position.get(),
        "bytes": bytes.len(),
        "first_entry_incomplete": fetched.first_entry_incomplete,
        "complete_batches": count,
        "first_batch_base": first,
        "last_batch_last_offset": last,
        "aborted": aborted,
    }))
}

fn producers_json(producers: &[ProducerEntry]) -> Value {
    let mut rows: Vec<[i64; 6]> = producers
        .iter()
        .map(|it| {
            [
                it.producer_id.get(),
                it.producer_epoch.get().into(),
                it.last_batch().map_or(-1, |batch| batch.last_sequence.get().into()),
                it.last_timestamp.get(),
                it.coordinator_epoch.map_or(-1, i64::from),
                it.current_txn_first_offset.map_or(-1, Offset::get),
            ]
        })
        .collect();
    rows.sort_unstable();
    json!(rows)
}

fn found_json(found: Option<FoundOffset>) -> Value {
    found.map_or(Value::Null, |found| {
        json!({
            "offset": found.offset.get(),
            "timestamp": found.timestamp.map_or(-1, Timestamp::get),
            "leader_epoch": found.leader_epoch.map_or(-1, LeaderEpoch::get),
        })
    })
}
