//! What a connection reads in order is asked for ahead of it.

use std::collections::HashMap;

use alluvium_record_format::Uuid;
use alluvium_segment::SegmentSlice;
use alluvium_zerocopy_net::{FileSlice, ReadAhead};
use parking_lot::Mutex;

use crate::settings::ReadAheadMode;

/// Logs that are kept in mind for one connection; beyond that all are forgotten.
const MAX_LOGS: usize = 1000;

/// The logs that a connection reads.
#[derive(Debug)]
pub(crate) struct Readers {
    mode: ReadAheadMode,
    by_log: Mutex<HashMap<(Uuid, i32), ReadAhead>>,
}

impl Readers {
    pub(super) fn new(mode: ReadAheadMode) -> Self {
        Self { mode, by_log: Mutex::default() }
    }

    /// Notes that a slice of this partition is about to be sent.
    pub(crate) fn note(&self, topic: Uuid, partition: i32, slice: &SegmentSlice) {
        if self.mode == ReadAheadMode::None || slice.is_empty() {
            return;
        }
        let mut by_log = self.by_log.lock();
        if by_log.len() >= MAX_LOGS && !by_log.contains_key(&(topic, partition)) {
            by_log.clear();
        }
        let reader = by_log.entry((topic, partition)).or_insert_with(|| match self.mode {
            ReadAheadMode::DropBehind => ReadAhead::new().dropping_behind(),
            _ => ReadAhead::new(),
        });
        reader.note(&FileSlice::from(slice));
    }
}
