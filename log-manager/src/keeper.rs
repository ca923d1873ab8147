//! Where the recovery point of a log is kept for its next open.

use std::fmt;

use alluvium_record_format::Offset;
use alluvium_recovery::FileError;

/// Keeps the recovery point of one log for its next open: [`LogManager`](crate::LogManager) does
/// so in the checkpoint of its log directory.
///
/// A log asks it before it cuts anything off. At its open it asks once more, where recovery has
/// ended below the recovery point that it was given: the files are cut by then, which recovery does
/// of itself, and nothing is appended before the answer.
///
/// A cut can damage more than it removes: a file system clears the rest of the block behind the new
/// end before the new length is durable. After a power failure in between, the file has its old
/// length and zeros inside, below a recovery point that was right before. A start walks from the
/// recovery point on and finds them only if that was lowered first.
pub trait RecoveryPointKeeper: fmt::Debug + Send + Sync {
    /// Makes durable that everything from `offset` on must be recovered. Nothing is to be done
    /// where what is kept does not lie above `offset`.
    ///
    /// Called without the log's writer lock, flushes of the log kept off, or before there is a log.
    /// What is kept may be raised again only to what
    /// [`Log::recovery_point`](crate::Log::recovery_point) says later.
    ///
    /// # Errors
    ///
    /// Where it cannot be written: the log directory goes offline, and nothing is cut or, at an
    /// open, nothing is opened.
    fn lower(&self, offset: Offset) -> Result<(), FileError>;
}
