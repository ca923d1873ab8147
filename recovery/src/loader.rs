//! Brings a partition directory into order: `docs/recovery.md`.

mod change;
mod config;
mod directory;
mod engine;
mod error;
mod leftovers;
mod make;
mod overlap;
mod plan;
mod progress;
mod recover;
mod report;
mod snapshots;
mod split;
mod tail;

pub use change::{Change, Reason, Step};
pub use config::LoadConfig;
pub use error::LoadError;
pub use plan::{LoadPlan, LoadedLog, load, plan};
pub use progress::Progress;
pub use report::{LoadReport, RecoveredSegment, Warning};

use engine::Loader;
