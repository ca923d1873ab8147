//! Loads the logs of all directories, several at a time.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use alluvium_recovery::{LoadReport, TopicPartition};
use alluvium_segment::{PartitionDirName, PartitionDirState};
use parking_lot::Mutex;

use super::data_dir::DataDir;
use super::options::OnProgress;
use super::start::Checkpoints;
use super::{DirReport, Hosted, ManagerError, Shared, StartProgress, StartReport};
use crate::gate::KeptOff;
use crate::{Log, LogError};

/// One log to load.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) path: PathBuf,
    pub(super) partition: TopicPartition,
    pub(super) is_future: bool,
}

/// What has become of a log.
enum Outcome {
    Loaded(LoadReport),
    Failed(Arc<LogError>),
    /// All of its disk is offline.
    DirFailed,
}

impl Shared {
    /// Loads the logs of every directory: `num.recovery.threads.per.data.dir` threads for each,
    /// all directories at a time.
    pub(super) fn load_all(
        &self,
        report: &mut StartReport,
        on_progress: Option<&OnProgress>,
    ) -> Result<(), ManagerError> {
        let outcomes = thread::scope(|scope| {
            let start = |(dir, told)| scope.spawn(move || self.load_dir(dir, told, on_progress));
            let live = self.dirs.iter().zip(&mut report.dirs).filter(|(dir, _)| dir.is_live());
            let threads: Vec<_> = live.map(start).collect();
            threads.into_iter().map(thread::ScopedJoinHandle::join).collect::<Vec<_>>()
        });
        for outcome in outcomes {
            // A panic is a fault of ours; it is not swallowed.
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        Ok(())
    }

    /// The logs of directories that have failed: by name, as far as the names can be read.
    pub(super) fn name_offline(&self) {
        for dir in self.dirs.iter().filter(|dir| !dir.is_live()) {
            let entries = fs::read_dir(dir.path()).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name().to_string_lossy().into_owned();
                let parsed = PartitionDirName::parse(&name).filter(|_| !is_of_no_topic(&name));
                let parsed = parsed.filter(|name| name.state == PartitionDirState::Current);
                if let Some(name) = parsed {
                    let partition = TopicPartition::new(name.topic, name.partition);
                    self.offline.insert(partition, Arc::clone(dir));
                }
            }
        }
    }

    fn load_dir(
        &self,
        dir: &Arc<DataDir>,
        report: &mut DirReport,
        on_progress: Option<&OnProgress>,
    ) -> Result<(), ManagerError> {
        let io = self.pool.io();
        let checkpoints = Checkpoints::read(io, dir, &mut report.bad_checkpoints);
        let jobs = match self.list(dir, report) {
            Ok(jobs) => jobs,
            Err(source) => {
                dir.fail(LogError::Directory { path: dir.path().to_path_buf(), source });
                return Ok(());
            }
        };
        let tell = |progress: StartProgress| {
            if let Some(tell) = on_progress {
                tell(progress);
            }
        };
        tell(StartProgress::Found { dir: dir.path().to_path_buf(), logs: jobs.len() });
        crate::metrics::to_load(jobs.len());
        let queue = Mutex::new(jobs);
        let outcomes = Mutex::new(Vec::new());
        let refused = Mutex::new(None);
        let work = || {
            // A job that is not begun stays in the queue.
            while dir.is_live()
                && let Some(job) = take(&queue)
            {
                let name = job.partition.to_string();
                match self.load(dir, &checkpoints, job) {
                    Ok(done) => outcomes.lock().push(done),
                    Err(error) => drop(refused.lock().get_or_insert(error)),
                }
                crate::metrics::loaded();
                tell(StartProgress::Loaded { dir: dir.path().to_path_buf(), name });
            }
        };
        thread::scope(|scope| {
            (0..self.config.recovery_threads()).for_each(|_| drop(scope.spawn(work)));
        });
        for job in queue.into_inner() {
            self.set_offline(&job, dir);
            crate::metrics::loaded();
        }
        for (partition, outcome) in outcomes.into_inner() {
            match outcome {
                Outcome::Loaded(loaded) => report.loaded.push((partition, loaded)),
                Outcome::Failed(reason) => report.not_loaded.push((partition, reason)),
                Outcome::DirFailed => {}
            }
        }
        report.stray.extend(dir.take_strays());
        report.loaded.sort_by(|(one, _), (other, _)| one.cmp(other));
        report.not_loaded.sort_by(|(one, _), (other, _)| one.cmp(other));
        refused.into_inner().map_or(Ok(()), Err)
    }

