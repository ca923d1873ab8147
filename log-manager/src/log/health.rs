//! Whether the disk of a log can be trusted.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::LogError;

/// The state of a log directory, shared by the logs in it: in service, or offline for a reason.
///
/// A directory that went offline stays so. Its logs refuse everything until they are opened
/// again, by a new process or with a new `DirHealth`.
///
/// Source: `LogDirFailureChannel` in Kafka.
#[derive(Clone, Debug)]
pub struct DirHealth(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    failure: OnceLock<Arc<LogError>>,
}

impl DirHealth {
    /// A log directory in service.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self(Arc::new(Inner { dir: dir.into(), failure: OnceLock::new() }))
    }

    /// The log directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.0.dir
    }

    /// Why the directory is offline; `None` in service.
    #[must_use]
    pub fn failure(&self) -> Option<&Arc<LogError>> {
        self.0.failure.get()
    }

    /// Takes the directory offline; the first reason stays.
    pub(crate) fn fail(&self, reason: &Arc<LogError>) {
        if self.0.failure.set(Arc::clone(reason)).is_ok() {
            let dir = self.0.dir.display();
            let _span = tracing::error_span!("dir_failure", %dir).entered();
            tracing::error!(
                %dir,
                error = &**reason as &dyn std::error::Error,
                "log directory goes offline"
            );
        }
    }

    /// Refuses where the directory is offline.
    pub(crate) fn check(&self) -> Result<(), LogError> {
        match self.0.failure.get() {
            None => Ok(()),
            Some(reason) => {
                Err(LogError::Offline { path: self.0.dir.clone(), source: Arc::clone(reason) })
            }
        }
    }
}
