//! Accepts connections, as many as are allowed.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::Hangup;
use super::connection::serve;
use super::stream::Stream;
use crate::broker::Node;
use crate::observe::Open;

/// The listening socket and all connections that came through it.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) addr: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Listens, and serves from now on.
    pub(crate) async fn start(node: Arc<Node>) -> io::Result<Self> {
        let listener = TcpListener::bind(node.settings.listen).await?;
        let addr = listener.local_addr()?;
        let (stop, stopping) = watch::channel(false);
        let accepting = tokio::spawn(accept(node, listener, stopping));
        Ok(Self { addr, stop, accepting })
    }

    /// Accepts no more, lets requests that are under way end, and closes every connection.
    pub(crate) async fn stop(self) {
        self.stop.send(true).ok();
        self.accepting.await.ok();
    }
}

async fn accept(node: Arc<Node>, listener: TcpListener, mut stopping: watch::Receiver<bool>) {
    let max = usize::try_from(node.settings.max_connections).unwrap_or(usize::MAX);
    let seats = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_ended) = connections.join_next() => continue,
            _ = stopping.wait_for(|stopping| *stopping) => break,
        };
        let (socket, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: others must end first.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
            tracing::warn!(%peer, max, "a connection too many");
            continue;
        };
        let (node, stopping) = (Arc::clone(&node), stopping.clone());
        connections.spawn(async move {
            let open = Open::count();
            match talk(Arc::clone(&node), socket, stopping).await {
                Ok(()) | Err(Hangup::Gone | Hangup::Stopping) => {}
                Err(hangup) => {
                    tracing::info!(%peer, error = &hangup as &dyn std::error::Error, "hung up");
                }
            }
            drop((open, seat));
        });
    }
    drop(listener);
    end_all(connections, STOP_PATIENCE).await;
}

/// Waits for connections to end; those that do not are aborted, and at last left alone: a task
/// that is within a long computation cannot be aborted, and the logs must be closed.
async fn end_all(mut connections: JoinSet<()>, patience: Duration) {
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if timeout(patience, all_ended).await.is_ok() {
        return;
    }
    tracing::warn!(connections = connections.len(), "connections that did not end");
    if timeout(patience, connections.shutdown()).await.is_err() {
        tracing::error!(connections = connections.len(), "connections that cannot be ended");
    }
}

async fn talk(
    node: Arc<Node>,
    socket: TcpStream,
    stopping: watch::Receiver<bool>,
) -> Result<(), Hangup> {
    socket.set_nodelay(true).map_err(|source| Hangup::Socket { source })?;
    #[cfg(feature = "tls")]
    if let Some(acceptor) = &node.tls {
        let patience = Duration::from_millis(node.settings.stall_ms);
        let accepted = timeout(patience, acceptor.accept(socket)).await;
        let stream = accepted
            .map_err(|_elapsed| Hangup::Stalled)?
            .map_err(|source| Hangup::Tls { source })?;
        return serve(node, stream, stopping).await;
    }
    serve(node, Stream::Plain(socket), stopping).await
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const STOP_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_that_computes_without_end_does_not_keep_the_broker_from_stopping() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (tell, mut began) = tokio::sync::oneshot::channel();
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            tell.send(()).ok();
            tokio::task::block_in_place(|| held.recv().ok());
        });
        while began.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        let ended = timeout(Duration::from_secs(5), end_all(connections, ACCEPT_PAUSE)).await;
        drop(release);
        assert!(ended.is_ok());
    }
}
