//! Reads that land in gaps, inside batches, at bounds.

use alluvium_log_manager::{Isolation, LogError};
use alluvium_record_format::{Offset, TxnOutcome};

use crate::batches::{NOW, at_offset, batch, l3, marker, transactional};
use crate::disk::{Disk, append, append_marker, follow, read, read_as};

/// FR-050, first input.
#[test]
fn a_read_in_a_gap_begins_with_the_next_batch() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let [first, _, third] = l3();
    follow(&log, &first);
    log.roll().unwrap();
    follow(&log, &third);
    assert_eq!(read(&log, 0).unwrap(), [(0, 2)]);
    for start in [3, 4, 8] {
        assert_eq!(read(&log, start).unwrap(), [(6, 8)], "{start}");
    }
    assert_eq!(read(&log, 9).unwrap(), []);
    assert!(matches!(read(&log, 10), Err(LogError::OffsetOutOfRange { .. })));
}

/// FR-050, second input.
#[test]
fn a_read_below_the_log_start_is_out_of_range_and_one_at_it_begins_with_its_batch() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    log.update_high_watermark(Offset::new(9)).unwrap();
    assert!(log.increment_log_start_offset(Offset::new(4)).unwrap());
    assert!(matches!(read(&log, 3), Err(LogError::OffsetOutOfRange { .. })));
    assert_eq!(read(&log, 4).unwrap(), [(3, 5), (6, 8)]);
    let fetched = log.read(Offset::new(4), 1, Isolation::LogEnd, true).unwrap();
    assert_eq!(fetched.position.place.unwrap().position.get(), 118);
}

/// FR-050, third input.
#[test]
fn a_read_goes_on_past_an_empty_segment() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let [first, _, third] = l3();
    follow(&log, &first);
    log.roll().unwrap();
    let closed = log.close().unwrap();
    drop(log);
    disk.put(&[("00000000000000000006.log", &third)]);
    let log = disk.options().after_close(&closed).open(disk.dir()).unwrap();
    assert_eq!(log.segments().len(), 3);
    assert_eq!(read(&log, 3).unwrap(), [(6, 8)]);
}

#[test]
fn a_batch_across_the_high_watermark_is_not_seen() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    log.update_high_watermark(Offset::new(4)).unwrap();
    assert_eq!(read_as(&log, 0, Isolation::HighWatermark).unwrap(), [(0, 2)]);
    assert_eq!(read_as(&log, 4, Isolation::HighWatermark).unwrap(), []);
    assert_eq!(read_as(&log, 0, Isolation::LogEnd).unwrap(), [(0, 2), (3, 5), (6, 8)]);
}

#[test]
fn a_committed_reader_waits_for_the_end_of_transactions_and_hears_of_aborted_ones() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &transactional(7, 0));
    append(&log, &batch(&[(None, NOW.get())]));
    let end = || log.update_high_watermark(log.log_end_offset()).unwrap();
    end();
    assert_eq!(log.last_stable_offset(), Offset::new(0));
    assert_eq!(read_as(&log, 0, Isolation::TxnCommitted).unwrap(), []);
    append_marker(&log, &marker(7, TxnOutcome::Abort)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(0));
    end();
    assert_eq!(log.last_stable_offset(), Offset::new(3));
    let fetched = log.read(Offset::new(0), 1000, Isolation::TxnCommitted, true).unwrap();
    let aborted = fetched.aborted.unwrap();
    assert_eq!(aborted.len(), 1);
    assert_eq!((aborted[0].producer_id.get(), aborted[0].first_offset.get()), (7, 0));
}

/// A slice outlives its segment: FR-104, the part of the log.
#[test]
fn a_reader_keeps_the_bytes_of_a_segment_that_is_deleted() {
    let disk = Disk::with(|config| config.file_delete_delay_ms(0));
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    log.roll().unwrap();
    log.update_high_watermark(Offset::new(9)).unwrap();
    let held = log.read(Offset::new(0), 1000, Isolation::LogEnd, true).unwrap().slice.unwrap();
    log.increment_log_start_offset(Offset::new(9)).unwrap();
    assert_eq!(log.delete_old_segments().unwrap(), 1);
    disk.tasks.run_due();
    assert!(!disk.names().iter().any(|name| name.starts_with("00000000000000000000")));
    let mut bytes = Vec::new();
    held.read_to(&mut bytes).unwrap();
    assert_eq!(bytes, l3().concat());
}

#[test]
fn a_limit_cuts_inside_a_batch_unless_one_message_is_wanted() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &at_offset(l3().concat(), 0));
    let cut = log.read(Offset::new(0), 20, Isolation::LogEnd, false).unwrap();
    assert_eq!((cut.len(), cut.first_entry_incomplete), (20, true));
    let whole = log.read(Offset::new(0), 20, Isolation::LogEnd, true).unwrap();
    assert_eq!((whole.len(), whole.first_entry_incomplete), (118, false));
}

/// The log begins at 0, where no batch is: `UnifiedLog.fetchHighWatermarkMetadata` in Kafka finds
/// the next one.
#[test]
fn the_high_watermark_of_a_new_log_moves_to_a_first_batch_behind_a_gap() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &at_offset(l3()[0].clone(), 304));
    assert_eq!(log.high_watermark(), Offset::new(0));
    assert_eq!(read_as(&log, 0, Isolation::HighWatermark).unwrap(), []);
    assert_eq!(log.high_watermark(), Offset::new(304));
}

#[test]
fn a_high_watermark_is_raised_from_the_batch_that_it_lies_in() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    log.update_high_watermark(Offset::new(5)).unwrap();
    assert_eq!(log.increment_high_watermark(Offset::new(4)).unwrap(), Some(Offset::new(3)));
    assert_eq!(log.high_watermark(), Offset::new(4));
    assert_eq!(log.increment_high_watermark(Offset::new(3)).unwrap(), None);
}

/// Where the open transaction's records are gone, its place is that of the first batch that is
/// left: none is there yet when the log start reaches the log end.
#[test]
fn a_gap_at_the_log_start_holds_no_committed_reader_back() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &transactional(9, 0));
    let end = log.log_end_offset();
    log.update_high_watermark(end).unwrap();
    assert!(log.increment_log_start_offset(end).unwrap());
    assert_eq!(log.last_stable_offset(), end);
    follow(&log, &at_offset(l3()[0].clone(), 100));
    log.update_high_watermark(Offset::new(50)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(50));
    log.update_high_watermark(Offset::new(103)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(100));
}
