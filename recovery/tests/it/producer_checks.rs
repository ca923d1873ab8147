//! What producer state lets in: sequences, duplicates, epochs, markers.

use alluvium_record_format::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp, TxnOutcome};
use alluvium_recovery::{
    AppendOrigin, AppendRequest, BatchMetadata, Prepared, ProducerBatch, ProducerError,
    ProducerState, ProducerStateConfig, VerificationRequest,
};

use crate::batches::{TestBatch, facts, marker};

const CLIENT: AppendRequest = AppendRequest::new(AppendOrigin::Client);
const REPLICATION: AppendRequest = AppendRequest::new(AppendOrigin::Replication);
const COORDINATOR: AppendRequest =
    AppendRequest::new(AppendOrigin::Coordinator).with_transaction_version(1);

/// A log as producer state sees it: offsets rise, accepted batches are applied.
struct Log {
    state: ProducerState,
    end: i64,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Appended(i64),
    Duplicate { first: i64, last: i64 },
    Refused(i16),
}

use Outcome::{Appended, Duplicate, Refused};

impl Log {
    fn new() -> Self {
        let config = ProducerStateConfig::new().transaction_verification(false);
        Self { state: ProducerState::new(config), end: 0 }
    }

    fn append(&mut self, request: &AppendRequest, batch: &ProducerBatch) -> Outcome {
        match self.state.prepare(request, [*batch]) {
            Ok(Prepared::Append(prepared)) => {
                for completed in self.state.apply(prepared) {
                    assert!(self.state.complete(&completed));
                }
                self.end = batch.last_offset.get() + 1;
                self.state.set_map_end_offset(Offset::new(self.end));
                Appended(batch.base_offset.get())
            }
            Ok(Prepared::Duplicate(known)) => {
                Duplicate { first: known.first_offset().get(), last: known.last_offset.get() }
            }
            Ok(other) => panic!("unknown outcome {other:?}"),
            Err(error) => Refused(error.code()),
        }
    }

    fn send(&mut self, producer: (i64, i16, i32), count: usize) -> Outcome {
        let (id, epoch, sequence) = producer;
        let batch = TestBatch::new(self.end, count).producer(id, epoch, sequence).facts();
        self.append(&CLIENT, &batch)
    }

    fn send_in_txn(&mut self, producer: (i64, i16, i32), count: usize) -> Outcome {
        let (id, epoch, sequence) = producer;
        let batch = TestBatch::new(self.end, count).producer(id, epoch, sequence).transactional();
        self.append(&CLIENT, &batch.facts())
    }

    fn end_txn(&mut self, producer: (i64, i16), outcome: TxnOutcome, coordinator: i32) -> Outcome {
        let batch = facts(&marker(self.end, producer, outcome, coordinator));
        self.append(&COORDINATOR, &batch)
    }

    fn batches(&self, id: i64) -> &[BatchMetadata] {
        self.state.producer(ProducerId::new(id)).unwrap().batches.as_slice()
    }
}

/// FR-081.
#[test]
fn a_batch_may_straddle_the_wrap_of_the_sequence() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 0, 2_147_483_646), 3), Appended(0));
    assert_eq!(log.batches(9)[0].last_sequence, Sequence::new(0));
    assert_eq!(log.send((9, 0, 1), 1), Appended(3));
    assert_eq!(log.send((9, 0, 2), 1), Appended(4));
}

/// FR-081.
#[test]
fn the_sequence_after_a_straddling_batch_is_checked_from_zero() {
    let mut log = Log::new();
    log.end = 2000;
    assert_eq!(log.send((9, 0, 2_147_483_637), 21), Appended(2000));
    let batch = log.batches(9)[0];
    assert_eq!(batch.first_sequence(), Sequence::new(2_147_483_637));
    assert_eq!(batch.last_sequence, Sequence::new(9));
    assert_eq!((batch.first_offset().get(), batch.last_offset.get()), (2000, 2020));
    assert_eq!(log.send((9, 0, 11), 1), Refused(45));
    assert_eq!(log.send((9, 0, 10), 1), Appended(2021));
}

