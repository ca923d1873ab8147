//! An index is opened by exactly one thread.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use alluvium_record_format::Offset;
use alluvium_sparse_index::{LazyIndex, OffsetIndexFile};

use crate::support::{Dir, at};

/// FR-038.
#[test]
fn sixteen_threads_that_ask_at_once_get_one_index_and_its_appends_work() {
    for _ in 0..100 {
        let dir = Dir::new();
        let index = LazyIndex::new();
        let (opened, barrier) = (AtomicUsize::new(0), Barrier::new(16));
        let path = dir.path("0.index");
        let open = || {
            opened.fetch_add(1, Ordering::Relaxed);
            OffsetIndexFile::create(&path, Offset::new(0), 1024, &dir.permit)
        };
        let append = || {
            barrier.wait();
            let index = index.get_or_open(open).unwrap();
            (1..=100).for_each(|offset| index.append(at(offset, 7)).unwrap());
        };
        let look_up = || {
            barrier.wait();
            let found = index.get_or_open(open).unwrap().lookup(Offset::new(50)).offset;
            assert!(found <= Offset::new(50));
        };
        thread::scope(|scope| {
            scope.spawn(append);
            (0..15).for_each(|_| drop(scope.spawn(look_up)));
        });
        assert_eq!(opened.load(Ordering::Relaxed), 1);
        assert_eq!(index.opened_ref().unwrap().len(), 100);
    }
}

#[test]
fn an_opener_that_fails_leaves_the_next_one_to_try_again() {
    let index = LazyIndex::new();
    assert_eq!(index.get_or_open(|| Err::<u32, _>("no")), Err("no"));
    assert_eq!(index.opened_ref(), None);
    assert_eq!(index.get_or_open(|| Ok::<_, &str>(7)), Ok(&7));
    assert_eq!(index.get_or_open(|| Err("not called")), Ok(&7));
}

#[test]
fn an_index_that_was_taken_out_is_opened_again() {
    let mut index = LazyIndex::opened(1);
    assert_eq!(index.take(), Some(1));
    assert_eq!(index.get_or_open(|| Ok::<_, ()>(2)), Ok(&2));
}
