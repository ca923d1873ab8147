//! Why a file of the broker's own failed.

use std::io;
use std::path::PathBuf;

use alluvium_recovery::{Damage, FileError};

/// Why a file of the broker's own failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is damaged", path.display())]
    Damaged { path: PathBuf, source: Damage },
    #[error(transparent)]
    Write { source: FileError },
}