#[test]
fn after_the_largest_sequence_comes_zero_and_nothing_else() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 0, i32::MAX), 1), Appended(0));
    assert_eq!(log.send((9, 0, 1), 1), Refused(45));
    assert_eq!(log.send((9, 0, 0), 1), Appended(1));
}

/// FR-082.
#[test]
fn a_retry_of_one_of_the_last_five_batches_is_answered_and_older_ones_are_refused() {
    let mut log = Log::new();
    for sequence in 0..6 {
        assert_eq!(log.send((9, 0, sequence), 1), Appended(i64::from(sequence)));
    }
    assert_eq!(log.send((9, 0, 0), 1), Refused(45));
    for sequence in 1..6 {
        let offset = i64::from(sequence);
        assert_eq!(log.send((9, 0, sequence), 1), Duplicate { first: offset, last: offset });
    }
    assert_eq!(log.send((9, 0, 7), 1), Refused(45));
    assert_eq!(log.end, 6);
}

#[test]
fn a_batch_that_overlaps_an_earlier_one_is_no_duplicate() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 0, 0), 3), Appended(0));
    assert_eq!(log.send((9, 0, 0), 2), Refused(45));
    assert_eq!(log.send((9, 0, 1), 2), Refused(45));
    assert_eq!(log.send((9, 0, 0), 3), Duplicate { first: 0, last: 2 });
}

#[test]
fn a_retry_under_a_new_epoch_is_a_new_batch() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 0, 0), 1), Appended(0));
    assert_eq!(log.send((9, 1, 0), 1), Appended(1));
    assert_eq!(log.batches(9).len(), 1);
    assert_eq!(log.send((9, 0, 0), 1), Refused(47));
    assert_eq!(log.send((9, 2, 1), 1), Refused(45));
}

/// FR-029: the first sequence of a producer that is not known may be any.
#[test]
fn an_unknown_producer_may_start_anywhere() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 3, 5), 1), Appended(0));
    assert_eq!(log.send((9, 3, 5), 1), Duplicate { first: 0, last: 0 });
}

#[test]
fn a_coordinator_and_a_follower_need_no_sequence() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 1, 0), 1), Appended(0));
    let gap = TestBatch::new(1, 1).producer(9, 1, 50).facts();
    assert_eq!(log.append(&REPLICATION, &gap), Appended(1));
    let always_zero = TestBatch::new(2, 2).producer(9, 1, 0).facts();
    assert_eq!(log.append(&COORDINATOR, &always_zero), Appended(2));
    let stale = TestBatch::new(4, 1).producer(9, 0, 0).facts();
    assert_eq!(log.append(&COORDINATOR, &stale), Refused(47));
    assert_eq!(log.append(&REPLICATION, &stale), Appended(4));
}

#[test]
fn several_batches_of_one_append_follow_each_other() {
    let log = Log::new();
    let batch = |offset, sequence| TestBatch::new(offset, 2).producer(9, 0, sequence).facts();
    assert!(log.state.prepare(&CLIENT, [batch(0, 0), batch(2, 2)]).is_ok());
    let error = log.state.prepare(&CLIENT, [batch(0, 5), batch(2, 7)]);
    assert!(error.is_ok(), "an unknown producer may start anywhere: {error:?}");
}

/// FR-085.
#[test]
fn a_prepared_append_that_is_not_written_changes_nothing() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 0, 0), 1), Appended(0));
    let retried = TestBatch::new(1, 1).producer(9, 0, 1).transactional().facts();
    let Ok(Prepared::Append(prepared)) = log.state.prepare(&CLIENT, [retried]) else {
        panic!("sequence 1 follows 0");
    };
    drop(prepared);
    assert_eq!(log.batches(9).len(), 1);
    assert_eq!(log.state.first_unstable(), None);
    assert_eq!(log.append(&CLIENT, &retried), Appended(1));
    assert_eq!(log.append(&CLIENT, &retried), Duplicate { first: 1, last: 1 });
}

