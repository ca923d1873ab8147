//! Random operations against a list of batches.

use alluvium_log_manager::{Isolation, Log};
use alluvium_record_format::{Entries, Entry, Offset, Position};
use proptest::prelude::*;

use crate::batches::{NOW, batch};
use crate::disk::{Disk, append};

#[derive(Clone, Debug)]
enum Operation {
    Append { records: usize, wide: bool },
    Roll,
    Truncate { permille: i64 },
    DeleteRecords { permille: i64 },
    Retain,
    ReopenClean,
    ReopenAfterCrash,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        12 => (1..5_usize, any::<bool>())
            .prop_map(|(records, wide)| Operation::Append { records, wide }),
        2 => Just(Operation::Roll),
        2 => (0..1100_i64).prop_map(|permille| Operation::Truncate { permille }),
        2 => (0..1000_i64).prop_map(|permille| Operation::DeleteRecords { permille }),
        2 => Just(Operation::Retain),
        1 => Just(Operation::ReopenClean),
        1 => Just(Operation::ReopenAfterCrash),
    ]
}

/// What the log must hold: base and last offset of each batch, first visible offset, end.
#[derive(Debug, Default)]
struct Model {
    batches: Vec<(i64, i64)>,
    start: i64,
    end: i64,
}

impl Model {
    /// The batches that a reader of everything sees.
    fn visible(&self) -> Vec<(i64, i64)> {
        self.batches.iter().copied().filter(|(_, last)| *last >= self.start).collect()
    }

    fn truncate(&mut self, offset: i64) {
        if offset >= self.end {
            return;
        }
        self.batches.retain(|(_, last)| *last < offset);
        self.end = offset;
        self.start = self.start.min(offset);
    }
}

impl Model {
    /// The gap that a truncation inside a batch leaves at the end is not on the disk: the log may
    /// end right behind its last batch again.
    fn reopened_at(&mut self, end: i64) {
        let least = self.batches.last().map_or(0, |(_, last)| last + 1);
        assert!((least..=self.end).contains(&end), "{end} is not within {least} to {}", self.end);
        self.end = end;
    }
}

/// All batches from the log start on, read in small pieces.
fn read_all(log: &Log) -> Vec<(i64, i64)> {
    let mut next = log.log_start_offset();
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

fn perform(disk: &Disk, log: Log, model: &mut Model, operation: &Operation) -> Log {
    let part = |permille: i64| model.start + (model.end - model.start) * permille / 1000;
    match *operation {
        Operation::Append { records, wide } => {
            let key = vec![7; if wide { 300 } else { 3 }];
            let made = batch(&vec![(Some(&key[..]), NOW.get()); records]);
            let appended = append(&log, &made);
            let last = model.end + i64::try_from(records).unwrap() - 1;
            assert_eq!(appended.last_offset, Some(Offset::new(last)));
            model.batches.push((model.end, last));
            model.end = last + 1;
        }
        Operation::Roll => drop(log.roll().unwrap()),
        Operation::Truncate { permille } => {
            let offset = part(permille);
            // Below the watermark too, as after an unclean election.
            log.truncate_to(Offset::new(offset)).unwrap();
            model.truncate(offset);
        }
        Operation::DeleteRecords { permille } => {
            let offset = part(permille);
            log.update_high_watermark(log.log_end_offset()).unwrap();
            log.delete_records(Some(Offset::new(offset))).unwrap();
            model.start = model.start.max(offset);
        }
        Operation::Retain => drop(log.delete_old_segments().unwrap()),
        Operation::ReopenClean => {
            let log = disk.reopen(log);
            model.reopened_at(log.log_end_offset().get());
            return log;
        }
        Operation::ReopenAfterCrash => {
            let (recovery_point, start) = (log.recovery_point(), log.log_start_offset());
            drop(log);
            let options = disk.options().recovery_point(recovery_point).log_start_offset(start);
            let log = options.open(disk.dir()).unwrap();
            model.reopened_at(log.log_end_offset().get());
            return log;
        }
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_log_holds_what_was_appended_and_not_removed(
        operations in prop::collection::vec(operation(), 1..60)
    ) {
        let disk = Disk::with(|config| {
            config.internal_segment_bytes(Some(2000)).index_interval_bytes(200).file_delete_delay_ms(0)
        });
        let mut log = disk.open_clean();
        let mut model = Model::default();
        for operation in &operations {
            log = perform(&disk, log, &mut model, operation);
            disk.tasks.run_due();
            prop_assert_eq!(log.log_start_offset().get(), model.start);
            prop_assert_eq!(log.log_end_offset().get(), model.end);
            prop_assert_eq!(read_all(&log), model.visible());
        }
    }
}
