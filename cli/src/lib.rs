#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod app;
mod console;
mod dump;
mod error;
mod inflate;
mod log_end;
mod log_file;
mod lookup;
mod parallel;
mod partition;
mod preview;
mod progress;
mod readable;
mod resync;
mod shell;
mod stat;
mod text;
mod verify;
mod walk;

pub use app::{command, run};
pub use verify::{VerifySummary, verify};
