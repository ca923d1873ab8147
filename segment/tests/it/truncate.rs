//! Truncation: whole batches alone, indexes with them.

use std::sync::atomic::{AtomicBool, Ordering};

use alluvium_record_format::{Offset, ProducerId, Timestamp};
use alluvium_segment::{ActiveSegment, RollInput};
use alluvium_sparse_index::AbortedTxn;

use crate::support::{Fixture, base_at, batch, birth, every_batch, hex, moved, one, ranges, three};

const INDEX: &str = "00000000000000000000.index";
const LOG: &str = "00000000000000000000.log";

fn truncate(active: &mut ActiveSegment, offset: i64) -> u32 {
    active.truncate_to(Offset::new(offset), Timestamp::new(7777)).unwrap()
}

/// FR-049: a target inside a batch removes the whole batch; one in a gap nothing before it.
#[test]
fn a_truncation_removes_whole_batches() {
    let gap = [&three()[..118], &three()[236..]].concat();
    for (log, target, len, next) in [
        (three(), 4, 118, 3),
        (gap, 4, 118, 3),
        (three(), 0, 0, 0),
        (three(), 9, 354, 9),
        (three(), 100, 354, 9),
        (three(), 6, 236, 6),
    ] {
        let fixture = Fixture::new();
        fixture.put(LOG, &log);
        let mut active = fixture.reopen(0);
        let removed = truncate(&mut active, target);
        assert_eq!(removed as usize, log.len() - len, "to {target}");
        assert_eq!(fixture.bytes(LOG), log[..len]);
        assert_eq!(active.next_offset(), Offset::new(next));
        assert_eq!(fixture.bytes(INDEX).len(), 1024, "grown to its capacity");
        let largest = active.segment().max_timestamp().unwrap();
        let expected = [(118, 1002), (236, 1005), (354, 1008)];
        let expected = expected.iter().find(|(at, _)| *at == len).map(|(_, time)| *time);
        assert_eq!(largest.map(|entry| entry.timestamp.get()), expected);
        active.append(&moved(&one(), next.max(target))).unwrap();
        let segment = active.seal().unwrap();
        assert_eq!(base_at(&segment, next.max(target)), Some(next.max(target)));
    }
}

#[test]
fn entries_behind_the_cut_are_gone() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    truncate(&mut active, 7);
    let segment = active.seal().unwrap();
    assert_eq!(fixture.bytes(INDEX), hex("00000005 00000076"));
    assert_eq!(fixture.bytes("00000000000000000000.timeindex"), hex("00000000000003ed 00000005"));
    assert_eq!(ranges(&segment), [(0, 2), (3, 5)]);
}

/// FR-049: a segment that was emptied counts as new.
#[test]
fn an_emptied_segment_is_as_old_as_the_truncation() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&batch(0, 1, -1)).unwrap();
    truncate(&mut active, 0);
    active.append(&batch(0, 1, -1)).unwrap();
    let at = |now| RollInput {
        append_bytes: 70,
        max_timestamp: None,
        max_offset: Offset::new(1),
        segment_bytes: 1024 * 1024,
        max_age_ms: 1000,
        now: Timestamp::new(now),
    };
    assert_eq!(active.should_roll(&at(8777)).unwrap(), None);
    assert!(active.should_roll(&at(8778)).unwrap().is_some());
}

#[test]
fn aborted_transactions_behind_the_cut_are_gone() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    for (first, last) in [(0, 2), (3, 5), (6, 8)] {
        let offset = |raw| Offset::new(raw);
        let txn =
            AbortedTxn::new(ProducerId::new(7), offset(first), offset(last), offset(last + 1));
        active.segment().append_aborted(txn).unwrap();
    }
    let collected = active.segment().collect_aborted(Offset::new(3), Offset::new(7)).unwrap();
    assert_eq!(collected.txns.len(), 2);
    truncate(&mut active, 5);
    let left: Vec<_> =
        active.segment().aborted().unwrap().iter().map(|txn| txn.last_offset.get()).collect();
    assert_eq!(left, [2]);
    assert_eq!(fixture.bytes("00000000000000000000.txnindex").len(), 34);
    active.segment().reset_aborted().unwrap();
    assert!(active.segment().aborted().unwrap().is_empty());
}

/// A sealed segment becomes the active one again when those behind it are cut off.
#[test]
fn a_sealed_segment_can_be_truncated_after_a_reopen() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let segment = active.seal().unwrap();
    assert_eq!(base_at(&segment, 8), Some(6));
    let mut active = ActiveSegment::reopen(segment.clone(), every_batch(), birth()).unwrap();
    truncate(&mut active, 3);
    assert_eq!(base_at(&segment, 8), None);
    assert_eq!(base_at(&segment, 2), Some(0));
    active.append(&moved(&one(), 3)).unwrap();
    assert_eq!(base_at(&segment, 3), Some(3));
}

/// Readers beside a writer that truncates and appends see whole batches of some state.
#[test]
fn readers_see_sound_batches_while_the_end_is_cut_and_written_again() {
    let fixture = Fixture::new();
    let mut active = fixture.create(0, every_batch());
    active.append(&three()).unwrap();
    let segment = active.segment().clone();
    let stop = AtomicBool::new(false);
    let read_all = || {
        for offset in (0..9).cycle().take_while(|_| !stop.load(Ordering::Relaxed)) {
            let base = base_at(&segment, offset);
            assert!(base.is_none() || base == Some(offset / 3 * 3), "{base:?}");
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(read_all);
        }
        for round in 0..300 {
            truncate(&mut active, 3 + round % 6);
            let from = usize::try_from(active.segment().size_bytes()).unwrap();
            active.append(&three()[from..]).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(ranges(&segment), [(0, 2), (3, 5), (6, 8)]);
}
