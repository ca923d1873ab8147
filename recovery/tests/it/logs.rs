//! Logs to be loaded: the logs of the field reports and of Kafka's own runs.

use std::ops::ControlFlow;
use std::path::Path;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::{LoadConfig, LoadedLog, load, plan};
use alluvium_segment::{ActiveSegment, Birth, SegmentConfig};

use crate::directory::Disk;

/// One batch of 70 bytes at offset 0, one record, no producer.
pub(crate) const HEX_A: &str = "00000000000000000000003a0000000002716a618900000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff0000000110000000026b027600";

/// Three batches of 118 bytes: offsets 0-2, 3-5, 6-8, leader epochs 0, 0, 1.
pub(crate) const HEX_L3: [&str; 3] = [
    "00000000000000000000006a000000000206742cbf00000000000200000000000003e800000000000003eaffffffffffffffffffffffffffff0000000324000000046b3014767676767676767676760024000202046b3114767676767676767676760024000404046b32147676767676767676767600",
    "00000000000000030000006a0000000002359cfb7500000000000200000000000003eb00000000000003edffffffffffffffffffffffffffff0000000324000000046b3314767676767676767676760024000202046b3414767676767676767676760024000404046b35147676767676767676767600",
    "00000000000000060000006a0000000102cb8a8a8d00000000000200000000000003ee00000000000003f0ffffffffffffffffffffffffffff0000000324000000046b3614767676767676767676760024000202046b3714767676767676767676760024000404046b38147676767676767676767600",
];

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// A batch of `HEX_L3` by its number.
pub(crate) fn l3(number: usize) -> Vec<u8> {
    bytes(HEX_L3[number])
}

/// All of `HEX_L3`: 354 bytes, offsets 0 to 8.
pub(crate) fn all_l3() -> Vec<u8> {
    HEX_L3.iter().flat_map(|hex| bytes(hex)).collect()
}

/// A batch under another base offset, which its checksum does not cover.
pub(crate) fn at_offset(mut batch: Vec<u8>, base_offset: i64) -> Vec<u8> {
    batch[..8].copy_from_slice(&base_offset.to_be_bytes());
    batch
}

/// The present, shortly after the records were made.
pub(crate) const NOW: Timestamp = Timestamp::new(5000);

/// An unclean load with an index entry for each batch but the first.
pub(crate) fn unclean() -> LoadConfig {
    let segment = SegmentConfig::new().index_interval_bytes(1).max_index_bytes(1024);
    LoadConfig::new(NOW).segment(segment)
}

/// A load after a clean stop at this offset.
pub(crate) fn clean(recovery_point: i64) -> LoadConfig {
    unclean().clean_shutdown(true).recovery_point(Offset::new(recovery_point))
}

impl Disk {
    /// Loads the partition. Beforehand the load is planned: the plan must change nothing, and tell
    /// what the load then does.
    pub(crate) fn load(&self, config: &LoadConfig) -> LoadedLog {
        let before = self.files();
        let planned = plan(self.dir(), config, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(self.files(), before, "a plan changes nothing");
        let log = load(self.dir(), config, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(planned.report().steps, log.report.steps);
        assert_eq!(planned.is_empty(), log.report.steps.is_empty());
        assert_eq!(planned.report().recovered, log.report.recovered);
        assert_eq!(planned.log_end_offset(), log.log_end_offset);
        assert_eq!(planned.log_start_offset(), log.log_start_offset);
        assert_eq!(planned.epochs().entries(), log.epochs.entries());
        log
    }

    /// Writes the log of a segment.
    pub(crate) fn segment(&self, base: i64, log: &[u8]) {
        self.write(&format!("{base:020}.log"), log);
    }

    /// Writes the three files of a segment, the indexes empty.
    pub(crate) fn segment_with_indexes(&self, base: i64, log: &[u8]) {
        self.segment(base, log);
        self.write(&format!("{base:020}.index"), b"");
        self.write(&format!("{base:020}.timeindex"), b"");
    }

    /// Copies the files of a golden directory.
    pub(crate) fn copy_golden(&self, case: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/4.4.0").join(case);
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            self.write(&name, &std::fs::read(entry.path()).unwrap());
        }
    }
}

/// Base offset and size of each segment.
pub(crate) fn segments(log: &LoadedLog) -> Vec<(i64, u32)> {
    log.segments.iter().map(|it| (it.base_offset().get(), it.size_bytes())).collect()
}

/// The offsets of all snapshots.
pub(crate) fn snapshots(log: &LoadedLog) -> Vec<i64> {
    use alluvium_recovery::SnapshotStore;
    log.snapshots.offsets().iter().map(|offset| offset.get()).collect()
}

/// Epochs with their first offsets.
pub(crate) fn epochs(log: &LoadedLog) -> Vec<(i32, i64)> {
    let entries = log.epochs.entries().iter();
    entries.map(|entry| (entry.epoch.get(), entry.start_offset.get())).collect()
}

/// First and last offset of each batch that a reader of the whole log sees, in order.
pub(crate) fn batches(log: &LoadedLog) -> Vec<(i64, i64)> {
    let mut seen = Vec::new();
    for segment in &log.segments {
        let mut walk = segment.walk(alluvium_record_format::Position::new(0)).unwrap();
        while let Some(entry) = walk.next_entry().unwrap() {
            let alluvium_record_format::Entry::Batch(batch) = entry else { continue };
            let header = batch.header();
            seen.push((header.base_offset().get(), header.last_offset().get()));
        }
    }
    seen
}

/// The index of `HEX_L3` with an entry for each batch but the first.
pub(crate) const L3_INDEX: [u8; 16] = [0, 0, 0, 5, 0, 0, 0, 118, 0, 0, 0, 8, 0, 0, 0, 236];

/// Its time index: the first batch that reached each maximum.
pub(crate) const L3_TIME_INDEX: [u8; 24] =
    [0, 0, 0, 0, 0, 0, 3, 0xed, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 3, 0xf0, 0, 0, 0, 8];

/// Appends one record at the log end, and reads the whole log.
pub(crate) fn append_and_read(disk: &Disk, config: &LoadConfig) -> Vec<(i64, i64)> {
    let log = disk.load(config);
    let last = log.segments.last().unwrap().clone();
    let mut active = ActiveSegment::reopen(last, config.segment, Birth::at(NOW)).unwrap();
    assert_eq!(active.next_offset(), log.log_end_offset);
    active.append(&at_offset(bytes(HEX_A), log.log_end_offset.get())).unwrap();
    active.seal().unwrap();
    batches(&log)
}
