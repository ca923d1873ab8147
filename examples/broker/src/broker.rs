//! The broker: its parts, started and stopped in order.

use std::net::SocketAddr;
use std::sync::Arc;

use alluvium_cleaner::{CleanerGate, LogCleaner, LogCleanerConfig};
use alluvium_log_manager::{LogManager, ManagerError, SystemClock};
use tokio::sync::{Notify, Semaphore};
use tokio::task::block_in_place;

use crate::net::{Budget, Server};
use crate::observe::{self, Usage};
use crate::settings::Settings;
use crate::store::{
    Identity, IdentityError, ProducerIds, StoreError, TopicError, TopicSettings, Topics,
    config_with,
};

/// A running broker.
#[derive(Debug)]
pub struct Broker {
    node: Arc<Node>,
    server: Server,
    metrics: Option<observe::Endpoint>,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) settings: Settings,
    pub(crate) identity: Identity,
    pub(crate) manager: LogManager,
    /// Is told that no log directory is left in service.
    all_offline: Arc<Notify>,
    /// Compacts topics in the background.
    cleaner: LogCleaner,
    pub(crate) topics: Topics,
    pub(crate) producer_ids: ProducerIds,
    pub(crate) budget: Budget,
    pub(crate) usage: Usage,
    /// Turns of appends that may take long: no more at once than there are threads.
    pub(crate) append_turns: Semaphore,
    /// The same for other requests.
    pub(crate) answer_turns: Semaphore,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::net::TlsAcceptor>,
}

/// Why the broker did not start or stop.
#[derive(Debug, thiserror::Error)]
#[error("the broker cannot {action}")]
#[non_exhaustive]
pub struct StartError {
    action: &'static str,
    source: Box<Reason>,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    Identity(IdentityError),
    #[error(transparent)]
    Store(StoreError),
    #[error(transparent)]
    Logs(ManagerError),
    #[error(transparent)]
    Topics(TopicError),
    #[error("there is no thread to be had")]
    Threads(#[source] std::io::Error),
    #[error("the socket is refused")]
    Socket(#[source] std::io::Error),
    #[cfg(feature = "tls")]
    #[error(transparent)]
    Tls(crate::net::TlsError),
}

fn fail<E>(action: &'static str, reason: fn(E) -> Reason) -> impl FnOnce(E) -> StartError {
    move |error| StartError { action, source: Box::new(reason(error)) }
}

impl Broker {
    /// Loads the logs, recovering them where the last stop was not clean, and listens.
    ///
    /// # Errors
    ///
    /// Where the directories, the logs or the sockets cannot be had.
    pub async fn start(settings: Settings) -> Result<Self, StartError> {
        let node = block_in_place(|| Node::load(settings))?;
        let node = Arc::new(node);
        let metrics = match node.settings.metrics {
            Some(addr) => Some(
                observe::Endpoint::start(addr, Arc::clone(&node))
                    .await
                    .map_err(fail("serve metrics", Reason::Socket))?,
            ),
            None => None,
        };
        let server =
            Server::start(Arc::clone(&node)).await.map_err(fail("listen", Reason::Socket))?;
        Ok(Self { node, server, metrics })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.server.addr
    }

    /// Where Prometheus asks, if it may.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(|endpoint| endpoint.addr)
    }

    /// The id of the cluster.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.node.identity.cluster_id
    }

    /// Waits until no log directory is left in service: a broker that serves nothing should end, as
    /// its cluster takes it for alive otherwise. Kafka halts then.
    pub async fn all_offline(&self) {
        self.node.all_offline.notified().await;
    }

    /// Ends all connections, closes the logs and marks the directories as properly stopped;
    /// returns whether the next start may do without recovery.
    ///
    /// # Errors
    ///
    /// Where the logs are closed already.
    pub async fn stop(self) -> Result<bool, StartError> {
        self.server.stop().await;
        if let Some(metrics) = self.metrics {
            metrics.stop();
        }
        let stop = || {
            self.node.cleaner.stop();
            self.node.manager.stop(None)
        };
        let stopped =
            tokio::task::block_in_place(stop).map_err(fail("close the logs", Reason::Logs))?;
        for dir in &stopped.dirs {
            for (partition, error) in &dir.failed {
                tracing::error!(%partition, error = error as &dyn std::error::Error, "not closed");
            }
        }
        Ok(stopped.dirs.iter().all(|dir| dir.is_clean))
    }
}

