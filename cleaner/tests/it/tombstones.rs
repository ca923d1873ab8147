//! Tombstones, and what is left of batches.

use alluvium_cleaner::{ActiveProducers, CleanError};
use alluvium_record_format::{Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::support::{
    Fixture, NOW, RETENTION, batch, each_batch, idempotent, offsets, options, options_at,
};

#[test]
fn a_tombstone_goes_in_the_first_pass_at_its_horizon() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1")), ("b", Some("2"))]), batch(2, &[("a", None)])]);
    fixture.sealed(3, &[]);
    let pass = |now| fixture.clean(&options_at(0, 3, now)).unwrap();

    pass(NOW);
    assert_eq!(offsets(&fixture.records()), [1, 2]);
    let mut horizons = Vec::new();
    each_batch(&fixture.segments()[0], |batch| horizons.push(batch.header().delete_horizon()));
    assert_eq!(horizons, [None, Some(Timestamp::new(NOW + RETENTION))]);

    pass(NOW + RETENTION - 1);
    assert_eq!(offsets(&fixture.records()), [1, 2]);
    pass(NOW + RETENTION);
    assert_eq!(offsets(&fixture.records()), [1]);
}

#[test]
fn a_batch_keeps_its_range_when_records_at_its_ends_go() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1")), ("b", Some("2")), ("c", Some("3"))])]);
    fixture.sealed(3, &[batch(3, &[("a", Some("4")), ("c", Some("5"))])]);
    fixture.sealed(5, &[]);
    fixture.clean(&options(0, 5)).unwrap();
    assert_eq!(fixture.batches(), [(0, 2, 1), (3, 4, 2)]);
    assert_eq!(offsets(&fixture.records()), [1, 3, 4]);
    assert_eq!(fixture.bases(), [0, 5]);
}

#[test]
fn the_last_batch_of_an_active_producer_stays_without_records() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[idempotent(0, 9, (0, 0), &[("a", Some("1"))])]);
    fixture.sealed(1, &[batch(1, &[("a", Some("2"))])]);
    fixture.sealed(2, &[]);
    let mut producers = ActiveProducers::default();
    producers.insert(ProducerId::new(9), ProducerEpoch::new(0), Some(Offset::new(0)));
    fixture.clean(&options(0, 2).active_producers(producers)).unwrap();
    assert_eq!(fixture.batches(), [(0, 0, 0), (1, 1, 1)]);
    // Expired by now.
    fixture.clean(&options(0, 2)).unwrap();
    assert_eq!(fixture.batches(), [(1, 1, 1)]);
}

#[test]
fn a_dry_run_reports_the_same_and_changes_nothing() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))]), batch(1, &[("a", None)])]);
    fixture.sealed(2, &[]);
    let before = fixture.files();
    let planned = fixture.clean(&options(0, 2).dry_run(true)).unwrap();
    assert_eq!(fixture.files(), before);
    let done = fixture.clean(&options(0, 2)).unwrap();
    assert_eq!(planned, done);
    assert_eq!(done.counts.records_written, 1);
}

#[test]
fn a_map_for_no_key_is_an_error_and_not_a_loss() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))])]);
    fixture.sealed(1, &[]);
    let memory = alluvium_cleaner::CleanerConfig::new().map_bytes(10);
    let error = fixture.clean_with(memory, &options(0, 1)).unwrap_err();
    assert!(matches!(error, CleanError::MapTooSmall));
    assert_eq!(offsets(&fixture.records()), [0]);
}

#[test]
fn a_map_that_the_system_has_no_room_for_is_an_error() {
    let fixture = Fixture::new();
    fixture.sealed(0, &[batch(0, &[("a", Some("1"))])]);
    fixture.sealed(1, &[]);
    for bytes in [usize::MAX, usize::MAX / 2, usize::MAX / 4] {
        let memory = alluvium_cleaner::CleanerConfig::new().map_bytes(bytes);
        let error = fixture.clean_with(memory, &options(0, 1)).unwrap_err();
        assert!(matches!(error, CleanError::OutOfMemory), "{error:?}");
    }
    assert_eq!(offsets(&fixture.records()), [0]);
}

#[test]
fn records_beyond_a_full_map_wait_for_the_next_pass() {
    let fixture = Fixture::new();
    let pairs = [("a", Some("1")), ("b", Some("2")), ("c", Some("3")), ("a", Some("4"))];
    fixture.sealed(0, &[batch(0, &pairs)]);
    fixture.sealed(4, &[]);
    let memory = alluvium_cleaner::CleanerConfig::new().map_bytes(48).load_factor(1.0);
    let report = fixture.clean_with(memory, &options(0, 4)).unwrap();
    assert!(report.is_map_full);
    assert_eq!(report.next_dirty_offset, Offset::new(2));
    assert_eq!(offsets(&fixture.records()), [0, 1, 2, 3]);
    let report = fixture.clean_with(memory, &options(2, 4)).unwrap();
    assert_eq!(report.next_dirty_offset, Offset::new(4));
    assert_eq!(offsets(&fixture.records()), [1, 2, 3]);
}
