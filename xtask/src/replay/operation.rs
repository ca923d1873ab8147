//! What a line asks for.

use serde::Deserialize;

/// An operation with its arguments.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Operation {
    Append { origin: Origin, leader_epoch: i32, batches: String },
    Read { offset: i64, max_bytes: u32, isolation: Isolation, min_one_message: bool },
    OffsetForTimestamp { timestamp: i64 },
    UpdateHighWatermark { offset: i64 },
    Roll,
    Flush,
    TruncateTo { offset: i64 },
    IncrementLogStartOffset { offset: i64 },
    DeleteOldSegments,
    EndOffsetForEpoch { leader_epoch: i32 },
    CloseAndReopenClean,
    Close,
}

/// Who appends.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    Client,
    Coordinator,
    Replication,
}

/// How far a read sees.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Isolation {
    LogEnd,
    HighWatermark,
    TxnCommitted,
}

impl Operation {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Append { .. } => "append",
            Self::Read { .. } => "read",
            Self::OffsetForTimestamp { .. } => "offset_for_timestamp",
            Self::UpdateHighWatermark { .. } => "update_high_watermark",
            Self::Roll => "roll",
            Self::Flush => "flush",
            Self::TruncateTo { .. } => "truncate_to",
            Self::IncrementLogStartOffset { .. } => "increment_log_start_offset",
            Self::DeleteOldSegments => "delete_old_segments",
            Self::EndOffsetForEpoch { .. } => "end_offset_for_epoch",
            Self::CloseAndReopenClean => "close_and_reopen_clean",
            Self::Close => "close",
        }
    }
}
