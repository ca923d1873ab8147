//! How much of an index readers may look at, and whether any of it was taken back meanwhile: one
//! atomic number, and the order in which it and the words change.
//!
//! `cargo xtask schedules` tries every order that the memory model allows (the test below).

use core::sync::atomic::Ordering;

#[cfg(not(all(test, loom)))]
use core::sync::atomic::{AtomicU64, fence};
#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU64, fence};

/// Valid bytes in the low half; in the high half how often bytes were taken back. One writer.
pub(crate) struct Published(AtomicU64);

/// What was published at one moment.
#[derive(Clone, Copy)]
pub(crate) struct State {
    pub(crate) valid_bytes: u32,
    pub(crate) times_taken_back: u32,
}

impl Published {
    /// Nothing yet.
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Shows the first `valid_bytes` to readers, as many as were stored by now.
    pub(crate) fn publish(&self, valid_bytes: u32) {
        let next = State { valid_bytes, ..self.latest() };
        // Release: who sees the new number sees the words that were stored before.
        self.0.store(next.pack(), Ordering::Release);
    }

    /// Takes bytes back: readers see `valid_bytes` from now on, and those that still look at
    /// more find out.
    pub(crate) fn take_back(&self, valid_bytes: u32) {
        let state = self.latest();
        let next = State {
            valid_bytes: valid_bytes.min(state.valid_bytes),
            times_taken_back: state.times_taken_back.wrapping_add(1),
        };
        self.0.store(next.pack(), Ordering::Release);
        // A store to the freed words that follows is not seen before the new state: a reader
        // that reads one finds the state changed. Pairs with the fence in `is_unchanged`.
        fence(Ordering::Release);
    }

    /// What the writer published last. For the writer.
    pub(crate) fn latest(&self) -> State {
        State::unpack(self.0.load(Ordering::Relaxed))
    }

    /// What a reader may look at.
    pub(crate) fn seen(&self) -> State {
        State::unpack(self.0.load(Ordering::Acquire))
    }

    /// Whether no byte was taken back since `seen`: then all words that were read meanwhile belong
    /// together.
    pub(crate) fn is_unchanged(&self, seen: State) -> bool {
        // The words that were read come before the state that is read now.
        fence(Ordering::Acquire);
        self.latest().times_taken_back == seen.times_taken_back
    }
}

impl State {
    const fn unpack(packed: u64) -> Self {
        let [t0, t1, t2, t3, v0, v1, v2, v3] = packed.to_be_bytes();
        Self {
            valid_bytes: u32::from_be_bytes([v0, v1, v2, v3]),
            times_taken_back: u32::from_be_bytes([t0, t1, t2, t3]),
        }
    }

    const fn pack(self) -> u64 {
        let [t0, t1, t2, t3] = self.times_taken_back.to_be_bytes();
        let [v0, v1, v2, v3] = self.valid_bytes.to_be_bytes();
        u64::from_be_bytes([t0, t1, t2, t3, v0, v1, v2, v3])
    }
}

#[cfg(all(test, loom))]
mod schedules {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// An index of two words, which hold the same number wherever they belong together.
    struct Index {
        published: Published,
        words: [AtomicU64; 2],
    }

    impl Index {
        fn store(&self, number: u64) {
            for word in &self.words {
                word.store(number, Ordering::Relaxed);
            }
            self.published.publish(16);
        }

        /// The number, if there is one and nothing was taken back while it was read.
        fn look(&self) -> Option<[u64; 2]> {
            let seen = self.published.seen();
            if seen.valid_bytes < 16 {
                return None;
            }
            let found = [0, 1].map(|at| self.words[at].load(Ordering::Relaxed));
            self.published.is_unchanged(seen).then_some(found)
        }
    }

    #[test]
    fn words_that_a_reader_takes_belong_together_whatever_the_writer_takes_back() {
        loom::model(|| {
            let words = [AtomicU64::new(0), AtomicU64::new(0)];
            let index = Arc::new(Index { published: Published::new(), words });
            let reader = thread::spawn({
                let index = Arc::clone(&index);
                move || {
                    for _ in 0..2 {
                        if let Some(found) = index.look() {
                            assert!(found == [1, 1] || found == [2, 2], "{found:?}");
                        }
                    }
                }
            });
            index.store(1);
            index.published.take_back(0);
            index.store(2);
            reader.join().unwrap();
        });
    }
}
