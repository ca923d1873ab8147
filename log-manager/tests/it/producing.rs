//! Idempotent and transactional producers.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};

use alluvium_log_manager::{AppendError, ErrorCode, Isolation, Log};
use alluvium_record_format::{Offset, TxnOutcome};
use alluvium_segment::IoCall;

use crate::batches::{NOW, batch, marker, sequenced, transactional};
use crate::disk::{Disk, append, append_marker, is_about, try_append};

fn code(error: &AppendError) -> ErrorCode {
    error.code()
}

fn refused(log: &Log, batch: &[u8]) -> ErrorCode {
    code(&try_append(log, batch).unwrap_err())
}

/// FR-081, first input.
#[test]
fn sequences_go_on_at_0_after_the_largest() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &sequenced(9, 2_147_483_646, &[NOW.get(); 3]));
    append(&log, &sequenced(9, 1, &[NOW.get()]));
    append(&log, &sequenced(9, 2, &[NOW.get()]));
    assert_eq!(log.log_end_offset(), Offset::new(5));
}

/// FR-081, second input.
#[test]
fn a_batch_across_the_wrap_ends_at_its_own_sequence() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &sequenced(9, 2_147_483_637, &[NOW.get(); 21]));
    assert_eq!(refused(&log, &sequenced(9, 11, &[NOW.get()])), ErrorCode::OutOfOrderSequenceNumber);
    append(&log, &sequenced(9, 10, &[NOW.get()]));
}

/// FR-082, records with the present time.
#[test]
fn the_last_five_batches_are_answered_again_and_after_a_restart_the_last_one() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for sequence in 0..6 {
        append(&log, &sequenced(9, sequence, &[NOW.get()]));
    }
    assert_eq!(refused(&log, &sequenced(9, 0, &[NOW.get()])), ErrorCode::OutOfOrderSequenceNumber);
    let again = append(&log, &sequenced(9, 1, &[NOW.get()]));
    assert!(again.is_duplicate);
    assert_eq!(
        (again.first_offset, again.last_offset),
        (Some(Offset::new(1)), Some(Offset::new(1)))
    );
    assert_eq!(log.log_end_offset(), Offset::new(6));
    assert_eq!(refused(&log, &sequenced(9, 7, &[NOW.get()])), ErrorCode::OutOfOrderSequenceNumber);

    let log = disk.reopen(log);
    assert!(append(&log, &sequenced(9, 5, &[NOW.get()])).is_duplicate);
    assert_eq!(refused(&log, &sequenced(9, 1, &[NOW.get()])), ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(append(&log, &sequenced(9, 6, &[NOW.get()])).first_offset, Some(Offset::new(6)));
}

/// FR-082, records of 1970: the rule is kept byte for byte, so the producer is forgotten.
#[test]
fn a_producer_with_old_record_times_is_forgotten_at_the_next_start() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for sequence in 0..6 {
        append(&log, &sequenced(9, sequence, &[1000]));
    }
    let log = disk.reopen(log);
    let again = append(&log, &sequenced(9, 5, &[1000]));
    assert_eq!((again.is_duplicate, again.first_offset), (false, Some(Offset::new(6))));
}

/// FR-083.
#[test]
fn bad_snapshots_are_dropped_and_the_state_comes_from_the_log() {
    let empty: &[u8] = &[];
    let junk = [0, 1, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0];
    let from_the_future = [0, 0x63, 0, 0, 0, 0, 0, 0, 0, 0];
    for (offset, bytes) in [(2, empty), (2, &junk), (2, &from_the_future), (500, &junk)] {
        let disk = Disk::new();
        let log = disk.open_clean();
        append(&log, &sequenced(9, 0, &[NOW.get(); 2]));
        let good = {
            let closed = log.close().unwrap();
            drop(log);
            disk.put(&[(&format!("{offset:020}.snapshot"), bytes)]);
            closed
        };
        let log = disk.options().after_close(&good).open(disk.dir()).unwrap();
        assert!(append(&log, &sequenced(9, 0, &[NOW.get(); 2])).is_duplicate, "{offset} {bytes:?}");
        let snapshots: Vec<_> =
            disk.names().into_iter().filter(|name| name.ends_with(".snapshot")).collect();
        assert_eq!(snapshots, ["00000000000000000002.snapshot"]);
        assert_eq!(disk.file("00000000000000000002.snapshot").len(), 56);
    }
}