/// FR-085.
#[test]
fn a_transaction_that_is_not_completed_holds_back_the_last_stable_offset() {
    let mut log = Log::new();
    assert_eq!(log.send_in_txn((9, 0, 0), 2), Appended(0));
    let abort = facts(&marker(2, (9, 0), TxnOutcome::Abort, 0));
    let Ok(Prepared::Append(prepared)) = log.state.prepare(&COORDINATOR, [abort]) else {
        panic!("the transaction is open");
    };
    let completed = log.state.apply(prepared);
    assert!(completed[0].is_aborted);
    // The transaction index could not be written, so the transaction is not completed.
    log.end = 3;
    log.state.on_high_watermark(Offset::new(3));
    assert_eq!(log.send((7, 0, 0), 1), Appended(3));
    assert_eq!(log.state.first_unstable().unwrap().first_offset, Offset::new(0));
}

#[test]
fn a_transaction_opens_ends_and_becomes_stable_with_the_high_watermark() {
    let mut log = Log::new();
    assert_eq!(log.send_in_txn((9, 0, 0), 2), Appended(0));
    assert_eq!(log.send_in_txn((8, 0, 0), 1), Appended(2));
    assert_eq!(log.send((9, 0, 2), 1), Refused(48));
    assert_eq!(log.end_txn((9, 0), TxnOutcome::Commit, 3), Appended(3));
    assert_eq!(log.state.first_undecided_offset(), Some(Offset::new(2)));
    assert_eq!(log.state.first_unstable().unwrap().first_offset, Offset::new(0));
    log.state.on_high_watermark(Offset::new(3));
    assert_eq!(log.state.first_unstable().unwrap().first_offset, Offset::new(0));
    log.state.on_high_watermark(Offset::new(4));
    assert_eq!(log.state.first_unstable().unwrap().first_offset, Offset::new(2));
    assert_eq!(log.batches(9).len(), 1, "batches of the same epoch stay");
    assert_eq!(log.send((9, 0, 2), 1), Appended(4));
}

#[test]
fn the_last_stable_offset_of_a_marker_ignores_transactions_of_its_own_producer() {
    let mut log = Log::new();
    assert_eq!(log.send_in_txn((9, 0, 0), 2), Appended(0));
    let prepare = |log: &Log| {
        let batch = facts(&marker(log.end, (9, 0), TxnOutcome::Abort, 0));
        let Ok(Prepared::Append(prepared)) = log.state.prepare(&COORDINATOR, [batch]) else {
            panic!("the transaction is open");
        };
        prepared
    };
    let alone = prepare(&log).completed()[0];
    assert_eq!(log.state.last_stable_offset(&alone), Offset::new(3));
    assert_eq!(log.send_in_txn((8, 0, 0), 1), Appended(2));
    let beside = prepare(&log).completed()[0];
    assert_eq!(log.state.last_stable_offset(&beside), Offset::new(2));
}

#[test]
fn of_two_batches_in_one_append_the_second_follows_the_first() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 0, 0), 1), Appended(0));
    let batch = |offset, sequence| TestBatch::new(offset, 1).producer(9, 0, sequence).facts();
    assert!(log.state.prepare(&CLIENT, [batch(1, 1), batch(2, 2)]).is_ok());
    let gap = log.state.prepare(&CLIENT, [batch(1, 1), batch(2, 3)]).unwrap_err();
    assert_eq!(gap.code(), 45);
}

#[test]
fn a_marker_without_a_transaction_completes_nothing() {
    let mut log = Log::new();
    let batch = facts(&marker(0, (9, 4), TxnOutcome::Abort, 1));
    let Ok(Prepared::Append(prepared)) = log.state.prepare(&COORDINATOR, [batch]) else {
        panic!("a marker for an unknown producer is accepted");
    };
    assert_eq!(prepared.completed(), []);
    assert_eq!(log.append(&COORDINATOR, &batch), Appended(0));
    let entry = log.state.producer(ProducerId::new(9)).unwrap();
    assert_eq!(entry.producer_epoch, ProducerEpoch::new(4));
    assert_eq!(entry.coordinator_epoch, Some(1));
    assert_eq!(entry.last_timestamp, Timestamp::new(2000));
    // An entry that a marker made expects sequence 0.
    assert_eq!(log.send((9, 4, 1), 1), Refused(45));
    assert_eq!(log.send((9, 4, 0), 1), Appended(1));
}

