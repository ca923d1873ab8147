//! Producer state after a load.

use alluvium_record_format::{Offset, Position, ProducerId, Timestamp, TxnOutcome};
use alluvium_recovery::{
    AppendOrigin, AppendRequest, LoadedLog, Prepared, ProducerState, ProducerStateConfig, Replay,
    Warning, encode_snapshot, rebuild_producer_state,
};

use crate::batches::{TestBatch, marker};
use crate::directory::Disk;
use crate::logs::{all_l3, clean, snapshots, unclean};

/// Single-record batches of producer 9 with sequences 0 to 5.
fn numbered(timestamp: i64) -> Vec<u8> {
    (0..6)
        .flat_map(|n| TestBatch::new(n.into(), 1).producer(9, 0, n).timestamp(timestamp).bytes())
        .collect()
}

/// What a client's batch with this sequence would be told.
fn answer(log: &LoadedLog, sequence: i32) -> Result<&'static str, i16> {
    let batch = TestBatch::new(log.log_end_offset.get(), 1).producer(9, 0, sequence).facts();
    match log.producers.prepare(&AppendRequest::new(AppendOrigin::Client), [batch]) {
        Ok(Prepared::Append(_)) => Ok("appended"),
        Ok(_) => Ok("duplicate"),
        Err(error) => Err(error.code()),
    }
}

/// FR-082: a snapshot holds the last batch of a producer, not five.
#[test]
fn after_a_restart_a_retry_of_the_last_batch_is_known() {
    for config in [clean(6), unclean()] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &numbered(1000));
        disk.load(&unclean());
        let log = disk.load(&config);
        assert_eq!(answer(&log, 5), Ok("duplicate"));
        assert_eq!(answer(&log, 1), Err(45));
        assert_eq!(answer(&log, 6), Ok("appended"));
        assert_eq!(answer(&log, 7), Err(45));
    }
}

/// FR-082: expiry goes by the time of the records.
#[test]
fn after_a_restart_producers_of_old_records_are_forgotten() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &numbered(1000));
    disk.load(&unclean());
    let mut later = clean(6);
    later.now = Timestamp::new(1000 + 86_400_000);
    let log = disk.load(&later);
    assert_eq!(log.producers.producers().len(), 0);
    assert_eq!(answer(&log, 5), Ok("appended"));
}

#[test]
fn after_a_restart_producers_are_kept_as_long_as_the_load_is_told() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &numbered(1000));
    let short = ProducerStateConfig::new().producer_id_expiration_ms(2000);
    let mut config = unclean().producers(short);
    config.now = Timestamp::new(2999);
    assert_eq!(answer(&disk.load(&config), 5), Ok("duplicate"));
    config.now = Timestamp::new(3000);
    assert_eq!(disk.load(&config).producers.producers().len(), 0);
}

/// FR-083.
#[test]
fn a_damaged_or_misplaced_snapshot_costs_a_replay_and_nothing_else() {
    let log = [numbered(1000), all_l3()[..0].to_vec()].concat();
    for damage in [vec![], vec![0, 1, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0], vec![0, 0x63]] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &log);
        disk.write("00000000000000000006.snapshot", &damage);
        disk.write("00000000000000000500.snapshot", &encode_snapshot([]));
        let loaded = disk.load(&clean(6));
        assert_eq!(snapshots(&loaded), [6]);
        assert_eq!(answer(&loaded, 5), Ok("duplicate"));
        let state = alluvium_recovery::read_snapshot(
            &alluvium_segment::Io::new(),
            &disk.path().join("00000000000000000006.snapshot"),
        );
        assert_eq!(state.unwrap().len(), 1);
    }
}

#[test]
fn a_clean_log_without_snapshots_is_not_read() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &numbered(1000));
    disk.segment_with_indexes(6, &TestBatch::new(6, 1).producer(9, 0, 6).bytes());
    let log = disk.load(&clean(7));
    assert_eq!(log.producers.producers().len(), 0);
    assert_eq!(snapshots(&log), [6, 7]);
}

#[test]
fn an_open_transaction_is_found_again_and_an_ended_one_is_not() {
    let log = [
        TestBatch::new(0, 1).producer(9, 0, 0).transactional().bytes(),
        TestBatch::new(1, 1).producer(8, 0, 0).transactional().bytes(),
        marker(2, (9, 0), TxnOutcome::Commit, 0),
    ]
    .concat();
    for config in [clean(3), unclean()] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &log);
        disk.load(&unclean());
        let loaded = disk.load(&config);
        let open: Vec<_> =
            loaded.producers.ongoing_transactions().map(|txn| txn.first_offset.get()).collect();
        assert_eq!(open, [1]);
        let entry = loaded.producers.producer(ProducerId::new(8)).unwrap();
        assert_eq!(entry.current_txn_first_offset, Some(Offset::new(1)));
    }
}

