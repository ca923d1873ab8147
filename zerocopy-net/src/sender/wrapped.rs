//! Sends to a stream that changes the bytes on their way, as TLS does.

use std::io::{self, IoSlice, Write};

use super::{SocketSender, note_failure};
use crate::error::SendError;
use crate::path::CopyReason;
use crate::response::{MAX_PIECES, Response, len_u64};

impl SocketSender {
    /// Sends the response through a blocking writer, such as a TLS stream, all of it, and flushes.
    /// Slices are copied through a buffer.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn send_wrapped(
        &mut self,
        stream: &mut impl Write,
        response: &mut Response,
    ) -> Result<(), SendError> {
        self.lose_zero_copy(CopyReason::Wrapped);
        response.check()?;
        let sent = self.write_wrapped(stream, response);
        sent.inspect_err(|error| note_failure(response, error))
    }

    fn write_wrapped(
        &self,
        stream: &mut impl Write,
        response: &mut Response,
    ) -> Result<(), SendError> {
        while !response.is_done() {
            response.stage()?;
            let mut pieces = [IoSlice::new(&[]); MAX_PIECES];
            let (count, _len) = response.front_bytes(&mut pieces);
            match stream.write_vectored(&pieces[..count]) {
                Ok(taken) => self.note_written(response, taken)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(SendError::socket(response.sent(), error)),
            }
        }
        stream.flush().map_err(|error| SendError::socket(response.sent(), error))
    }

    /// Notes what a wrapped stream took.
    pub(super) fn note_written(
        &self,
        response: &mut Response,
        taken: usize,
    ) -> Result<(), SendError> {
        if taken == 0 {
            let source = io::ErrorKind::WriteZero.into();
            return Err(SendError::socket(response.sent(), source));
        }
        let taken = len_u64(taken);
        let copied = response.advance(taken);
        self.count_bytes(taken, copied);
        Ok(())
    }
}
