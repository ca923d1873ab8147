//! Connections: frames in, answers out, limits on both.

mod budget;
mod connection;
mod frame;
mod readers;
mod reply;
mod server;
mod stream;
#[cfg(feature = "tls")]
mod tls;

pub(crate) use budget::Budget;
pub(crate) use connection::Peer;
pub(crate) use frame::Header;
pub(crate) use reply::{Reply, ReplyBuilder};
pub(crate) use server::Server;
#[cfg(feature = "tls")]
pub(crate) use tls::{TlsAcceptor, TlsError, tls_acceptor};

use std::io;

use kafka_protocol::messages::ApiKey;

use crate::wire::Malformed;

/// Why a connection ends before its client closes it. Other connections go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Hangup {
    #[error("a frame of {size} bytes, at most {max} are accepted")]
    FrameSize { size: i64, max: u32 },
    #[error("the rest of a frame did not come in time")]
    Stalled,
    #[error("the client asked for nothing for long")]
    Idle,
    #[error("the client does not read its answer")]
    NotRead,
    #[error("no memory became free for the rest of a frame")]
    Crowded,
    #[error("no request that is served: key {key}, version {version}")]
    NotServed { key: i16, version: i16 },
    #[error("a request that cannot be read")]
    Malformed { source: Malformed },
    #[error("a request of kind {key:?} that cannot be decoded")]
    Decode { key: ApiKey, source: anyhow::Error },
    #[error("the answer to a request of kind {key:?} cannot be encoded")]
    Encode { key: ApiKey, source: anyhow::Error },
    #[error("an append that nobody waits for failed with error {code}")]
    Unacknowledged { code: i16 },
    #[error("the socket failed")]
    Socket { source: io::Error },
    #[error("an answer cannot be sent")]
    Send { source: alluvium_zerocopy_net::SendError },
    #[error("TLS failed")]
    #[cfg(feature = "tls")]
    Tls { source: io::Error },
    #[error("the client is gone")]
    Gone,
    #[error("the broker stops")]
    Stopping,
}

impl From<Malformed> for Hangup {
    fn from(source: Malformed) -> Self {
        Self::Malformed { source }
    }
}
