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

    /// A buffer to begin a frame of `bytes` with: a used one if there is one and it is not tiny.
    pub(crate) fn buffer(&self, bytes: usize) -> BytesMut {
        if bytes <= TINY {
            return BytesMut::with_capacity(bytes);
        }
        self.spare.lock().pop().unwrap_or_default()
    }

    /// Keeps a buffer for the next large frame. A tiny or a huge one is let go.
    pub(crate) fn recycle(&self, mut buffer: BytesMut) {
        if !(TINY + 1..=HUGE).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_COUNT {
            spare.push(buffer);
        }
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
        let held = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if bytes <= SMALL || bytes <= held {
            return;
        }
        let missing = u32::try_from(bytes - held).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.bytes).acquire_many_owned(missing).await else { return };
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
const HUGE: usize = 2 << 20;
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

    /// Whether one poll of the future finds it waiting.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
