#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod append;
mod background;
mod checkpoint_keeper;
mod clock;
mod config;
mod error_code;
mod gate;
mod keeper;
mod log;
mod manager;
pub mod metrics;
mod notify;
mod retention;
#[cfg(all(test, shuttle))]
mod schedules;
mod sync;

pub use append::{
    AppendOrigin, InvalidBatch, InvalidRecord, LeaderAppend, Prepared, RecordError, ValidationError,
};
pub use background::{Background, Inline, Scheduler, Task, TaskQueue};
pub use checkpoint_keeper::CheckpointKeeper;
pub use clock::{Clock, ManualClock, SystemClock};
pub use config::{
    BrokerConfig, BrokerConfigBuilder, CleanupPolicy, CompressionType, ConfigError, Expected,
    LogConfig, LogConfigBuilder, UnknownKey,
};
pub use error_code::ErrorCode;
pub use gate::{CleaningGate, NoCleaner};
pub use keeper::OffsetKeeper;
pub use log::{
    AbortedTransaction, AppendError, Appended, CleaningView, Closed, DirHealth, Durability,
    Fetched, FoundOffset, Isolation, LeaderRequest, Log, LogError, LogOptions, LogPosition,
    OffsetQuery, Place,
};
pub use manager::{
    BrokerIdentity, DirReport, DirStop, LogManager, ManagerError, ManagerOptions, NewLog,
    ScrubDamage, ScrubDamageKind, ScrubTick, Scrubber, StartProgress, StartReport, StopReport,
};
pub use notify::{Changed, LogVersion};
pub use retention::{
    RetentionFinding, RetentionPlan, RetentionRule, RetentionState, RetentionVerdict, SegmentFate,
};

/// The example in the README of the repository.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct RootReadme;
