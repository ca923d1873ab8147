//! Ids for idempotent producers: none is ever given twice.

use std::path::{Path, PathBuf};

use alluvium_log_manager::Clock;
use alluvium_recovery::{Properties, replace_file};
use alluvium_segment::Io;
use parking_lot::Mutex;

use super::StoreError;
use super::topic_settings::read_properties;

/// Gives ids out of blocks; the next block is on disk before an id of this one is given.
#[derive(Debug)]
pub(crate) struct ProducerIds {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    next: i64,
    block_end: i64,
}

impl ProducerIds {
    /// Goes on where the last start stopped. Where nothing is known the time decides, so that the
    /// ids lie above those of another broker that had used the directory.
    pub(crate) fn open(data_dir: &Path, clock: &dyn Clock) -> Result<Self, StoreError> {
        let path = data_dir.join(FILE_NAME);
        let known = read_properties(&path)?;
        let next = known.value(KEY).and_then(|text| text.parse().ok());
        let next = next.unwrap_or_else(|| clock.now().get().max(0));
        Ok(Self { path, state: Mutex::new(State { next, block_end: next }) })
    }

    /// The next id.
    pub(crate) fn allocate(&self) -> Result<i64, StoreError> {
        let mut state = self.state.lock();
        if state.next >= state.block_end {
            let end = state.next.saturating_add(BLOCK);
            let mut properties = Properties::new();
            properties.set(KEY, end.to_string());
            replace_file(&Io::new(), &self.path, properties.to_text().as_bytes())
                .map_err(|source| StoreError::Write { source })?;
            state.block_end = end;
        }
        let id = state.next;
        state.next = id.saturating_add(1);
        Ok(id)
    }
}

const FILE_NAME: &str = "alluvium-producer-ids.properties";
const KEY: &str = "next";
const BLOCK: i64 = 1000;

#[cfg(test)]
mod tests {
    use alluvium_log_manager::ManualClock;
    use alluvium_record_format::Timestamp;

    use super::*;

    #[test]
    fn an_id_is_not_given_again_after_a_kill() {
        let disk = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(Timestamp::new(5_000));
        let first = ProducerIds::open(disk.path(), &clock).unwrap();
        assert_eq!((first.allocate().unwrap(), first.allocate().unwrap()), (5_000, 5_001));
        drop(first);
        clock.set(Timestamp::new(0));
        let second = ProducerIds::open(disk.path(), &clock).unwrap();
        assert_eq!(second.allocate().unwrap(), 6_000);
    }
}
