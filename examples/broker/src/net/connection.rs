//! One connection: requests are answered one after the other, in their order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alluvium_zerocopy_net::SocketSender;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::time::timeout;

use super::frame::{FrameReader, Header, Patience};
use super::readers::Readers;
use super::stream::Stream;
use super::{Hangup, Reply};
use crate::api;
use crate::broker::Node;

/// Whom a request came from.
#[derive(Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) stream: &'a Stream,
    /// The address that the client came to.
    pub(crate) local: SocketAddr,
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) readers: &'a Readers,
}

impl Peer<'_> {
    /// Ends when there is nobody left to answer.
    pub(crate) async fn gone(&self) -> Hangup {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            () = self.stream.closed() => Hangup::Gone,
            _ = stopping.wait_for(|stopping| *stopping) => Hangup::Stopping,
        }
    }
}

/// Serves a connection until one of the two sides ends it.
pub(super) async fn serve(
    node: Arc<Node>,
    mut stream: Stream,
    stopping: watch::Receiver<bool>,
) -> Result<(), Hangup> {
    let local = stream.socket().local_addr().map_err(|source| Hangup::Socket { source })?;
    let (mut reader, mut sender) = (FrameReader::default(), SocketSender::new());
    let readers = Readers::new(node.settings.read_ahead);
    let patience = Patience {
        idle: Duration::from_millis(node.settings.max_idle_ms),
        stall: Duration::from_millis(node.settings.stall_ms),
    };
    let max_bytes = node.settings.max_request_bytes;
    loop {
        let mut stop = stopping.clone();
        let next = tokio::select! {
            next = reader.read(&mut stream, &node.budget, max_bytes, &patience) => next?,
            _ = stop.wait_for(|stopping| *stopping) => return Ok(()),
        };
        let Some(mut frame) = next else { break };
        let header = Header::parse(&frame.bytes)?;
        let peer = Peer { stream: &stream, local, stopping: stopping.clone(), readers: &readers };
        let reply = api::answer(&node, &peer, &header, &mut frame.bytes).await?;
        node.budget.recycle(frame.bytes);
        if let Some(reply) = reply {
            send(&mut stream, &mut sender, reply, patience.stall).await?;
        }
        // Held until now: a client that does not read its answers gets no more of them made.
        drop(frame.share);
    }
    // The client has gone; whether it hears of the end is all the same.
    stream.shutdown().await.ok();
    Ok(())
}

/// Sends an answer to a client that reads it: some of it has to go in the time it may stall.
async fn send(
    stream: &mut Stream,
    sender: &mut SocketSender,
    mut reply: Reply,
    stall: Duration,
) -> Result<(), Hangup> {
    loop {
        let before = reply.0.sent();
        match timeout(stall, stream.send(sender, &mut reply)).await {
            Ok(sent) => return sent.map_err(|source| Hangup::Send { source }),
            Err(_elapsed) if reply.0.sent() == before => return Err(Hangup::NotRead),
            Err(_elapsed) => {}
        }
    }
}
