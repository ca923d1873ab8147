//! The leader epoch cache: assignment, truncation, look-ups, its file.

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::{EpochEntry, LeaderEpochCache, read_epochs};
use alluvium_segment::Io;

const fn epoch(raw: i32) -> LeaderEpoch {
    LeaderEpoch::new(raw)
}

const fn at(raw: i64) -> Offset {
    Offset::new(raw)
}

fn cache(pairs: &[(i32, i64)]) -> LeaderEpochCache {
    let entries: Vec<_> = pairs.iter().map(|&(e, o)| EpochEntry::new(epoch(e), at(o))).collect();
    LeaderEpochCache::new(&entries)
}

fn pairs(cache: &LeaderEpochCache) -> Vec<(i32, i64)> {
    cache.entries().iter().map(|entry| (entry.epoch.get(), entry.start_offset.get())).collect()
}

/// FR-087.
#[test]
fn epoch_zero_is_an_epoch_and_minus_one_adds_nothing() {
    let mut epochs = LeaderEpochCache::default();
    for (number, offset) in [(0, 0), (0, 3), (-1, 4), (1, 6)] {
        epochs.assign(epoch(number), at(offset));
    }
    assert_eq!(pairs(&epochs), [(0, 0), (1, 6)]);
}

/// FR-088.
#[test]
fn truncation_at_or_past_the_end_still_trims_epochs() {
    let mut epochs = LeaderEpochCache::default();
    epochs.assign(epoch(19), at(27));
    let log_end = at(29);
    epochs.assign(epoch(20), log_end);
    epochs.truncate_from_end(log_end);
    assert_eq!(pairs(&epochs), [(19, 27)]);
    epochs.assign(epoch(24), log_end);
    epochs.truncate_from_end(log_end);
    assert_eq!(pairs(&epochs), [(19, 27)]);
}

#[test]
fn an_assignment_wipes_what_contradicts_it() {
    for (number, offset, left) in [
        (4, 400, vec![(0, 0), (2, 100), (4, 400)]),
        (2, 100, vec![(0, 0), (2, 100)]),
        (2, 500, vec![(0, 0), (2, 100)]),
        (2, 50, vec![(0, 0), (2, 50)]),
        (1, 500, vec![(0, 0), (1, 500)]),
        (1, 20, vec![(0, 0), (1, 20)]),
        (5, 0, vec![(5, 0)]),
        (3, 100, vec![(0, 0), (3, 100)]),
    ] {
        let mut epochs = cache(&[(0, 0), (2, 100)]);
        let news = epochs.assign(epoch(number), at(offset));
        assert_eq!(pairs(&epochs), left, "{number} at {offset}");
        assert_eq!(news, left != [(0, 0), (2, 100)], "{number} at {offset}");
    }
}

#[test]
fn a_file_whose_columns_do_not_rise_is_mended_and_becomes_dirty() {
    let mended = cache(&[(0, 0), (3, 50), (2, 70), (4, 60)]);
    assert_eq!(pairs(&mended), [(0, 0), (4, 60)]);
    assert!(mended.is_dirty());
    assert!(!cache(&[(0, 0), (3, 50)]).is_dirty());
}

#[test]
fn end_offsets_follow_the_table_of_the_format_page() {
    let epochs = cache(&[(2, 100), (4, 300), (7, 300 + 200)]);
    let end = |requested| {
        epochs.end_offset_for(epoch(requested), at(900)).map(|(e, o)| (e.get(), o.get()))
    };
    assert_eq!(end(7), Some((7, 900)));
    assert_eq!(end(8), None);
    assert_eq!(end(1), Some((1, 100)));
    assert_eq!(end(2), Some((2, 300)));
    assert_eq!(end(3), Some((2, 300)));
    assert_eq!(end(6), Some((4, 500)));
    assert_eq!(end(-1), None);
    let from_zero = cache(&[(0, 0), (2, 100)]).end_offset_for(epoch(0), at(900));
    assert_eq!(from_zero, Some((epoch(0), at(100))), "epoch 0 is an epoch");
    assert_eq!(LeaderEpochCache::default().end_offset_for(epoch(0), at(5)), None);
}

#[test]
fn neighbours_and_the_epoch_of_an_offset_are_found() {
    let epochs = cache(&[(2, 100), (4, 300)]);
    let number = |entry: Option<EpochEntry>| entry.map(|entry| entry.epoch.get());
    assert_eq!(number(epochs.previous(epoch(4))), Some(2));
    assert_eq!(number(epochs.previous(epoch(2))), None);
    assert_eq!(number(epochs.next(epoch(2))), Some(4));
    assert_eq!(number(epochs.next(epoch(4))), None);
    assert_eq!(number(epochs.entry(epoch(3))), None);
    assert_eq!(number(epochs.earliest()), Some(2));
    for (offset, expected) in [(99, None), (100, Some(2)), (299, Some(2)), (300, Some(4))] {
        assert_eq!(epochs.epoch_for_offset(at(offset)).map(LeaderEpoch::get), expected);
    }
}

#[test]
fn truncation_from_the_start_keeps_the_epoch_in_force() {
    for (start, left) in [
        (0, vec![(2, 100), (4, 300), (7, 500)]),
        (99, vec![(2, 100), (4, 300), (7, 500)]),
        (100, vec![(2, 100), (4, 300), (7, 500)]),
        (150, vec![(2, 150), (4, 300), (7, 500)]),
        (300, vec![(4, 300), (7, 500)]),
        (499, vec![(4, 499), (7, 500)]),
        (900, vec![(7, 900)]),
    ] {
        let before = [(2, 100), (4, 300), (7, 500)];
        let mut epochs = cache(&before);
        let changed = epochs.truncate_from_start(at(start));
        assert_eq!(pairs(&epochs), left, "{start}");
        assert_eq!((changed, epochs.is_dirty()), (left != before, left != before), "{start}");
    }
}

#[test]
fn a_truncation_from_the_end_says_whether_an_epoch_went() {
    for (end, left) in [
        (-1, vec![(2, 100), (4, 300)]),
        (100, vec![]),
        (101, vec![(2, 100)]),
        (300, vec![(2, 100)]),
        (301, vec![(2, 100), (4, 300)]),
    ] {
        let before = [(2, 100), (4, 300)];
        let mut epochs = cache(&before);
        let changed = epochs.truncate_from_end(at(end));
        assert_eq!(pairs(&epochs), left, "{end}");
        assert_eq!((changed, epochs.is_dirty()), (left != before, left != before), "{end}");
    }
}

#[test]
fn the_file_is_written_once_a_change_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut epochs = LeaderEpochCache::default();
    assert!(epochs.pending_write().is_none());
    epochs.assign(epoch(0), at(0));
    let pending = epochs.pending_write().unwrap();
    epochs.assign(epoch(1), at(6));
    pending.write(&Io::new(), dir.path()).unwrap();
    epochs.mark_written(&pending);
    assert!(epochs.is_dirty(), "epoch 1 came after the pending write was taken");
    epochs.flush(&Io::new(), dir.path()).unwrap();
    assert!(!epochs.is_dirty());
    assert_eq!(read_epochs(&Io::new(), dir.path()).unwrap(), epochs.entries());
    epochs.clear();
    epochs.flush(&Io::new(), dir.path()).unwrap();
    let path = dir.path().join(LeaderEpochCache::FILE_NAME);
    assert_eq!(std::fs::read(path).unwrap(), b"0\n0\n");
}
