//! How the logs of a broker are started.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use alluvium_segment::FilePool;

use super::StartProgress;
use crate::{Background, BrokerConfig, CleaningGate, Clock, LogConfig, NoCleaner, SystemClock};

/// Is told how far a start is.
pub(super) type OnProgress = Arc<dyn Fn(StartProgress) + Send + Sync>;

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

    /// Is told how far the start is, from several threads.
    pub fn on_progress(mut self, tell: impl Fn(StartProgress) + Send + Sync + 'static) -> Self {
        self.on_progress = Some(Arc::new(tell));
        self
    }
}