impl Node {
    /// Waits for a turn, then does what may take long: the thread is left to other connections.
    pub(crate) async fn in_turn<T>(&self, turns: &Semaphore, work: impl FnOnce() -> T) -> T {
        // Never closed: all who wait get a turn.
        let _turn = turns.acquire().await.ok();
        self.usage.busy(|| block_in_place(work))
    }

    fn load(settings: Settings) -> Result<Self, StartError> {
        let dirs = settings.logs.log_dirs();
        let identity = Identity::establish(&dirs, settings.node_id, settings.cluster_id.as_deref())
            .map_err(fail("say who it is", Reason::Identity))?;
        #[cfg(feature = "tls")]
        let tls = match &settings.tls {
            Some((cert, key)) => {
                Some(crate::net::tls_acceptor(cert, key).map_err(fail("speak TLS", Reason::Tls))?)
            }
            None => None,
        };
        let first = dirs.first().cloned().unwrap_or_default();
        let store = |action| fail(action, Reason::Store);
        let own = TopicSettings::open(&first).map_err(store("read the settings of topics"))?;
        let producer_ids = ProducerIds::open(&first, &SystemClock::default())
            .map_err(store("read the next producer id"))?;
        let defaults = settings.logs.log_defaults();
        let gate = CleanerGate::new();
        let all_offline = Arc::new(Notify::new());
        let told = Arc::clone(&all_offline);
        let mut options = LogManager::options(settings.logs.clone())
            .cleaning_gate(Arc::clone(&gate) as _)
            .when_all_offline(move || told.notify_one());
        for (topic, overrides) in own.all() {
            match config_with(&defaults, &overrides) {
                Ok(config) => options = options.topic(topic, config),
                Err(error) => tracing::error!(topic, %error, "settings of a topic are refused"),
            }
        }
        let (manager, report) = options.start().map_err(fail("load the logs", Reason::Logs))?;
        for dir in &report.dirs {
            let logs = dir.loaded.len();
            tracing::info!(dir = %dir.path.display(), logs, was_clean = dir.was_clean, "loaded");
            for (partition, reason) in &dir.not_loaded {
                let error = &**reason as &dyn std::error::Error;
                tracing::error!(dir = %dir.path.display(), %partition, error, "not loaded");
            }
            if let Some(failure) = &dir.failure {
                tracing::error!(dir = %dir.path.display(), failure, "offline");
            }
        }
        let cleaner = LogCleaner::new(manager.clone(), gate, LogCleanerConfig::of(&settings.logs));
        if settings.logs.cleaner_enable() {
            cleaner.start_threads().map_err(fail("start its cleaner", Reason::Threads))?;
        }
        manager.tick_in_background(TICK_MS);
        let topics = Topics::load(manager.clone(), defaults, own)
            .map_err(fail("find its topics", Reason::Topics))?;
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let budget = Budget::new(settings.max_in_flight_bytes);
        Ok(Self {
            settings,
            identity,
            manager,
            all_offline,
            cleaner,
            topics,
            producer_ids,
            budget,
            usage: Usage::new(),
            append_turns: Semaphore::new(threads),
            answer_turns: Semaphore::new(threads),
            #[cfg(feature = "tls")]
            tls,
        })
    }

    /// What a client is told to connect to, if it came to `local`.
    pub(crate) fn advertised(&self, local: SocketAddr) -> (String, i32) {
        match &self.settings.advertise {
            Some((host, port)) => (host.clone(), i32::from(*port)),
            None => (local.ip().to_string(), i32::from(local.port())),
        }
    }
}

const TICK_MS: u64 = 500;
