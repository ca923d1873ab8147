//! Files that have been renamed and go after a delay. A log that is closed before lets go of them:
//! the next open finds them by their names, and nothing of them keeps the directory's lock.

use std::path::PathBuf;
use std::sync::Arc;

use alluvium_segment::{Io, Segment};

use super::segments::bytes_of;
use super::{DirHealth, LogError};
use crate::sync::Mutex;

/// The files that wait.
#[derive(Debug, Default)]
pub(crate) struct Doomed(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    files: Vec<Arc<DoomedFiles>>,
    is_closed: bool,
}

/// What goes together.
#[derive(Debug)]
pub(super) struct DoomedFiles {
    segments: Vec<Arc<Segment>>,
    snapshots: Vec<PathBuf>,
}

impl Doomed {
    /// Keeps files until they go, unless the log was closed beside the change that left them.
    pub(super) fn keep(&self, files: &Arc<DoomedFiles>) {
        let mut waiting = self.0.lock();
        if !waiting.is_closed {
            waiting.files.push(Arc::clone(files));
        }
    }

    /// They are gone.
    pub(super) fn forget(&self, files: &Arc<DoomedFiles>) {
        self.0.lock().files.retain(|kept| !Arc::ptr_eq(kept, files));
    }

    /// Leaves all of them where they are, and those that come later.
    pub(super) fn let_go(&self) {
        *self.0.lock() = Waiting { files: Vec::new(), is_closed: true };
    }
}

impl DoomedFiles {
    pub(super) const fn new(segments: Vec<Arc<Segment>>, snapshots: Vec<PathBuf>) -> Self {
        Self { segments, snapshots }
    }

    pub(super) fn delete(&self, log: &str, health: &DirHealth, io: &Io) {
        if health.failure().is_some() {
            return;
        }
        let (segments, bytes) = (self.segments.len(), bytes_of(&self.segments));
        let _span = tracing::info_span!("delete_files", log, segments, bytes).entered();
        for segment in &self.segments {
            if let Err(source) = segment.delete_files() {
                health.fail(&Arc::new(LogError::Segment { source }));
            }
        }
        for path in &self.snapshots {
            if let Err(error) = io.remove(path) {
                tracing::debug!(path = %path.display(), %error, "an old snapshot stays");
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn files_that_come_after_the_close_are_not_kept() {
        let doomed = Doomed::default();
        let files = Arc::new(DoomedFiles::new(Vec::new(), Vec::new()));
        doomed.keep(&files);
        assert_eq!(Arc::strong_count(&files), 2);
        doomed.let_go();
        doomed.keep(&files);
        assert_eq!(Arc::strong_count(&files), 1);
    }
}