#[test]
fn a_fenced_coordinator_is_refused_and_its_replicated_marker_taken() {
    let mut log = Log::new();
    assert_eq!(log.end_txn((9, 0), TxnOutcome::Commit, 5), Appended(0));
    assert_eq!(log.end_txn((9, 0), TxnOutcome::Commit, 4), Refused(52));
    let late = facts(&marker(1, (9, 0), TxnOutcome::Commit, 4));
    assert_eq!(log.append(&REPLICATION, &late), Appended(1));
}

#[test]
fn a_marker_of_transactions_version_2_brings_a_new_epoch_unless_it_is_a_retry() {
    let version_2 = COORDINATOR.with_transaction_version(2);
    let commit = |log: &Log, epoch| facts(&marker(log.end, (9, epoch), TxnOutcome::Commit, 0));
    let mut log = Log::new();
    assert_eq!(log.send_in_txn((9, 3, 0), 1), Appended(0));
    let same_epoch = commit(&log, 3);
    assert_eq!(log.append(&version_2, &same_epoch), Refused(47));
    let next_epoch = commit(&log, 4);
    assert_eq!(log.append(&version_2, &next_epoch), Appended(1));
    let retry = commit(&log, 4);
    assert_eq!(log.append(&version_2, &retry), Appended(2));

    assert_eq!(log.send_in_txn((9, i16::MAX, 0), 1), Appended(3));
    let used_up = commit(&log, i16::MAX);
    assert_eq!(log.append(&version_2, &used_up), Appended(4));
}

#[test]
fn a_marker_needs_a_transaction_version_unless_it_is_replicated() {
    let mut log = Log::new();
    let batch = facts(&marker(0, (9, 0), TxnOutcome::Commit, 0));
    let without = AppendRequest::new(AppendOrigin::Coordinator);
    let error = log.state.prepare(&without, [batch]).unwrap_err();
    assert!(matches!(error, ProducerError::MissingTransactionVersion { .. }), "{error}");
    assert_eq!(log.append(&REPLICATION, &batch), Appended(0));
}

#[test]
fn the_first_record_of_a_transaction_needs_its_guard() {
    let mut state = ProducerState::new(ProducerStateConfig::new());
    let (id, epoch) = (ProducerId::new(9), ProducerEpoch::new(0));
    let batch = TestBatch::new(0, 1).producer(9, 0, 0).transactional().facts();
    assert_eq!(state.prepare(&CLIENT, [batch]).unwrap_err().code(), 48);

    let request = VerificationRequest::new(id, epoch, Sequence::new(0));
    let guard = state.start_verification(&request, Timestamp::new(0)).unwrap();
    let again = state.start_verification(&request, Timestamp::new(0)).unwrap();
    assert_eq!(guard, again, "a second request joins the first");
    let other = VerificationRequest::new(ProducerId::new(8), epoch, Sequence::new(0));
    let other = state.start_verification(&other, Timestamp::new(0)).unwrap();
    assert_eq!(state.prepare(&CLIENT.with_guard(other), [batch]).unwrap_err().code(), 48);

    let Prepared::Append(prepared) = state.prepare(&CLIENT.with_guard(guard), [batch]).unwrap()
    else {
        panic!("verified");
    };
    state.apply(prepared);
    assert_eq!(state.start_verification(&request, Timestamp::new(0)), Ok(None));
    // Open now, so later batches need no guard.
    let next = TestBatch::new(1, 1).producer(9, 0, 1).transactional().facts();
    assert!(state.prepare(&CLIENT, [next]).is_ok());
}

