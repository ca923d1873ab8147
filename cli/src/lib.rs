#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod app;
mod console;
mod dump;
mod error;
mod inflate;
mod log_file;
mod resync;
mod text;
mod walk;

pub use app::{command, run};
