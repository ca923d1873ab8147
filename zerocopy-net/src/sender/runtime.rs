//! Sends from tokio: waits for readiness, takes turns, holds no thread.

use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;

use tokio::io::{AsyncWrite, Interest};
use tokio::net::{TcpStream, UnixStream};
use tokio::task;

use super::step::is_cold;
use super::{Limits, SocketSender, Turn, note_failure};
use crate::error::SendError;
use crate::metrics;
use crate::path::CopyReason;
use crate::response::{MAX_PIECES, Response};

/// A socket that tokio watches: [`TcpStream`] or [`UnixStream`]. Of a split stream, take `as_ref()`
/// of the writing half.
pub trait TokioSocket: AsFd + Sync {
    /// Waits until the socket may take bytes.
    fn writable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Makes a call that may find the socket full after all.
    ///
    /// # Errors
    ///
    /// That of the call; `WouldBlock` also without a call.
    fn try_write_io<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T>;
}

macro_rules! tokio_socket {
    ($($socket:ty),+) => {$(
        impl TokioSocket for $socket {
            fn writable(&self) -> impl Future<Output = io::Result<()>> + Send {
                <$socket>::writable(self)
            }

            fn try_write_io<T>(&self, call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
                self.try_io(Interest::WRITABLE, call)
            }
        }
    )+};
}

tokio_socket!(TcpStream, UnixStream);

impl SocketSender {
    /// Sends the response to a socket of tokio, all of it.
    ///
    /// May be dropped at any time: sending the same response again goes on where this stopped.
    /// After each turn ([`Self::turn_bytes`]) other tasks run.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub async fn send_async<S: TokioSocket>(
        &mut self,
        socket: &S,
        response: &mut Response,
    ) -> Result<(), SendError> {
        response.check()?;
        loop {
            let ready = socket.writable().await;
            ready.map_err(|error| SendError::socket(response.sent(), error))?;
            let limits = Limits { budget: self.turn_bytes, never_wait: true };
            let tried = socket.try_write_io(|| match self.turn(socket.as_fd(), response, limits) {
                Ok(Turn::Blocked) => Err(io::ErrorKind::WouldBlock.into()),
                turn => Ok(turn),
            });
            match tried {
                Ok(Ok(Turn::Done)) => return Ok(()),
                Ok(Ok(Turn::Cold)) => warm(response).await,
                Ok(Ok(Turn::Used | Turn::Blocked)) => task::yield_now().await,
                Ok(Err(error)) => return Err(error),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(SendError::socket(response.sent(), error)),
            }
        }
    }

    /// Sends the response through a wrapped stream, such as one of `tokio-rustls`, all of it, and
    /// flushes. Slices are copied through a buffer.
    ///
    /// May be dropped at any time, as [`Self::send_async`].
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub async fn send_wrapped_async<W: AsyncWrite + Unpin>(
        &mut self,
        stream: &mut W,
        response: &mut Response,
    ) -> Result<(), SendError> {
        self.lose_zero_copy(CopyReason::Wrapped);
        response.check()?;
        let mut turn_start = response.sent();
        while !response.is_done() {
            let written = self.write_wrapped_async(stream, response).await;
            written.inspect_err(|error| note_failure(response, error))?;
            if response.sent() - turn_start >= self.turn_bytes {
                turn_start = response.sent();
                task::yield_now().await;
            }
        }
        let flushed = poll_fn(|context| Pin::new(&mut *stream).poll_flush(context)).await;
        flushed.map_err(|error| SendError::socket(response.sent(), error))
    }

    async fn write_wrapped_async<W: AsyncWrite + Unpin>(
        &self,
        stream: &mut W,
        response: &mut Response,
    ) -> Result<(), SendError> {
        if is_cold(response) {
            warm(response).await;
        }
        response.stage()?;
        let written = poll_fn(|context| {
            let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
            let (count, _len) = response.front_bytes(&mut pieces);
            Pin::new(&mut *stream).poll_write_vectored(context, &pieces[..count])
        });
        match written.await {
            Ok(taken) => self.note_written(response, taken),
            Err(error) => Err(SendError::socket(response.sent(), error)),
        }
    }
}

/// Has another thread read the next slice's pages into memory, a window of them.
///
/// That thread touches nothing but the file: nothing is lost when this future is dropped.
async fn warm(response: &mut Response) {
    let Some(window) = response.unseen_window() else { return };
    metrics::read_cold();
    let end = window.end();
    // A runtime that shuts down refuses; the send then waits for the disk itself.
    let _warmed = task::spawn_blocking(move || window.warm()).await;
    response.note_resident(end);
}
