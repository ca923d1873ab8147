//! What a segment shows to readers beside its writer: how many bytes hold batches, and whether some
//! of what was seen may have been taken back meanwhile.
//!
//! `cargo xtask schedules` tries every order that the memory model allows (the tests below).

use std::sync::atomic::Ordering;

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU32, fence};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU32, fence};

/// One writer, any number of readers, and nobody waits.
#[derive(Debug)]
pub(crate) struct Published {
    size: AtomicU32,
    /// Counts truncations and new indexes; odd while one is under way.
    generation: AtomicU32,
}

impl Published {
    pub(crate) fn new(size: u32) -> Self {
        Self { size: AtomicU32::new(size), generation: AtomicU32::new(0) }
    }

    /// Shows the first `size` bytes to readers, all of them written by now.
    pub(crate) fn show(&self, size: u32) {
        // Release: who sees the new size sees what was written before.
        self.size.store(size, Ordering::Release);
    }

    pub(crate) fn size(&self) -> u32 {
        self.size.load(Ordering::Acquire)
    }

    /// What is seen of the segment in one generation stays so as long as it lasts.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether nothing was taken back since this generation was seen, nor is something now.
    pub(crate) fn is_still(&self, generation: u32) -> bool {
        // What was read of the index was read before.
        fence(Ordering::Acquire);
        generation.is_multiple_of(2) && generation == self.generation.load(Ordering::Relaxed)
    }

    /// Tells readers that what they found may go, until the guard is dropped.
    pub(crate) fn take_back(&self) -> TakingBack<'_> {
        self.generation.fetch_add(1, Ordering::AcqRel);
        // What is changed from here on is not seen before the new generation. Pairs with the fence
        // in `is_still`.
        fence(Ordering::Release);
        TakingBack(self)
    }
}

/// Something is being taken back.
pub(crate) struct TakingBack<'a>(&'a Published);

impl Drop for TakingBack<'_> {
    fn drop(&mut self) {
        self.0.generation.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
mod schedules {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    use super::*;
    use crate::exact::ExactEntries;

    /// The entry leads to a batch of its own, so a read may learn that it is exact.
    const EXACT: u64 = 1;
    /// Several batches lie before it.
    const ROUGH: u64 = 2;

    /// A segment with two index entries, and what readers have learned of them.
    struct Indexed {
        published: Published,
        entries: [AtomicU64; 2],
        exact: ExactEntries,
    }

    impl Indexed {
        fn new() -> Self {
            let exact = ExactEntries::default();
            // The room is there: what is modelled are the words in it.
            exact.insert(0, u32::MAX, 2);
            let entries = [AtomicU64::new(EXACT), AtomicU64::new(EXACT)];
            Self { published: Published::new(0), entries, exact }
        }

        /// A read by this entry: it takes it for exact where one before has learned that, or looks
        /// at the log and learns.
        fn read(&self, slot: usize) {
            let generation = self.published.generation();
            let entry = self.entries[slot].load(Ordering::Relaxed);
            let is_known = self.exact.contains(slot, generation);
            if !self.published.is_still(generation) {
                return;
            }
            if is_known {
                assert_eq!(entry, EXACT, "taken for exact in generation {generation}");
            } else if entry == EXACT {
                self.exact.insert(slot, generation, 2);
            }
        }
    }

    #[test]
    fn what_reads_learn_of_an_entry_is_not_believed_of_the_one_that_comes_in_its_place() {
        loom::model(|| {
            let indexed = Arc::new(Indexed::new());
            let reader = thread::spawn({
                let indexed = Arc::clone(&indexed);
                move || [0, 1, 0].into_iter().for_each(|slot| indexed.read(slot))
            });
            {
                let _cut = indexed.published.take_back();
                indexed.entries[0].store(0, Ordering::Relaxed);
            }
            indexed.entries[0].store(ROUGH, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }

    /// A log file of one batch: its bytes are one number.
    struct Written {
        published: Published,
        bytes: AtomicU64,
    }

    #[test]
    fn a_reader_sees_the_bytes_of_a_size_in_one_generation_or_finds_out() {
        loom::model(|| {
            let written =
                Arc::new(Written { published: Published::new(0), bytes: AtomicU64::new(0) });
            let reader = thread::spawn({
                let written = Arc::clone(&written);
                move || {
                    let generation = written.published.generation();
                    let size = written.published.size();
                    let bytes = written.bytes.load(Ordering::Relaxed);
                    if size > 0 && written.published.is_still(generation) {
                        assert_eq!(bytes, if generation == 0 { 1 } else { 2 });
                    }
                }
            });
            written.bytes.store(1, Ordering::Relaxed);
            written.published.show(1);
            {
                let _cut = written.published.take_back();
                written.published.show(0);
            }
            written.bytes.store(2, Ordering::Relaxed);
            written.published.show(1);
            reader.join().unwrap();
        });
    }
}
