//! The end of a log's use.

use std::sync::atomic::Ordering;

use alluvium_record_format::Offset;

use super::append::offset_after;
use super::{CLOSED, Log, LogError, Shared};

/// What a closed log left: what the checkpoints of its directory are to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Everything below is durable.
    pub recovery_point: Offset,
    /// The first offset that readers could ask for.
    pub log_start_offset: Offset,
    /// The high watermark.
    pub high_watermark: Offset,
    /// Whether the next open may do without recovery.
    pub clean: bool,
}

impl Log {
    /// Closes the log as a controlled shutdown does: the active segment's files are cut to what
    /// is in them, everything is made durable, and a snapshot of the producers is written.
    ///
    /// Readers that hold bytes go on; every other call fails from now on. Old files that still wait
    /// for their deletion stay, and go when the log is opened again. Work in the background that
    /// runs is waited for, so that the directory's lock is free once this and its clones are
    /// dropped.
    ///
    /// Source: `UnifiedLog.close` after `prepareForClose` in Kafka.
    ///
    /// # Errors
    ///
    /// `Closed`, `Offline`; a failure to write or sync. The log is closed all the same, and must
    /// be recovered when it is opened again.
    pub fn close(&self) -> Result<Closed, LogError> {
        let shared = &*self.shared;
        let sealed = {
            let mut writer = shared.writer.lock();
            shared.check_open()?;
            shared.lifecycle.store(CLOSED, Ordering::Release);
            writer.active.take().map_or(Ok(()), |active| active.seal().map(drop))
        };
        shared.settle_layout();
        shared.doomed.let_go();
        shared.in_flight.refuse_and_wait();
        shared.notifier.notify();
        // Also of a log that is closed badly nothing runs any more.
        sealed?;
        let end = shared.log_end();
        shared.flush(offset_after(end, 1), end)?;
        let mut writer = shared.writer.lock();
        let writer = &mut *writer;
        writer.producers.take_snapshot(&mut writer.snapshots, true)?;
        // A log that was stopped cleanly and has no snapshot counts as one without producers.
        shared.sync_names()?;
        Ok(Closed {
            recovery_point: Offset::new(shared.recovery_point.load(Ordering::Acquire)),
            log_start_offset: shared.log_start(),
            high_watermark: shared.high_watermark.load().offset,
            clean: !shared.needs_recovery.load(Ordering::Acquire),
        })
    }
}

impl Log {
    /// Closes the log as it is: nothing is written, cut or synced, and blocks that it has on the
    /// disk ahead of its end stay. For a log that is to be deleted: who is about to rename its
    /// files has done so when this returns.
    pub fn abandon(&self) {
        self.abandon_at_once();
        self.shared.settle_layout();
    }

    /// As [`abandon`](Self::abandon), for a log whose disk has failed. Whoever changes its segments
    /// is not waited for: it may wait for the checkpoints, which wait for locks of the caller.
    pub(crate) fn abandon_at_once(&self) {
        let shared = &*self.shared;
        shared.lifecycle.store(CLOSED, Ordering::Release);
        shared.needs_recovery.store(true, Ordering::Release);
        drop(shared.writer.lock().active.take());
        shared.doomed.let_go();
        shared.in_flight.refuse();
        shared.notifier.notify();
    }
}

impl Shared {
    /// Waits until nobody changes sealed segments; in a closed log nobody begins to.
    fn settle_layout(&self) {
        drop(self.layout.lock());
    }
}