/// FR-085, first input.
#[test]
fn a_write_that_failed_leaves_no_trace_in_the_producer_state() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &sequenced(9, 0, &[NOW.get()]));
    disk.faults.fail_once(ErrorKind::StorageFull, |call| is_about(call, "log"));
    let failed = refused(&log, &sequenced(9, 1, &[NOW.get()]));
    assert_eq!(failed, ErrorCode::KafkaStorageError);
    assert_eq!(log.log_end_offset(), Offset::new(1));
    let retried = append(&log, &sequenced(9, 1, &[NOW.get()]));
    assert_eq!((retried.is_duplicate, retried.first_offset), (false, Some(Offset::new(1))));
    assert!(append(&log, &sequenced(9, 1, &[NOW.get()])).is_duplicate);
    log.roll().unwrap();
    assert_eq!(disk.file("00000000000000000002.snapshot").len(), 10 + 46);
}

/// FR-085, second input.
#[test]
fn a_marker_whose_index_entry_failed_keeps_its_offset_and_holds_readers_back() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &transactional(7, 0));
    // Nothing can be written where a directory stands.
    let in_the_way = disk.dir().join("00000000000000000000.txnindex");
    std::fs::create_dir(&in_the_way).unwrap();
    append_marker(&log, &marker(7, TxnOutcome::Abort)).unwrap_err();
    std::fs::remove_dir(&in_the_way).unwrap();
    assert_eq!(log.log_end_offset(), Offset::new(2));
    let next = append(&log, &sequenced(8, 0, &[NOW.get()]));
    assert_eq!(next.first_offset, Some(Offset::new(2)));
    log.update_high_watermark(Offset::new(3)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(0));
    let closed = log.close().unwrap();
    assert!(!closed.clean);
    drop(log);
    // Recovery makes the entry from the marker, and readers go on.
    let log = disk.options().after_close(&closed).open(disk.dir()).unwrap();
    assert_eq!(disk.file("00000000000000000000.txnindex").len(), 34);
    log.update_high_watermark(Offset::new(3)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(3));
    let fetched = log.read(Offset::new(0), 1000, Isolation::TxnCommitted, true).unwrap();
    assert_eq!(fetched.aborted.unwrap().len(), 1);
}

/// Fails the entry of an aborted transaction at offsets 0 and 1, whose marker is in the log.
fn append_marker_without_entry(disk: &Disk, log: &Log, base: i64) {
    disk.faults.fail_once(ErrorKind::StorageFull, |call| is_about(call, "txnindex"));
    append_marker(log, &marker(7, TxnOutcome::Abort)).unwrap_err();
    assert!(!disk.dir().join(format!("{base:020}.txnindex")).exists());
}

/// FR-085: a roll, a flush and what is kept of them leave the segment of the marker to recovery. No
/// start looked below the recovery point that a flush had moved past it.
#[test]
fn an_index_entry_that_failed_is_made_by_the_next_start_also_after_a_roll_and_a_flush() {
    for begins_below in [false, true] {
        let disk = Disk::new();
        let log = disk.open_clean();
        append(&log, &transactional(7, 0));
        if begins_below {
            log.roll().unwrap();
            disk.tasks.run_due();
            assert_eq!(log.recovery_point(), Offset::new(1));
        }
        let marked = i64::from(begins_below);
        append_marker_without_entry(&disk, &log, marked);
        log.roll().unwrap();
        disk.tasks.run_due();
        append(&log, &sequenced(8, 0, &[NOW.get()]));
        log.flush(true).unwrap();
        assert_eq!(log.recovery_point(), Offset::new(marked), "the marker is at 1");
        assert_eq!(log.durable_offset(), Offset::new(3), "its batches are on the disk");
        log.update_high_watermark(Offset::new(3)).unwrap();
        let closed = log.close().unwrap();
        assert!(!closed.clean);
        assert_eq!(closed.recovery_point, Offset::new(marked));
        drop(log);
        let log = disk.options().after_close(&closed).open(disk.dir()).unwrap();
        assert_eq!(disk.file(&format!("{marked:020}.txnindex")).len(), 34);
        log.update_high_watermark(Offset::new(3)).unwrap();
        assert_eq!(log.last_stable_offset(), Offset::new(3));
        let fetched = log.read(Offset::new(marked), 1000, Isolation::TxnCommitted, true).unwrap();
        assert_eq!(fetched.aborted.unwrap().len(), 1);
        log.flush(false).unwrap();
        assert_eq!(log.recovery_point(), Offset::new(3), "it moves again");
    }
}

