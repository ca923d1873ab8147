//! What the broker counts, and where Prometheus asks for it.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::broker::Node;

/// How busy the threads that answer requests are: `RequestHandlerAvgIdlePercent` in Kafka.
const IDLE: &str = "broker_request_handler_idle_percent";
const REQUESTS: &str = "broker_requests_total";
const CONNECTIONS: &str = "broker_connections";

/// How much of the time went into requests.
#[derive(Debug)]
pub(crate) struct Usage {
    busy_ns: AtomicU64,
    threads: u32,
    last: Mutex<(Instant, u64)>,
}

impl Usage {
    pub(crate) fn new() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            busy_ns: AtomicU64::new(0),
            threads: u32::try_from(threads).unwrap_or(1),
            last: Mutex::new((Instant::now(), 0)),
        }
    }

    /// Counts work of a request, without what it waits.
    pub(crate) fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = work();
        let took = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.busy_ns.fetch_add(took, Ordering::Relaxed);
        done
    }

    /// The idle part of the handlers' time since the last call, 0 to 1.
    fn idle_since_last(&self) -> f64 {
        let (now, busy) = (Instant::now(), self.busy_ns.load(Ordering::Relaxed));
        let mut last = self.last.lock();
        let (then, before) = std::mem::replace(&mut *last, (now, busy));
        let spent = Duration::from_nanos(busy.saturating_sub(before)).as_secs_f64();
        let all = now.duration_since(then).as_secs_f64() * f64::from(self.threads);
        if all > 0.0 { (1.0 - spent / all).clamp(0.0, 1.0) } else { 1.0 }
    }
}

/// An open connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Open(());

impl Open {
    pub(crate) fn count() -> Self {
        gauge!(CONNECTIONS).increment(1.0);
        Self(())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        gauge!(CONNECTIONS).decrement(1.0);
    }
}

/// Counts a request of a kind.
pub(crate) fn requested(key: kafka_protocol::messages::ApiKey) {
    counter!(REQUESTS, "api" => format!("{key:?}")).increment(1);
}

/// A plain HTTP endpoint that answers every request with the metrics.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) addr: SocketAddr,
    serving: JoinHandle<()>,
}

impl Endpoint {
    pub(crate) async fn start(addr: SocketAddr, node: Arc<Node>) -> io::Result<Self> {
        let handle = recorder();
        let listener = TcpListener::bind(addr).await?;
        let addr = listener.local_addr()?;
        let serving = tokio::spawn(async move {
            loop {
                if let Ok((socket, _peer)) = listener.accept().await {
                    gauge!(IDLE).set(node.usage.idle_since_last());
                    handle.run_upkeep();
                    // A scraper that fails asks again.
                    timeout(PATIENCE, answer(socket, handle.render())).await.ok();
                }
            }
        });
        Ok(Self { addr, serving })
    }

    pub(crate) fn stop(self) {
        self.serving.abort();
    }
}

async fn answer(mut socket: TcpStream, body: String) -> io::Result<()> {
    let mut request = [0; 1024];
    let read = socket.read(&mut request).await?;
    if read == 0 {
        return Ok(());
    }
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    socket.write_all(head.as_bytes()).await?;
    socket.write_all(body.as_bytes()).await?;
    socket.shutdown().await
}

/// The recorder of this process: there can be but one.
fn recorder() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("metrics go to another recorder of this process");
        }
        alluvium_log_manager::metrics::describe_metrics();
        alluvium_cleaner::metrics::describe_metrics();
        alluvium_zerocopy_net::describe_metrics();
        describe_gauge!(IDLE, "idle part of the time of the threads that answer, 0 to 1");
        describe_counter!(REQUESTS, "requests, by kind");
        describe_gauge!(CONNECTIONS, "open connections");
        handle
    })
}

const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_broker_shows_the_counters_of_all_its_crates() {
        let shown = recorder().render();
        for name in ["log_rolls_total", "log_cleaner_failures_total", "net_truncated_total"] {
            assert!(shown.lines().any(|line| line == format!("{name} 0")), "{name}: {shown}");
        }
    }
}
