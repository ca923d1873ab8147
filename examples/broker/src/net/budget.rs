//! Memory in flight: buffers of large frames are counted, and used again.

use std::sync::Arc;

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bounds the bytes of all large frames together.
#[derive(Debug)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
    spare: Mutex<Vec<BytesMut>>,
}

impl Budget {
    pub(crate) fn new(max_bytes: u32) -> Self {
        let permits = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        let bytes = Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { bytes, spare: Mutex::default() }
    }

    /// A share of nothing yet.
    pub(crate) fn share(&self) -> Share {
        Share { bytes: Arc::clone(&self.bytes), permit: None }
    }

    /// A buffer to begin a frame of `bytes` with: a used one if the frame is not tiny, and there is
    /// one of about its size. What that holds is counted: it is given out only where there is room
    /// for it in the share at once.
    pub(crate) fn buffer(&self, bytes: usize, share: &mut Share) -> BytesMut {
        if bytes <= TINY {
            return BytesMut::with_capacity(bytes);
        }
        let most = bytes.saturating_mul(TOO_LARGE);
        let mut spare = self.spare.lock();
        let last = spare.iter().rposition(|buffer| buffer.capacity() <= most);
        let fits = last.filter(|at| {
            spare.get(*at).is_some_and(|buffer| share.has_grown_to(buffer.capacity()))
        });
        fits.map(|at| spare.swap_remove(at)).unwrap_or_default()
    }

    /// Keeps a buffer for the next frame of its size, in place of the oldest if there are many. A
    /// tiny or a huge one is let go.
    pub(crate) fn recycle(&self, mut buffer: BytesMut) {
        if !(TINY + 1..=HUGE).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        let mut spare = self.spare.lock();
        let oldest = (spare.len() >= SPARE_COUNT).then(|| spare.remove(0));
        spare.push(buffer);
        drop(spare);
        drop(oldest);
    }
}

/// What one frame has of the memory in flight; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    bytes: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Share {
    /// Waits until so many bytes in all are its own. Small frames are not counted.
    pub(crate) async fn grow_to(&mut self, bytes: usize) {
        let Some(missing) = self.missing(bytes) else { return };
        let more = Arc::clone(&self.bytes).acquire_many_owned(missing).await;
        if let Ok(more) = more {
            self.add(more);
        }
    }

    /// Like [`Self::grow_to`], but says `false` instead of waiting.
    fn has_grown_to(&mut self, bytes: usize) -> bool {
        let Some(missing) = self.missing(bytes) else { return true };
        let more = Arc::clone(&self.bytes).try_acquire_many_owned(missing);
        more.map(|more| self.add(more)).is_ok()
    }

    /// How much more it must have to have so many bytes; `None` for nothing.
    fn missing(&self, bytes: usize) -> Option<u32> {
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let is_enough = bytes <= SMALL || bytes <= held;
        (!is_enough).then(|| u32::try_from(bytes - held).unwrap_or(u32::MAX))
    }

    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
    }
}

/// Bytes up to which a frame is not worth counting. One with a producer's usual batch of 16 KiB is
/// not.
pub(crate) const SMALL: usize = 20 << 10;
/// Bytes up to which a frame has a buffer that is not kept.
const TINY: usize = 4 << 10;
/// What a frame that is larger is granted next; from there on it doubles.
pub(crate) const SMALL_STEP: usize = 64 << 10;
/// Bytes of the largest buffer that is kept.
const HUGE: usize = 2 << 20;
/// A buffer with so many times the bytes of a frame is kept for a larger one.
const TOO_LARGE: usize = 4;
const SPARE_COUNT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_frame_waits_for_another_one_to_end() {
        let budget = Budget::new(100_000);
        let (mut first, mut second) = (budget.share(), budget.share());
        first.grow_to(30_000).await;
        first.grow_to(70_000).await;
        second.grow_to(100).await;
        let mut waiting = Box::pin(second.grow_to(70_000));
        assert!(futures_poll(&mut waiting).await);
        drop(first);
        assert!(!futures_poll(&mut waiting).await);
    }

    #[test]
    fn a_small_frame_leaves_a_large_buffer_to_a_large_one() {
        let budget = Budget::new(8 << 20);
        budget.recycle(BytesMut::with_capacity(HUGE));
        for bytes in [100, TINY + 1, SMALL] {
            let buffer = budget.buffer(bytes, &mut budget.share());
            assert!(buffer.capacity() <= TOO_LARGE * bytes, "{} for {bytes}", buffer.capacity());
        }
        let mut share = budget.share();
        assert_eq!(budget.buffer(1 << 20, &mut share).capacity(), HUGE);
    }

    #[tokio::test]
    async fn a_buffer_that_was_used_before_counts_with_all_it_holds() {
        let budget = Budget::new(3 << 20);
        let (mut first, mut second, mut third) = (budget.share(), budget.share(), budget.share());
        budget.recycle(BytesMut::with_capacity(HUGE));
        budget.recycle(BytesMut::with_capacity(HUGE));
        assert_eq!(budget.buffer(HUGE, &mut first).capacity(), HUGE);
        assert_eq!(budget.buffer(HUGE, &mut second).capacity(), 0, "no room for two");
        let mut waiting = Box::pin(third.grow_to(HUGE));
        assert!(futures_poll(&mut waiting).await);
        drop(first);
        assert!(!futures_poll(&mut waiting).await);
    }

    #[test]
    fn the_buffers_that_are_kept_are_those_used_last() {
        let budget = Budget::new(64 << 20);
        for kib in 8..8 + 3 * SPARE_COUNT {
            budget.recycle(BytesMut::with_capacity(kib << 10));
        }
        let kept = budget.spare.lock();
        let mut kib: Vec<_> = kept.iter().map(|buffer| buffer.capacity() >> 10).collect();
        kib.sort_unstable();
        let last: Vec<_> = (8 + 2 * SPARE_COUNT..8 + 3 * SPARE_COUNT).collect();
        assert_eq!(kib, last);
    }

    /// Whether one poll of the future finds it waiting.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
