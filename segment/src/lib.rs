#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod active;
mod config;
mod descriptors;
mod dir_lock;
mod error;
mod exact;
mod headers;
mod index_slot;
mod io;
#[cfg(alluvium_mutant)]
pub mod mutant;
mod names;
pub mod page_cache;
mod partition_dir;
mod pool;
mod published;
mod recover;
pub mod replace;
mod segment;
mod shared_file;
mod slice;
pub mod socket_options;
#[expect(unsafe_code, reason = "system calls that rustix lacks, all in one place")]
mod sys;
mod walk;

pub use active::{ActiveSegment, Birth, RollInput, RollReason};
pub use config::SegmentConfig;
pub use dir_lock::{DirLock, LOCK_FILE, LockError};
pub use error::{IoOp, SegmentError};
pub use headers::BatchAt;
pub use io::{Io, IoCall, IoHook, IoVerdict};
pub use names::{FileKind, PartitionDirName, PartitionDirState, SegmentFileName, Suffix};
pub use partition_dir::PartitionDir;
pub use pool::FilePool;
pub use recover::{Scan, ScanStop};
pub use segment::{FoundRecord, OffsetIndexView, Segment, Tail, TimeIndexView};
pub use slice::SegmentSlice;
pub use walk::BatchWalker;