/// FR-085: the recovery point that stays below the marker is not what flushes are counted from.
#[test]
fn an_index_entry_that_failed_makes_neither_each_append_nor_each_tick_sync() {
    let disk = Disk::with(|config| config.flush_messages(4).flush_ms(1000));
    let log = disk.open_clean();
    append(&log, &transactional(7, 0));
    append_marker_without_entry(&disk, &log, 0);
    disk.faults.clear();
    log.flush(false).unwrap();
    let syncs = |work: &dyn Fn()| {
        disk.faults.calls.lock().unwrap().clear();
        work();
        let calls = disk.faults.calls.lock().unwrap();
        calls.iter().filter(|call| call.starts_with("sync")).count()
    };
    let one = || {
        append(&log, &batch(&[(None, NOW.get())]));
    };
    let tick = || {
        disk.clock.advance_ms(1000);
        log.flush_if_due().unwrap();
    };
    assert_eq!([(); 3].map(|()| syncs(&one)), [0; 3]);
    assert_ne!(syncs(&one), 0, "the fourth since the flush");
    assert_eq!([(); 3].map(|()| syncs(&one)), [0; 3]);
    assert_ne!(syncs(&tick), 0, "three records wait");
    assert_eq!(syncs(&tick), 0, "nothing has come since");
    assert_eq!(log.recovery_point(), Offset::new(0));
    // What held it back goes: no new sync is needed to say so.
    log.update_high_watermark(Offset::new(9)).unwrap();
    log.increment_log_start_offset(Offset::new(2)).unwrap();
    assert_eq!(syncs(&|| log.flush(false).unwrap()), 0);
    assert_eq!(log.recovery_point(), log.log_end_offset());
}

#[test]
fn a_segment_whose_snapshot_cannot_be_written_is_made_durable_all_the_same() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &sequenced(7, 0, &[NOW.get()]));
    disk.faults.fail_once(ErrorKind::StorageFull, |call| {
        matches!(call, IoCall::Write { path, .. } if path.to_string_lossy().contains(".snapshot"))
    });
    log.roll().unwrap_err();
    assert_eq!(log.segment_count(), 2);
    disk.tasks.run_due();
    assert_eq!(log.recovery_point(), Offset::new(1));
    append(&log, &sequenced(7, 1, &[NOW.get()]));
    log.roll().unwrap();
    assert!(disk.names().iter().any(|name| name.ends_with("2.snapshot")), "{:?}", disk.names());
}

/// A reader looks up where the watermark of before lies, while the log is truncated and a
/// transaction comes that ends above the watermark of now.
#[test]
fn a_slow_reader_does_not_take_a_marker_for_replicated_that_came_after_a_truncation() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for _ in 0..5 {
        append(&log, &batch(&[(None, NOW.get())]));
    }
    log.update_high_watermark(Offset::new(4)).unwrap();
    let (writer, left) = (log.clone(), AtomicBool::new(true));
    disk.faults.watch(move |call| {
        if matches!(call, IoCall::Read { .. }) && left.swap(false, Ordering::Relaxed) {
            writer.truncate_to(Offset::new(1)).unwrap();
            append(&writer, &transactional(7, 0));
            append_marker(&writer, &marker(7, TxnOutcome::Commit)).unwrap();
            append(&writer, &batch(&[(None, NOW.get())]));
            append(&writer, &batch(&[(None, NOW.get())]));
            writer.update_high_watermark(Offset::new(2)).unwrap();
        }
    });
    log.read(Offset::new(0), 1000, Isolation::HighWatermark, true).unwrap();
    disk.faults.clear();
    assert_eq!((log.log_end_offset(), log.high_watermark()), (Offset::new(5), Offset::new(2)));
    assert_eq!(log.last_stable_offset(), Offset::new(1), "the marker at 2 is not replicated");
    log.update_high_watermark(Offset::new(3)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(3));
}

/// FR-085: a truncation takes the producers from a snapshot, which knows the transaction as ended.
#[test]
fn an_index_entry_that_failed_holds_readers_back_also_after_a_truncation_behind_the_marker() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &transactional(7, 0));
    append_marker_without_entry(&disk, &log, 0);
    log.roll().unwrap();
    append(&log, &sequenced(8, 0, &[NOW.get()]));
    append(&log, &sequenced(8, 1, &[NOW.get()]));
    log.update_high_watermark(Offset::new(4)).unwrap();
    log.flush(true).unwrap();
    assert_eq!(log.recovery_point(), Offset::new(0));
    assert!(log.truncate_to(Offset::new(3)).unwrap());
    append(&log, &sequenced(8, 1, &[NOW.get()]));
    log.update_high_watermark(Offset::new(4)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(0));
    // Without its marker the transaction is open, until another one ends it.
    assert!(log.truncate_to(Offset::new(1)).unwrap());
    append_marker(&log, &marker(7, TxnOutcome::Abort)).unwrap();
    log.update_high_watermark(Offset::new(2)).unwrap();
    assert_eq!(log.last_stable_offset(), Offset::new(2));
    assert_eq!(disk.file("00000000000000000000.txnindex").len(), 34);
    log.flush(true).unwrap();
    assert_eq!(log.recovery_point(), Offset::new(2), "nothing is left to mend");
}

