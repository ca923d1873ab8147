//! Operations on a log beside a list of batches.

use std::sync::Arc;

use alluvium_log_manager::{
    Isolation, LeaderRequest, Log, LogConfig, LogOptions, ManualClock, TaskQueue,
};
use alluvium_record_format::{
    BatchBuilder, BatchSettings, Codec, Entries, Entry, LeaderEpoch, Offset, Position,
    SimpleRecord, Timestamp,
};
use alluvium_segment::DirLock;
use arbitrary::Arbitrary;

use crate::loading::in_memory;

/// One thing that is done to a log.
#[derive(Arbitrary, Debug)]
pub enum Operation {
    /// Appends a batch.
    Append { records: u8, value_len: u16, codec: u8, epoch_up: bool },
    /// Appends what may be a batch.
    AppendBytes(Vec<u8>),
    /// Begins a new segment.
    Roll,
    /// Cuts the end.
    Truncate(u8),
    /// Moves the log start.
    DeleteRecords(u8),
    /// Deletes what may go.
    Retain,
    /// Flushes.
    Flush,
    /// Time passes.
    Wait(u16),
    /// Closes and opens.
    Reopen,
    /// Opens without a close.
    Crash,
    /// All is cut.
    TruncateFully(u8),
}

#[derive(Debug, Default)]
struct Model {
    batches: Vec<(i64, i64)>,
    start: i64,
    end: i64,
    epoch: i32,
}

impl Model {
    /// The batches that a reader sees from an offset on.
    fn visible(&self, from: i64) -> Vec<(i64, i64)> {
        let from = from.max(self.start);
        self.batches.iter().copied().filter(|(_, last)| *last >= from).collect()
    }

    /// The gap that a truncation inside a batch leaves at the end is not on the disk.
    fn reopened_at(&mut self, end: i64) {
        let least = self.batches.last().map_or(0, |(_, last)| last + 1);
        assert!((least..=self.end).contains(&end), "{end} is not within {least} to {}", self.end);
        self.end = end;
    }
}

/// After every operation the log holds what the list holds.
pub fn operations(operations: &[Operation]) {
    let root = in_memory();
    // Held here: deletions that wait keep the lock of a log that was not closed.
    let lock = DirLock::acquire(root.path()).unwrap();
    let dir = root.path().join("orders-0");
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_760_000_000_000)));
    let tasks = Arc::new(TaskQueue::new(Arc::<ManualClock>::clone(&clock)));
    let config = LogConfig::builder()
        .internal_segment_bytes(Some(2000))
        .segment_index_bytes(1024)
        .index_interval_bytes(200)
        .retention_ms(None)
        .file_delete_delay_ms(1000)
        .build()
        .unwrap();
    let options = || -> LogOptions {
        Log::options()
            .config(config.clone())
            .lock(lock.clone())
            .clock(Arc::<ManualClock>::clone(&clock))
            .background(Arc::<TaskQueue>::clone(&tasks))
    };
    let mut log = options().open(&dir).unwrap();
    let mut model = Model::default();
    for operation in operations.iter().take(64) {
        match operation {
            Operation::Reopen => {
                let closed = log.close().unwrap();
                drop(log);
                log = options().after_close(&closed).open(&dir).unwrap();
                model.reopened_at(log.log_end_offset().get());
            }
            Operation::Crash => {
                let (point, start) = (log.recovery_point(), log.log_start_offset());
                drop(log);
                log = options().recovery_point(point).log_start_offset(start).open(&dir).unwrap();
                model.reopened_at(log.log_end_offset().get());
            }
            Operation::Wait(ms) => clock.advance_ms(i64::from(*ms)),
            other => perform(&log, &mut model, other),
        }
        tasks.run_due();
        assert_eq!(log.log_start_offset().get(), model.start, "{operation:?}");
        assert_eq!(log.log_end_offset().get(), model.end, "{operation:?}");
        // An append changes nothing before itself: then the end alone is read. To read everything
        // each time costs the square of what is written.
        let is_append = matches!(operation, Operation::Append { .. });
        let from = if is_append { model.batches.last().map_or(0, |last| last.0) } else { 0 };
        assert_eq!(read_from(&log, from.max(model.start)), model.visible(from), "{operation:?}");
    }
    assert_eq!(read_from(&log, model.start), model.visible(0));
}

