//! How the logs of a broker are started.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use alluvium_record_format::Uuid;
use alluvium_recovery::TopicPartition;
use alluvium_segment::FilePool;

use super::{BrokerIdentity, StartProgress};
use crate::{Background, BrokerConfig, CleaningGate, Clock, LogConfig, NoCleaner, SystemClock};

/// Is told how far a start is.
pub(super) type OnProgress = Arc<dyn Fn(StartProgress) + Send + Sync>;

/// Says which partitions on the disks are not this broker's.
#[derive(Clone)]
pub(super) struct IsStray(Arc<AskStray>);

type AskStray = dyn Fn(&TopicPartition, Option<Uuid>) -> bool + Send + Sync;

impl IsStray {
    pub(super) fn ask(&self, partition: &TopicPartition, topic_id: Option<Uuid>) -> bool {
        (self.0)(partition, topic_id)
    }
}

impl fmt::Debug for IsStray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IsStray")
    }
}

/// Is told that no disk is left.
#[derive(Clone)]
pub(super) struct AllOffline(Arc<dyn Fn() + Send + Sync>);

impl AllOffline {
    pub(super) fn tell(&self) {
        (self.0)();
    }
}

impl fmt::Debug for AllOffline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AllOffline")
    }
}

/// How the logs of a broker are started: see
/// [`LogManager::options`](crate::LogManager::options).
#[derive(Clone)]
#[must_use]
pub struct ManagerOptions {
    pub(super) config: BrokerConfig,
    pub(super) topics: HashMap<String, LogConfig>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) background: Option<Arc<dyn Background>>,
    pub(super) pool: Option<Arc<FilePool>>,
    pub(super) gate: Arc<dyn CleaningGate>,
    pub(super) on_progress: Option<OnProgress>,
    pub(super) identity: Option<BrokerIdentity>,
    pub(super) is_stray: Option<IsStray>,
    pub(super) when_all_offline: Option<AllOffline>,
}

impl fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerOptions").field("config", &self.config).finish_non_exhaustive()
    }
}

impl ManagerOptions {
    pub(super) fn new(config: BrokerConfig) -> Self {
        Self {
            config,
            topics: HashMap::new(),
            clock: Arc::new(SystemClock),
            background: None,
            pool: None,
            gate: Arc::new(NoCleaner),
            on_progress: None,
            identity: None,
            is_stray: None,
            when_all_offline: None,
        }
    }

    /// The settings of a topic, where they are not the defaults of the broker.
    pub fn topic(mut self, topic: impl Into<String>, config: LogConfig) -> Self {
        self.topics.insert(topic.into(), config);
        self
    }

    /// The clock; that of the machine where none is given.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Who runs the work that can wait; one thread for all logs of the process where nobody is
    /// given.
    pub fn background(mut self, background: Arc<dyn Background>) -> Self {
        self.background = Some(background);
        self
    }

    /// The pool of open files; half of the process's descriptors where none is given.
    pub fn pool(mut self, pool: Arc<FilePool>) -> Self {
        self.pool = Some(pool);
        self
    }

    /// Whom to keep off a log that is cut, deleted or moved.
    pub fn cleaning_gate(mut self, gate: Arc<dyn CleaningGate>) -> Self {
        self.gate = gate;
        self
    }

    /// Who the broker is. Where nobody says, the log directories must only fit together.
    pub fn identity(mut self, identity: BrokerIdentity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// Says of a partition on a disk, with the topic's id where its directory holds one, whether
    /// it is not this broker's: the cluster has moved or deleted it meanwhile. Such a log is
    /// loaded, closed and renamed (`-stray`), and stays until somebody removes it. Called from
    /// several threads.
    ///
    /// Source: `LogManager.loadLog` in Kafka.
    pub fn stray_when(
        mut self,
        is_stray: impl Fn(&TopicPartition, Option<Uuid>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.is_stray = Some(IsStray(Arc::new(is_stray)));
        self
    }

    /// Is told, once, that the last log directory in service has failed: nothing is served any
    /// more until the next start, and a broker should end. Kafka halts at once.
    ///
    /// Called by whoever notices first, a tick at the latest, and not by a start that fails with
    /// [`ManagerError::AllOffline`](crate::ManagerError::AllOffline). What it calls must return
    /// soon, and not wait for the manager.
    ///
    /// Source: `LogManager.handleLogDirFailure` in Kafka.
    pub fn when_all_offline(mut self, tell: impl Fn() + Send + Sync + 'static) -> Self {
        self.when_all_offline = Some(AllOffline(Arc::new(tell)));
        self
    }

    /// Is told how far the start is, from several threads.
    pub fn on_progress(mut self, tell: impl Fn(StartProgress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(tell));
        self
    }
}