/// Without any snapshot, a log that was stopped cleanly counts as one without producers.
#[test]
fn the_name_of_the_last_snapshot_is_durable_when_the_close_returns() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &sequenced(9, 0, &[NOW.get()]));
    log.flush(true).unwrap();
    let calls = || std::mem::take(&mut *disk.faults.calls.lock().unwrap());
    calls();
    assert!(log.close().unwrap().clean);
    let calls = calls();
    let at = |name: &str| calls.iter().rposition(|call| call == name);
    let snapshot = at("sync 00000000000000000001.snapshot");
    assert!(snapshot.is_some() && at("sync-dir") > snapshot, "{calls:?}");
}

/// Found by `cargo xtask crash`: what a producer has written may lie in no segment any more.
#[test]
fn the_snapshot_of_a_roll_is_durable_before_the_recovery_point_passes_it() {
    for is_flushed_before in [false, true] {
        let disk = Disk::new();
        let log = disk.open_clean();
        append(&log, &sequenced(1, 0, &[NOW.get()]));
        if is_flushed_before {
            log.flush(false).unwrap();
        }
        log.roll().unwrap();
        disk.faults.calls.lock().unwrap().clear();
        disk.tasks.run_due();
        assert_eq!(log.recovery_point(), Offset::new(1));
        let calls = disk.faults.calls.lock().unwrap();
        assert!(calls.contains(&"sync 00000000000000000001.snapshot".to_owned()), "{calls:?}");
    }
}

/// Found by `cargo xtask crash`: recovery found these files as it would have made them, and left
/// them; nobody had synced them. A power failure later, an aborted transaction was visible.
#[test]
fn what_a_killed_process_has_written_is_synced_by_the_first_flush_of_the_next() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &transactional(1, 0));
    append_marker(&log, &marker(1, TxnOutcome::Abort)).unwrap();
    log.roll().unwrap();
    drop(log);
    let log = disk.open_unclean();
    disk.faults.calls.lock().unwrap().clear();
    log.flush(true).unwrap();
    let calls = disk.faults.calls.lock().unwrap();
    for file in ["0.txnindex", "0.index", "0.timeindex", "0.log", "2.snapshot"] {
        let call = format!("sync 0000000000000000000{file}");
        assert!(calls.contains(&call), "{call} in {calls:?}");
    }
    assert!(calls.contains(&"sync-dir".to_owned()), "{calls:?}");
}

/// FR-029: a refusal changes neither file nor state.
#[test]
fn a_refused_append_leaves_file_and_state_as_they_were() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &sequenced(9, 0, &[NOW.get()]));
    let before =
        (disk.file("00000000000000000000.log"), log.log_end_offset(), log.producer_count());
    let mut corrupt = sequenced(9, 1, &[NOW.get()]);
    *corrupt.last_mut().unwrap() ^= 1;
    let future = sequenced(9, 1, &[NOW.get() + 7_200_000]);
    let unknown_producer_of_no_sequence = sequenced(10, 0, &[NOW.get() + 7_200_000]);
    for bad in [corrupt, future, unknown_producer_of_no_sequence, sequenced(9, 2, &[NOW.get()])] {
        try_append(&log, &bad).unwrap_err();
        let after =
            (disk.file("00000000000000000000.log"), log.log_end_offset(), log.producer_count());
        assert_eq!(before, after);
    }
    append(&log, &sequenced(9, 1, &[NOW.get()]));
}

/// FR-029: accepted, as Kafka does.
#[test]
fn an_unknown_producer_may_begin_at_any_sequence() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &sequenced(9, 5, &[NOW.get()]));
    append(&log, &sequenced(9, 6, &[NOW.get()]));
}

/// Where the log ends at the base of a segment that recovery removes, the snapshot there goes too:
/// `UnifiedLog.deleteProducerSnapshots` in Kafka, for one that recovery has just taken as well.
#[test]
fn after_a_cut_at_the_end_of_a_segment_the_last_five_batches_are_known() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for sequence in 0..3 {
        append(&log, &sequenced(9, sequence, &[NOW.get()]));
    }
    log.roll().unwrap();
    append(&log, &sequenced(9, 3, &[NOW.get()]));
    log.abandon();
    drop(log);
    let mut first = disk.file("00000000000000000000.log");
    first.extend([0; 20]);
    disk.put(&[("00000000000000000000.log", &first)]);

    let log = disk.open_unclean();
    assert_eq!(log.log_end_offset(), Offset::new(3));
    let again = append(&log, &sequenced(9, 0, &[NOW.get()]));
    assert!(again.is_duplicate);
    assert_eq!(again.first_offset, Some(Offset::new(0)));
    assert!(!append(&log, &sequenced(9, 3, &[NOW.get()])).is_duplicate);
}
