#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![expect(dead_code, reason = "commands to come use the rest")]

mod app;
mod console;
mod dump;
mod error;
mod inflate;
mod log_end;
mod log_file;
mod lookup;
mod partition;
mod preview;
mod readable;
mod resync;
mod text;
mod walk;

pub use app::{command, run};