fn perform(log: &Log, model: &mut Model, operation: &Operation) {
    let part = |share: u8| model.start + (model.end - model.start) * i64::from(share) / 240;
    match *operation {
        Operation::Append { records, value_len, codec, epoch_up } => {
            model.epoch += i32::from(epoch_up);
            // Compressing costs more than all else, and other targets are for it.
            let codec = Codec::from_id(codec.saturating_sub(251)).unwrap();
            let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).codec(codec));
            let value = vec![b'v'; usize::from(value_len % 360)];
            for _ in 0..=records % 5 {
                let time = Timestamp::new(1_760_000_000_000);
                builder.append(&SimpleRecord::new().value(&value).timestamp(time)).unwrap();
            }
            let mut bytes = builder.finish().unwrap().to_vec();
            let request = LeaderRequest::new(LeaderEpoch::new(model.epoch));
            let appended = log.append_as_leader(&mut bytes, request).unwrap();
            let last = model.end + i64::from(records % 5);
            assert_eq!(appended.last_offset, Some(Offset::new(last)));
            model.batches.push((model.end, last));
            model.end = last + 1;
        }
        Operation::AppendBytes(ref bytes) => {
            // A batch that is sound by chance is no use to the model.
            let before = log.log_end_offset();
            let request = LeaderRequest::new(LeaderEpoch::new(model.epoch));
            let done = log.append_as_leader(&mut bytes.clone(), request);
            assert!(done.is_err() || log.log_end_offset() == before, "{done:?}");
        }
        Operation::Roll => drop(log.roll().unwrap()),
        Operation::Truncate(share) => {
            let offset = part(share);
            log.truncate_to(Offset::new(offset)).unwrap();
            if offset < model.end {
                model.batches.retain(|(_, last)| *last < offset);
                model.end = offset;
                model.start = model.start.min(offset);
            }
        }
        Operation::TruncateFully(gap) => {
            let offset = model.end + i64::from(gap);
            log.truncate_fully_and_start_at(Offset::new(offset), None).unwrap();
            model.batches.clear();
            (model.start, model.end) = (offset, offset);
        }
        Operation::DeleteRecords(share) => {
            let offset = part(share.min(239));
            log.update_high_watermark(log.log_end_offset()).unwrap();
            log.delete_records(Some(Offset::new(offset))).unwrap();
            model.start = model.start.max(offset);
        }
        Operation::Retain => drop(log.delete_old_segments().unwrap()),
        Operation::Flush => {
            log.flush(false).unwrap();
            assert_eq!(log.recovery_point(), log.log_end_offset());
        }
        Operation::Reopen | Operation::Crash | Operation::Wait(_) => {}
    }
}

/// All batches from an offset on, read in small pieces.
fn read_from(log: &Log, from: i64) -> Vec<(i64, i64)> {
    let mut next = Offset::new(from);
    let mut seen = Vec::new();
    while next < log.log_end_offset() {
        let fetched = log.read(next, 600, Isolation::LogEnd, true).unwrap();
        let Some(slice) = fetched.slice.filter(|slice| !slice.is_empty()) else { break };
        let mut bytes = Vec::new();
        slice.read_to(&mut bytes).unwrap();
        for entry in Entries::new(&bytes, Position::new(0)).map_while(Result::ok) {
            let Entry::Batch(batch) = entry else { panic!("an old format") };
            batch.verify_crc().unwrap();
            let header = batch.header();
            seen.push((header.base_offset().get(), header.last_offset().get()));
            next = header.next_offset();
        }
    }
    seen
}
