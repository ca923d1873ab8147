//! Where the recovery point and the start of a log are kept for its next open.

use std::fmt;

use alluvium_record_format::Offset;
use alluvium_recovery::FileError;

/// Keeps the recovery point of one log for its next open, and its start if it likes:
/// [`LogManager`](crate::LogManager) does so in the checkpoints of its log directory, and
/// [`CheckpointKeeper`](crate::CheckpointKeeper) for a log without one.
///
/// A log asks it before it cuts anything off. At its open it asks once more, where recovery has
/// ended below the recovery point that it was given: the files are cut by then, which recovery does
/// of itself, and nothing is appended before the answer.
///
/// A cut can damage more than it removes: a file system clears the rest of the block behind the new
/// end before the new length is durable. After a power failure in between, the file has its old
/// length and zeros inside, below a recovery point that was right before. A start walks from the
/// recovery point on and finds them only if that was lowered first.
pub trait OffsetKeeper: fmt::Debug + Send + Sync {
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

    /// Makes durable that the log starts at `offset`, for its next open to be told so by
    /// [`LogOptions::log_start_offset`](crate::LogOptions::log_start_offset). Says whether it did;
    /// `false` changes nothing.
    ///
    /// Retention asks before it drops many segments: what lies below a log start that is kept may
    /// come back in a power failure in any part, as nobody reads it, so one sync of the directory
    /// does for all. Else each loss is made durable before the next. Once it is kept, the log start
    /// may be forgotten only where [`Log::segments`](crate::Log::segments) begins there.
    ///
    /// Called without the log's writer lock. One that is asked while the log is closed comes after
    /// a [`Log::close`](crate::Log::close) or [`Log::abandon`](crate::Log::abandon) has begun, and
    /// before it returns; where the log's disk has failed, also later.
    ///
    /// # Errors
    ///
    /// Where it cannot be written: the log directory goes offline, and nothing is dropped.
    fn keep_log_start(&self, offset: Offset) -> Result<bool, FileError> {
        let _ = offset;
        Ok(false)
    }

    /// Makes durable that the log may start at `offset`, because a truncation is about to move its
    /// start down to there. Nothing is to be done where nothing is kept or what is kept does not
    /// lie above `offset`; to be implemented by all who keep a log start. An open that is told of a
    /// start above the log's end drops the whole log, and with it what was appended after the
    /// truncation.
    ///
    /// Called as [`lower`](Self::lower). Until the truncation is over,
    /// [`Log::log_start_offset`](crate::Log::log_start_offset) still gives the start above: it must
    /// not be kept again.
    ///
    /// # Errors
    ///
    /// Where it cannot be written: the log directory goes offline, and nothing is cut.
    fn lower_log_start(&self, offset: Offset) -> Result<(), FileError> {
        let _ = offset;
        Ok(())
    }
}