    /// The partitions of a directory. Those that wait for their deletion are queued again.
    fn list(&self, dir: &Arc<DataDir>, report: &mut DirReport) -> io::Result<VecDeque<Job>> {
        let mut jobs = VecDeque::new();
        for entry in fs::read_dir(dir.path())? {
            let entry = entry?;
            let kind = entry.file_type()?;
            // A link to a file is as little a log as the file.
            if !kind.is_dir() && (!kind.is_symlink() || entry.path().is_file()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_of_no_topic(&name) {
                continue;
            }
            let Some(parsed) = PartitionDirName::parse(&name) else {
                if entry.path().is_dir() {
                    report.foreign.push(name);
                }
                continue;
            };
            let partition = TopicPartition::new(parsed.topic, parsed.partition);
            let is_future = match parsed.state {
                PartitionDirState::Current => false,
                PartitionDirState::Future(_) => true,
                PartitionDirState::Stray(_) => {
                    report.stray.push(name);
                    continue;
                }
                PartitionDirState::Delete(_) if kind.is_symlink() => continue,
                PartitionDirState::Delete(_) => {
                    self.queue_deletion(dir, entry.path());
                    continue;
                }
                _ => continue,
            };
            jobs.push_back(Job { path: entry.path(), partition, is_future });
        }
        Ok(jobs)
    }

    fn load(
        &self,
        dir: &Arc<DataDir>,
        checkpoints: &Checkpoints,
        job: Job,
    ) -> Result<(TopicPartition, Outcome), ManagerError> {
        let Job { path, partition, is_future } = &job;
        let offset = |offsets: &alluvium_recovery::OffsetCheckpoint| {
            offsets.offset(partition).unwrap_or_default()
        };
        let options = self
            .log_options(dir, partition)
            .clean(dir.was_clean())
            .recovery_point(offset(&checkpoints.recovery_points))
            .log_start_offset(offset(&checkpoints.log_starts));
        let options = match checkpoints.high_watermarks.offset(partition) {
            Some(high_watermark) => options.high_watermark(high_watermark),
            None => options,
        };
        let opened = refuse_link(path).and_then(|()| {
            let is_stray = self.is_stray(partition, path);
            let is_stray = is_stray.map_err(|source| LogError::File { source })?;
            let opened = options.open_with_progress(path, &mut |_| ControlFlow::Continue(()))?;
            Ok((opened, is_stray))
        });
        let ((log, report), is_stray) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let failed = self.load_failed(&job, error, dir, checkpoints);
                return Ok((job.partition, failed.map_or(Outcome::DirFailed, Outcome::Failed)));
            }
        };
        if is_stray {
            self.set_aside(partition, &log, dir);
        } else {
            if *is_future {
                let path = job.path.display();
                tracing::warn!(%partition, %path, "a copy is here: its log is not cleaned");
            } else {
                self.check_cleaned(partition, dir, &log);
            }
            self.host(partition, log, dir, *is_future)?;
        }
        Ok((job.partition, Outcome::Loaded(report)))
    }

    /// The log cannot be used as its disk has failed. Of a copy on its way, the log itself lies on
    /// another disk.
    pub(super) fn set_offline(&self, job: &Job, dir: &Arc<DataDir>) {
        if !job.is_future {
            self.offline.insert(job.partition.clone(), Arc::clone(dir));
        }
    }

    /// Takes a log into service. Where it is a copy, the cleaner is kept off what it is made of.
    pub(super) fn host(
        &self,
        partition: &TopicPartition,
        log: Log,
        dir: &Arc<DataDir>,
        is_future: bool,
    ) -> Result<(), ManagerError> {
        let map = if is_future { &self.futures } else { &self.logs };
        let kept_off = is_future.then(|| Arc::new(KeptOff::new(&self.gate, partition)));
        let hosted = Hosted { log, dir: Arc::clone(dir), _kept_off: kept_off };
        dir.log_count.fetch_add(1, Ordering::AcqRel);
        let other = map.insert(partition.clone(), hosted);
        self.forget_checkpointed(partition, dir);
        match other {
            None => Ok(()),
            Some(other) => Err(ManagerError::SamePartition {
                partition: partition.to_string(),
                first: other.dir.path().to_path_buf(),
                second: dir.path().to_path_buf(),
            }),
        }
    }
}

/// Takes the next one out, and lets the others go on.
fn take(queue: &Mutex<VecDeque<Job>>) -> Option<Job> {
    queue.lock().pop_front()
}

/// Refuses a link in the place of a log's directory: what it leads to may lie on a disk whose lock
/// is not ours, or be the directory of another log.
fn refuse_link(path: &Path) -> Result<(), LogError> {
    if !path.is_symlink() {
        return Ok(());
    }
    let source = io::Error::new(ErrorKind::NotADirectory, "it is a symbolic link");
    Err(LogError::Directory { path: path.to_path_buf(), source })
}

/// Whether a directory holds no log of a topic.
fn is_of_no_topic(name: &str) -> bool {
    name == REMOTE_CACHE || name.starts_with(METADATA_LOG)
}

const REMOTE_CACHE: &str = "remote-log-index-cache";
const METADATA_LOG: &str = "__cluster_metadata-";
