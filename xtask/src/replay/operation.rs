//! What a line asks for.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An operation with its arguments.
#[derive(Debug, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub(super) enum Operation {
    Append {
        origin: Origin,
        leader_epoch: i32,
        batches: String,
        /// Of a coordinator's markers; the first version where it is not told.
        transaction_version: Option<i16>,
    },
    Read {
        offset: i64,
        max_bytes: u32,
        isolation: Isolation,
        min_one_message: bool,
    },
    OffsetForTimestamp {
        timestamp: i64,
    },
    UpdateHighWatermark {
        offset: i64,
    },
    IncrementHighWatermark {
        offset: i64,
    },
    Roll,
    Flush {
        #[serde(default)]
        inclusive: bool,
    },
    TruncateTo {
        offset: i64,
    },
    TruncateFullyAndStartAt {
        offset: i64,
        log_start_offset: Option<i64>,
    },
    IncrementLogStartOffset {
        offset: i64,
    },
    DeleteOldSegments,
    EndOffsetForEpoch {
        leader_epoch: i32,
    },
    AssignEpoch {
        leader_epoch: i32,
        offset: i64,
    },
    /// What the log remembers of each producer.
    Producers,
    RemoveExpiredProducers,
    SetConfig {
        config: BTreeMap<String, String>,
    },
    CloseAndReopenClean,
    StopAndStart(Stop),
    Close,
}

/// The end of a process, what happens to its files, and the start of the next.
#[derive(Debug, Deserialize)]
pub(super) struct Stop {
    /// Whether the log is closed before.
    pub(super) clean: bool,
    /// The folder with what Kafka left at a clean stop, beside the trace.
    pub(super) left: Option<String>,
    /// As the checkpoint would say to the start.
    pub(super) recovery_point: i64,
    /// As the checkpoint would say to the start.
    pub(super) log_start_offset: i64,
    /// The folder, beside the trace, with the files that the next start finds, where they are not
    /// those that the stop left.
    pub(super) found: Option<String>,
}

/// Who appends.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Origin {
    Client,
    Coordinator,
    Replication,
    Raft,
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
            Self::Flush { .. } => "flush",
            Self::IncrementHighWatermark { .. } => "increment_high_watermark",
            Self::TruncateFullyAndStartAt { .. } => "truncate_fully_and_start_at",
            Self::AssignEpoch { .. } => "assign_epoch",
            Self::Producers => "producers",
            Self::RemoveExpiredProducers => "remove_expired_producers",
            Self::SetConfig { .. } => "set_config",
            Self::StopAndStart(_) => "stop_and_start",
            Self::TruncateTo { .. } => "truncate_to",
            Self::IncrementLogStartOffset { .. } => "increment_log_start_offset",
            Self::DeleteOldSegments => "delete_old_segments",
            Self::EndOffsetForEpoch { .. } => "end_offset_for_epoch",
            Self::CloseAndReopenClean => "close_and_reopen_clean",
            Self::Close => "close",
        }
    }
}
