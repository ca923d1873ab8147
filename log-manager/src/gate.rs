//! Where a cleaner is kept off a log that is about to be cut or removed.

use std::fmt;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_recovery::TopicPartition;

/// Keeps a cleaner off a log: called before a log is truncated, deleted or moved, and after.
///
/// A cleaner implements it; without one, [`NoCleaner`] stands there. Calls may wait until a
/// cleaning that is under way has stopped, and are made without any lock of the log. What such a
/// step does to the cleaner's checkpoint the log manager writes itself, cleaner or not.
///
/// Source: `LogCleaner.abortAndPauseCleaning` and its neighbours in Kafka.
pub trait CleaningGate: fmt::Debug + Send + Sync {
    /// No cleaning of the log begins until [`resume`](Self::resume).
    fn pause(&self, partition: &TopicPartition);

    /// As [`pause`](Self::pause), and one that is under way stops first.
    fn abort_and_pause(&self, partition: &TopicPartition);

    /// Cleaning may begin again. Undoes one of the two.
    fn resume(&self, partition: &TopicPartition);

    /// What the cleaner's checkpoint said of a log is bounded anew: by `to`, or there is no such
    /// log any more, where that is `None`. The file says so already.
    ///
    /// Source: `LogCleaner.maybeTruncateCheckpoint` in Kafka, which writes it.
    fn checkpoint_moved(&self, partition: &TopicPartition, to: Option<Offset>) {
        let _ = (partition, to); // most cleaners ask for it when they clean
    }

    /// Whether the cleaner also drops old segments of compacted logs, between cleanings. Where
    /// nobody does, the logs' own ticks do.
    fn runs_retention(&self) -> bool {
        false
    }
}

/// Nobody cleans.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct NoCleaner;

impl CleaningGate for NoCleaner {
    fn pause(&self, _partition: &TopicPartition) {}

    fn abort_and_pause(&self, _partition: &TopicPartition) {}

    fn resume(&self, _partition: &TopicPartition) {}
}

/// Keeps the cleaner off while it lives.
#[must_use]
pub(crate) struct Kept<'a> {
    gate: &'a dyn CleaningGate,
    partition: &'a TopicPartition,
}

impl<'a> Kept<'a> {
    /// Stops a cleaning that is under way, and lets none begin.
    pub(crate) fn off(gate: &'a dyn CleaningGate, partition: &'a TopicPartition) -> Self {
        gate.abort_and_pause(partition);
        Self { gate, partition }
    }

    /// Tells up to where what was clean still is.
    pub(crate) fn moved(&self, to: Option<Offset>) {
        self.gate.checkpoint_moved(self.partition, to);
    }
}

impl Drop for Kept<'_> {
    fn drop(&mut self) {
        self.gate.resume(self.partition);
    }
}

/// Keeps the cleaner off a log of which a copy is made on another disk, while it lives.
///
/// The copy takes the cleaner's checkpoint along: what is cleaned in the log alone would count as
/// clean in the copy, and records whose tombstones go with the next cleaning would come back.
///
/// Source: `ReplicaManager.alterReplicaLogDirs` in Kafka.
#[derive(Debug)]
#[must_use]
pub(crate) struct KeptOff {
    gate: Arc<dyn CleaningGate>,
    partition: TopicPartition,
}

impl KeptOff {
    /// Stops a cleaning that is under way, and lets none begin.
    pub(crate) fn new(gate: &Arc<dyn CleaningGate>, partition: &TopicPartition) -> Self {
        gate.abort_and_pause(partition);
        Self { gate: Arc::clone(gate), partition: partition.clone() }
    }
}

impl Drop for KeptOff {
    fn drop(&mut self) {
        self.gate.resume(&self.partition);
    }
}
