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

    /// Waits until so many bytes are free. Small frames are not counted.
    pub(crate) async fn take(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        if usize::try_from(bytes).is_ok_and(|bytes| bytes <= SMALL) {
            return None;
        }
        Arc::clone(&self.bytes).acquire_many_owned(bytes).await.ok()
    }

    /// A buffer with room for `bytes`: a used one if there is one.
    pub(crate) fn buffer(&self, bytes: usize) -> BytesMut {
        if bytes <= SMALL {
            return BytesMut::with_capacity(bytes);
        }
        let mut buffer = self.spare.lock().pop().unwrap_or_default();
        buffer.reserve(bytes);
        buffer
    }

    /// Keeps a buffer for the next large frame. A huge one is let go.
    pub(crate) fn recycle(&self, mut buffer: BytesMut) {
        if !(SMALL..=HUGE).contains(&buffer.capacity()) {
            return;
        }
        buffer.clear();
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_COUNT {
            spare.push(buffer);
        }
    }
}

/// Bytes up to which a frame is not worth counting.
pub(crate) const SMALL: usize = 16 << 10;
const HUGE: usize = 2 << 20;
const SPARE_COUNT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_large_frame_waits_for_another_one_to_end() {
        let budget = Budget::new(100_000);
        let first = budget.take(70_000).await;
        assert!(first.is_some());
        assert!(budget.take(100).await.is_none());
        let mut second = Box::pin(budget.take(70_000));
        let waits = futures_poll(&mut second).await;
        assert!(waits);
        drop(first);
        assert!(second.await.is_some());
    }

    /// Whether one poll of the future finds it waiting.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
        })
        .await
    }
}