#[test]
fn after_a_truncation_the_state_is_rebuilt_up_to_its_offset() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &numbered(1000));
    let mut log = disk.load(&unclean());
    let replay = Replay::new(Offset::new(0), Offset::new(4), Timestamp::new(5000));
    let mut state = log.producers;
    rebuild_producer_state(&mut state, &mut log.snapshots, &log.segments, &replay).unwrap();
    let entry = state.producer(ProducerId::new(9)).unwrap();
    assert_eq!(entry.last_batch().unwrap().last_offset, Offset::new(3));
    assert_eq!(state.map_end_offset(), Offset::new(4));
    assert!(disk.has("00000000000000000004.snapshot"));
    assert!(!disk.has("00000000000000000006.snapshot"));
}

/// A log that no leader would have written, as after a leader that was not checked.
#[test]
fn batches_that_no_leader_would_take_are_passed_over_with_a_warning() {
    let log = [
        TestBatch::new(0, 1).producer(9, 0, 0).transactional().bytes(),
        TestBatch::new(1, 1).producer(9, 0, 1).bytes(),
    ]
    .concat();
    let disk = Disk::new();
    disk.segment(0, &log);
    let loaded = disk.load(&unclean());
    assert_eq!(loaded.log_end_offset.get(), 2);
    assert_eq!(loaded.report.warnings.len(), 1);
    let _: &ProducerState = &loaded.producers;
}

/// A load that rebuilds producers tells where the log does not let it.
#[test]
fn damage_that_ends_a_replay_of_producers_is_reported() {
    let sound = TestBatch::new(0, 6).bytes();
    let batch = |n: i32| TestBatch::new((6 + n).into(), 1).producer(9, 0, n).bytes();
    let mut damaged: Vec<u8> = (0..6).flat_map(batch).collect();
    let length_at = damaged.len() / 2 + 8;
    damaged[length_at..length_at + 4].fill(0xff);
    for has_snapshot in [false, true] {
        for config in [clean(13), unclean().recovery_point(Offset::new(12))] {
            let disk = Disk::new();
            disk.segment_with_indexes(0, &sound);
            disk.segment_with_indexes(6, &damaged);
            disk.segment_with_indexes(12, &batch(6));
            if has_snapshot {
                disk.write("00000000000000000006.snapshot", &encode_snapshot([]));
            }
            let loaded = disk.load(&config);
            let found = |it: &&Warning| matches!(it, Warning::DamageKept { base_offset, damage, .. } if base_offset.get() == 6 && damage.position() == Position::saturating_from_len(length_at));
            let told = loaded.report.warnings.iter().filter(found).count();
            // After a clean stop a log without snapshots has no producers, and is not read.
            let is_read = has_snapshot || !config.clean_shutdown;
            assert_eq!(told, usize::from(is_read), "{:?}", loaded.report.warnings);
        }
    }
}

#[test]
fn batches_that_a_replay_of_producers_passes_over_are_reported() {
    let first = TestBatch::new(0, 1).producer(9, 0, 0).transactional().bytes();
    let outside = TestBatch::new(4, 1).producer(9, 0, 1).bytes();
    let mut unknown = marker(4, (9, 0), TxnOutcome::Commit, 0);
    let record_at = unknown.len() - 17;
    unknown[record_at..].fill(0x7f);
    for (second, is_unknown) in [(outside, false), (unknown, true)] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &[first.clone(), second].concat());
        disk.segment_with_indexes(6, &TestBatch::new(6, 1).bytes());
        let loaded = disk.load(&unclean().recovery_point(Offset::new(6)));
        let found = |it: &&Warning| match it {
            Warning::DamageKept { base_offset, .. } => is_unknown && base_offset.get() == 0,
            Warning::ProducerBatch { offset, .. } => !is_unknown && offset.get() == 4,
            _ => false,
        };
        let warnings = &loaded.report.warnings;
        assert_eq!(warnings.iter().filter(found).count(), 1, "{is_unknown} {warnings:?}");
    }
}

/// Each batch would be held otherwise: a gigabyte of them takes as much memory.
#[test]
fn of_the_batches_of_a_segment_that_no_producer_can_have_written_the_first_is_reported() {
    let disk = Disk::new();
    let first = TestBatch::new(0, 1).producer(9, 0, 0).transactional().bytes();
    let outside = |n: i32| TestBatch::new(n.into(), 1).producer(9, 0, n).bytes();
    disk.segment_with_indexes(0, &[first, (1..9).flat_map(outside).collect()].concat());
    disk.segment_with_indexes(9, &(9..12).flat_map(outside).collect::<Vec<_>>());
    let loaded = disk.load(&unclean());
    let told = loaded.report.warnings.iter().filter_map(|warning| match warning {
        Warning::ProducerBatch { offset, .. } => Some(offset.get()),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [1, 9]);
}
