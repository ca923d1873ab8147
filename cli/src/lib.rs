#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod app;
mod checkpoints;
mod cleaning_range;
mod compact;
mod console;
mod data_dir;
mod doctor;
mod dump;
mod each;
mod epochs;
mod error;
mod inflate;
mod log_end;
mod log_file;
mod lookup;
mod parallel;
mod partition;
mod preview;
mod producer_state;
mod producers;
mod progress;
mod readable;
mod recover;
mod reindex;
mod residency;
mod resync;
mod retain;
mod salvage;
mod settings;
mod shell;
mod stat;
mod text;
mod topic_settings;
mod truncate;
mod verify;
mod walk;

pub use app::{command, run};
pub use verify::{VerifySummary, verify};
