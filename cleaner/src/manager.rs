//! Many logs, cleaned when they are dirty enough.

mod candidate;
mod config;
mod gate;
mod job;
pub(crate) mod metrics;
mod pick;
mod stats;
mod threads;
mod throttle;
mod uncleanable;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use alluvium_log_manager::{Clock, LogManager, SystemClock};
use alluvium_recovery::TopicPartition;
use parking_lot::{Mutex, RwLock};

use crate::clean::CleanReport;
use crate::error::CleanError;

pub use config::{LogCleanerConfig, RetryPolicy};
pub use gate::CleanerGate;
pub use stats::CleanerStats;
pub use uncleanable::Uncleanable;

use job::Worker;
use stats::Stats;
use threads::Crew;
use throttle::Throttle;
use uncleanable::Mark;

/// Cleans the compacted logs of a broker, the filthiest first, and runs their retention.
///
/// By explicit [`tick`](Self::tick)s, or on threads of its own from
/// [`start_threads`](Self::start_threads) on. Dropping it ends what is under way, within a chunk
/// of 256 KiB, and waits for the threads.
///
/// A log that cannot be cleaned is kept as it is, with the reason, and tried again by the
/// [`RetryPolicy`]; the other logs are cleaned on. A disk that fails takes its own logs offline.
///
/// Source: `LogCleaner` in Kafka; `docs/format/compaction.md#manager`.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use alluvium_cleaner::{CleanerGate, LogCleaner, LogCleanerConfig};
/// use alluvium_log_manager::{BrokerConfig, LogManager};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// let broker = BrokerConfig::builder().log_dirs(vec![dir.path().into()]).build()?;
/// let gate = CleanerGate::new();
/// let options = LogManager::options(broker.clone());
/// let (logs, _report) = options.cleaning_gate(Arc::clone(&gate) as _).start()?;
///
/// let cleaner = LogCleaner::new(logs.clone(), gate, LogCleanerConfig::of(&broker));
/// let round = cleaner.tick();
/// assert!(round.is_idle()); // there is no log yet
///
/// drop(cleaner); // before the logs are closed
/// logs.stop(None)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct LogCleaner {
    shared: Arc<Shared>,
    crew: Crew,
}

/// What one round did.
#[derive(Debug)]
#[non_exhaustive]
pub struct Round {
    /// The log that was worked on; `None` where none is dirty enough.
    pub partition: Option<TopicPartition>,
    /// What became of it.
    pub outcome: Outcome,
    /// Segments of compacted logs that retention dropped.
    pub segments_deleted: usize,
}

/// What became of the log of a round.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// No log is dirty enough.
    Idle,
    /// It is clean up to where the report says.
    Cleaned(Box<CleanReport>),
    /// The cleaning was ended: the log is cut, moved, deleted, no longer compacted, or changed
    /// by retention meanwhile. Nothing is wrong with it.
    Stopped,
    /// It cannot be cleaned: see [`LogCleaner::uncleanable`].
    Failed(Arc<CleanError>),
    /// Its disk has failed and is offline.
    DiskFailed(Arc<CleanError>),
}

impl Round {
    /// Whether there was nothing to clean.
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        matches!(self.outcome, Outcome::Idle)
    }

    /// What a cleaning did that came to its end.
    #[must_use]
    pub fn report(&self) -> Option<&CleanReport> {
        match &self.outcome {
            Outcome::Cleaned(report) => Some(report),
            _ => None,
        }
    }
}

struct Shared {
    logs: LogManager,
    gate: Arc<CleanerGate>,
    clock: Arc<dyn Clock>,
    config: RwLock<LogCleanerConfig>,
    throttle: Throttle,
    uncleanable: Mutex<BTreeMap<TopicPartition, Mark>>,
    stats: Stats,
    /// The memory of ticks.
    own: Mutex<Worker>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let uncleanable = self.uncleanable.lock();
        f.debug_struct("Shared")
            .field("config", &*self.config.read())
            .field("gate", &self.gate)
            .field("uncleanable", &uncleanable.keys())
            .finish_non_exhaustive()
    }
}

