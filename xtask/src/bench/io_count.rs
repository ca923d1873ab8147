//! Counts system calls: where a bar is a number of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use alluvium_segment::{Io, IoCall, IoHook, IoVerdict};

/// Counts the reads and syncs of files.
#[derive(Debug, Default)]
pub(super) struct IoCount {
    reads: AtomicU64,
    syncs: AtomicU64,
}

impl IoCount {
    /// A way to the files that counts.
    pub(super) fn watched() -> (Arc<Self>, Io) {
        let count = Arc::<Self>::default();
        let hook: Arc<dyn IoHook> = count.clone();
        (count, Io::with_hook(hook))
    }

    /// Reads so far.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// Syncs of files so far, directories left out.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl IoHook for IoCount {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        let counted = match call {
            IoCall::Read { .. } => &self.reads,
            IoCall::Sync { .. } => &self.syncs,
            _ => return IoVerdict::Proceed,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        IoVerdict::Proceed
    }
}
