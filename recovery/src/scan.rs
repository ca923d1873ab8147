//! Walks the batches of a log file: one thread in order, or many ahead of it.

mod candidates;
mod chunks;
mod found;
mod source;
mod stitch;
mod walk;
mod window;

pub use found::{FoundBatch, FoundEntry};
pub(crate) use source::LogFile;
pub(crate) use stitch::{ScanEnd, scan};
pub(crate) use walk::{Step, Walk};

/// How a log file is scanned: many threads pay off in a large one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanConfig {
    /// Threads that look for batches ahead of the one that takes them in order. 1 scans in order
    /// alone. Default 1.
    pub threads: usize,
    /// Bytes that a thread takes at a time, default 8 MiB. A file of one chunk is scanned in
    /// order.
    pub chunk_bytes: u32,
}

impl ScanConfig {
    /// One thread.
    #[must_use]
    pub const fn new() -> Self {
        Self { threads: 1, chunk_bytes: 8 << 20 }
    }

    /// Sets the number of threads, at least 1.
    #[must_use]
    pub const fn threads(self, threads: usize) -> Self {
        Self { threads: if threads == 0 { 1 } else { threads }, ..self }
    }

    /// Sets the bytes that a thread takes at a time, at least 1.
    #[must_use]
    pub const fn chunk_bytes(self, bytes: u32) -> Self {
        Self { chunk_bytes: if bytes == 0 { 1 } else { bytes }, ..self }
    }
}

impl Default for ScanConfig {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