#[test]
fn a_verified_batch_that_overtook_another_is_refused() {
    let mut state = ProducerState::new(ProducerStateConfig::new());
    let (id, epoch) = (ProducerId::new(9), ProducerEpoch::new(0));
    let request = |sequence| VerificationRequest::new(id, epoch, Sequence::new(sequence));
    let guard = state.start_verification(&request(5), Timestamp::new(0)).unwrap();
    state.start_verification(&request(3), Timestamp::new(0)).unwrap();
    let batch = |sequence| TestBatch::new(0, 1).producer(9, 0, sequence).transactional().facts();
    let client = CLIENT.with_guard(guard);
    assert_eq!(state.prepare(&client, [batch(5)]).unwrap_err().code(), 45);
    assert!(state.prepare(&client, [batch(3)]).is_ok());
}

#[test]
fn with_an_epoch_bump_an_unknown_producer_must_start_at_zero() {
    let mut state = ProducerState::new(ProducerStateConfig::new());
    let (id, epoch) = (ProducerId::new(9), ProducerEpoch::new(0));
    let request = VerificationRequest::new(id, epoch, Sequence::new(3)).with_epoch_bump();
    let guard = state.start_verification(&request, Timestamp::new(0)).unwrap();
    let batch = |sequence| TestBatch::new(0, 1).producer(9, 0, sequence).transactional().facts();
    let client = CLIENT.with_guard(guard);
    assert_eq!(state.prepare(&client, [batch(3)]).unwrap_err().code(), 45);
    assert!(state.prepare(&client, [batch(0)]).is_ok());
}

/// With transactions version 2 the marker of one transaction carries the epoch of the next, whose
/// verification may have begun.
#[test]
fn a_marker_of_the_epoch_that_is_verified_leaves_the_guard_of_the_first_record() {
    let request = |epoch| {
        let epoch = ProducerEpoch::new(epoch);
        VerificationRequest::new(ProducerId::new(9), epoch, Sequence::new(0))
    };
    let bump = |epoch| request(epoch).with_epoch_bump();
    assert_eq!(first_record_after_a_marker(&bump(1), 2), Appended(1));
    assert_eq!(first_record_after_a_marker(&bump(2), 2), Refused(48), "a marker of another epoch");
    assert_eq!(first_record_after_a_marker(&request(1), 1), Refused(48), "version 1");
}

/// Verifies a transaction of producer 9, appends a marker of epoch 1, and then the first record.
fn first_record_after_a_marker(request: &VerificationRequest, version: i16) -> Outcome {
    let mut log = Log { state: ProducerState::new(ProducerStateConfig::new()), end: 0 };
    let guard = log.state.start_verification(request, Timestamp::new(0)).unwrap();
    let marker = facts(&marker(0, (9, 1), TxnOutcome::Commit, 0));
    let coordinator = AppendRequest::new(AppendOrigin::Coordinator);
    assert_eq!(log.append(&coordinator.with_transaction_version(version), &marker), Appended(0));
    let epoch = request.producer_epoch.get();
    let batch = TestBatch::new(1, 1).producer(9, epoch, 0).transactional().facts();
    log.append(&CLIENT.with_guard(guard), &batch)
}

#[test]
fn a_silent_producer_is_forgotten_unless_its_transaction_is_open() {
    let mut log = Log::new();
    assert_eq!(log.send((9, 0, 5), 1), Appended(0));
    assert_eq!(log.send_in_txn((8, 0, 0), 1), Appended(1));
    let day = 86_400_000;
    log.state.remove_expired(Timestamp::new(1000 + day - 1));
    assert_eq!(log.state.producers().len(), 2);
    log.state.remove_expired(Timestamp::new(1000 + day));
    assert_eq!(log.state.producers().map(|p| p.producer_id.get()).collect::<Vec<_>>(), [8]);
    assert_eq!(log.send((9, 0, 70), 1), Appended(2), "a forgotten producer may start anywhere");
}

#[test]
fn a_transaction_is_late_after_its_longest_timeout_and_five_minutes() {
    let mut log = Log::new();
    assert_eq!(log.send_in_txn((8, 0, 0), 1), Appended(0));
    let limit = 900_000 + 300_000;
    assert!(!log.state.has_late_transaction(Timestamp::new(1000 + limit)));
    assert!(log.state.has_late_transaction(Timestamp::new(1001 + limit)));
}