impl LogCleaner {
    /// Takes the cleaning of these logs over. `gate` is the one that the log manager was started
    /// with.
    ///
    /// Where it goes on in each log says the log manager
    /// ([`cleaner_checkpoint`](LogManager::cleaner_checkpoint)), which has read that at its start.
    #[must_use]
    pub fn new(logs: LogManager, gate: Arc<CleanerGate>, config: LogCleanerConfig) -> Self {
        Self::with_clock(logs, gate, config, Arc::new(SystemClock::default()))
    }

    /// As [`new`](Self::new), by this clock.
    #[must_use]
    pub fn with_clock(
        logs: LogManager,
        gate: Arc<CleanerGate>,
        config: LogCleanerConfig,
        clock: Arc<dyn Clock>,
    ) -> Self {
        metrics::dead(0);
        let shared = Arc::new(Shared {
            logs,
            gate,
            clock,
            throttle: Throttle::new(config.max_bytes_per_second),
            config: RwLock::new(config),
            uncleanable: Mutex::default(),
            stats: Stats::default(),
            own: Mutex::default(),
        });
        Self { crew: Crew::new(Arc::clone(&shared)), shared }
    }

    /// Cleans the filthiest log that is due, on the caller's thread, then runs the retention of
    /// all compacted logs. Ticks wait for one another, not for the threads.
    ///
    /// From the first tick on, as from [`start_threads`](Self::start_threads), the log manager
    /// leaves the retention of compacted logs to the cleaner, until [`stop`](Self::stop).
    pub fn tick(&self) -> Round {
        self.shared.gate.set_attached(true);
        self.shared.round(&mut self.shared.own.lock())
    }

    /// Starts the threads that the settings ask for. Where these are none, the log manager runs
    /// the retention of compacted logs.
    ///
    /// # Errors
    ///
    /// The operating system has no thread to give. Those that started work.
    pub fn start_threads(&self) -> std::io::Result<()> {
        self.crew.resize(self.config().threads)
    }

    /// Changes the settings: threads come and go, each after the log it is at, memory and rate
    /// follow with the next log and the next chunk.
    ///
    /// Source: `LogCleaner.reconfigure` in Kafka, which ends all threads first.
    ///
    /// # Errors
    ///
    /// As [`start_threads`](Self::start_threads).
    pub fn reconfigure(&self, config: LogCleanerConfig) -> std::io::Result<()> {
        *self.shared.config.write() = config;
        self.shared.throttle.set(config.max_bytes_per_second);
        if self.crew.is_started() { self.crew.resize(config.threads) } else { Ok(()) }
    }

    /// Ends what is under way, waits for the threads, and hands retention back to the log
    /// manager. Nothing is cleaned afterwards but by ticks.
    pub fn stop(&self) {
        self.crew.stop();
        self.shared.gate.set_attached(false);
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> LogCleanerConfig {
        *self.shared.config.read()
    }

    /// The logs that could not be cleaned, with the reason.
    #[must_use]
    pub fn uncleanable(&self) -> Vec<Uncleanable> {
        let marks = self.shared.uncleanable.lock();
        let dir = |partition| self.shared.logs.dir_of(partition);
        marks.iter().map(|(name, mark)| mark.told(name, dir(name).ok())).collect()
    }

    /// Lets a log be cleaned again at once that could not be; false if there is no such log.
    pub fn clear_uncleanable(&self, partition: &TopicPartition) -> bool {
        let cleared = self.shared.uncleanable.lock().remove(partition).is_some();
        if cleared {
            self.crew.wake();
        }
        cleared
    }

    /// What was done so far, and what could not be.
    #[must_use]
    pub fn stats(&self) -> CleanerStats {
        self.shared.stats.told(&self.shared.uncleanable_by_dir(), self.crew.dead())
    }
}

impl Drop for LogCleaner {
    fn drop(&mut self) {
        self.stop();
    }
}
