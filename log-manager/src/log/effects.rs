//! What a change leaves to later: collected under the log's lock, handed over after it.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::Offset;
use alluvium_segment::Segment;

use super::doomed::DoomedFiles;
use super::{LogError, Shared};
use crate::Task;

/// Work that must not run under the log's lock.
#[derive(Debug, Default)]
pub(super) struct Effects(Vec<Effect>);

#[derive(Debug)]
enum Effect {
    /// Make everything below the offset durable.
    FlushTo(Offset),
    /// Write the epochs of the leaders.
    WriteEpochs,
    /// Remove files that have been renamed.
    Delete { delay_ms: u64, segments: Vec<Arc<Segment>>, snapshots: Vec<PathBuf> },
}

impl Effects {
    /// A roll is over: everything below the new segment is to be made durable.
    pub(super) fn flush_to(&mut self, offset: Offset) {
        self.0.push(Effect::FlushTo(offset));
    }

    /// Epochs have changed.
    pub(super) fn write_epochs(&mut self) {
        if !self.0.iter().any(|effect| matches!(effect, Effect::WriteEpochs)) {
            self.0.push(Effect::WriteEpochs);
        }
    }

    /// Files with the suffix `.deleted` are to go, with the others that this change leaves.
    pub(super) fn delete(
        &mut self,
        delay_ms: u64,
        segments: Vec<Arc<Segment>>,
        snapshots: Vec<PathBuf>,
    ) {
        if segments.is_empty() && snapshots.is_empty() {
            return;
        }
        let mut waiting = self.0.iter_mut();
        let same = waiting.find_map(|effect| match effect {
            Effect::Delete { delay_ms: other, segments, snapshots } if *other == delay_ms => {
                Some((segments, snapshots))
            }
            _ => None,
        });
        match same {
            Some((others, other_snapshots)) => {
                others.extend(segments);
                other_snapshots.extend(snapshots);
            }
            None => self.0.push(Effect::Delete { delay_ms, segments, snapshots }),
        }
    }

    /// Hands the work over. The log's lock must be free: the work may run at once.
    pub(super) fn run(self, shared: &Arc<Shared>) {
        for effect in self.0 {
            effect.run(shared);
        }
    }
}

impl Effect {
    fn run(self, shared: &Arc<Shared>) {
        let (delay_ms, task) = match self {
            Self::FlushTo(offset) => {
                let work = move |shared: &Shared| report(shared, shared.flush_to(offset));
                (0, task_of(shared, "flush a rolled segment", work))
            }
            Self::WriteEpochs => {
                let work = |shared: &Shared| report(shared, shared.write_epochs());
                (0, task_of(shared, "write leader epochs", work))
            }
            Self::Delete { delay_ms, segments, snapshots } => {
                let files = Arc::new(DoomedFiles::new(segments, snapshots));
                shared.doomed.keep(&files);
                let files = Arc::downgrade(&files);
                let work = move |shared: &Shared| {
                    if let Some(files) = files.upgrade() {
                        files.delete(shared.name(), &shared.health, shared.dir.io());
                        shared.doomed.forget(&files);
                    }
                };
                (delay_ms, task_of(shared, "delete old files", work))
            }
        };
        shared.background.after(delay_ms, task);
    }
}

/// Work for a log that is still there and open when its turn comes.
fn task_of(
    shared: &Arc<Shared>,
    name: &'static str,
    work: impl FnOnce(&Shared) + Send + 'static,
) -> Task {
    let (log, in_flight) = (Arc::downgrade(shared), Arc::clone(&shared.in_flight));
    Task::new(name, move || {
        // Ends after the log is let go of: a close waits for it.
        let Some(_running) = in_flight.begin() else { return };
        if let Some(shared) = log.upgrade() {
            work(&shared);
        }
    })
}

/// A failure in the background: its cause has been dealt with where it arose.
fn report(shared: &Shared, result: Result<(), LogError>) {
    if let Err(error) = result {
        let error: &dyn std::error::Error = &error;
        tracing::warn!(log = shared.name(), error, "background work failed");
    }
}
