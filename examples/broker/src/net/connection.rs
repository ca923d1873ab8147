//! One connection: requests are answered one after the other, in their order.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use alluvium_zerocopy_net::SocketSender;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use super::frame::{Header, read_frame};
use super::stream::Stream;
use super::{Hangup, budget};
use crate::api;
use crate::broker::Node;

/// Whom a request came from.
#[derive(Debug)]
pub(crate) struct Peer<'a> {
    pub(crate) stream: &'a Stream,
    /// The address that the client came to.
    pub(crate) local: SocketAddr,
    pub(crate) stopping: watch::Receiver<bool>,
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
    let mut sender = SocketSender::new();
    let stall = Duration::from_millis(node.settings.stall_ms);
    let max_bytes = node.settings.max_request_bytes;
    loop {
        let mut stop = stopping.clone();
        let next = tokio::select! {
            next = read_frame(&mut stream, &node.budget, max_bytes, stall) => next?,
            _ = stop.wait_for(|stopping| *stopping) => return Ok(()),
        };
        let Some(mut frame) = next else { break };
        let header = Header::parse(&frame.bytes)?;
        let peer = Peer { stream: &stream, local, stopping: stopping.clone() };
        let reply = api::answer(&node, &peer, &header, &mut frame.bytes).await?;
        if frame.bytes.capacity() > budget::SMALL {
            node.budget.recycle(frame.bytes);
        }
        drop(frame.share);
        if let Some(reply) = reply {
            let sent = stream.send(&mut sender, reply).await;
            sent.map_err(|source| Hangup::Send { source })?;
        }
    }
    // The client has gone; whether it hears of the end is all the same.
    stream.shutdown().await.ok();
    Ok(())
}
