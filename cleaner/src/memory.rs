//! Memory that is read in no order: on huge pages, where the system has them.

use std::fmt;

use memmap2::{Advice, MmapMut};

/// Zeroed memory of a fixed size, in rows of 16 bytes.
pub(crate) struct Memory(Pages);

enum Pages {
    Mapped(MmapMut),
    Heap(Vec<u8>),
}

impl Memory {
    /// So many rows; `None` if the system has no room for them. A page of it is taken when it is
    /// first written.
    pub(crate) fn zeroed(rows: usize) -> Option<Self> {
        let bytes = rows.checked_mul(ROW_BYTES)?;
        isize::try_from(bytes).ok()?;
        if bytes < HUGE_BYTES {
            return Some(Self(Pages::Heap(vec![0; bytes])));
        }
        let map = MmapMut::map_anon(bytes).ok()?;
        // Without huge pages all is as before, and slower.
        drop(map.advise(Advice::HugePage));
        Some(Self(Pages::Mapped(map)))
    }

    pub(crate) fn one_row() -> Self {
        Self(Pages::Heap(vec![0; ROW_BYTES]))
    }

    #[inline]
    pub(crate) fn rows(&self) -> &[[u8; ROW_BYTES]] {
        let bytes: &[u8] = match &self.0 {
            Pages::Mapped(map) => map,
            Pages::Heap(bytes) => bytes,
        };
        bytes.as_chunks().0
    }

    #[inline]
    pub(crate) fn rows_mut(&mut self) -> &mut [[u8; ROW_BYTES]] {
        let bytes: &mut [u8] = match &mut self.0 {
            Pages::Mapped(map) => map,
            Pages::Heap(bytes) => bytes,
        };
        bytes.as_chunks_mut().0
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("rows", &self.rows().len()).finish()
    }
}

pub(crate) const ROW_BYTES: usize = 16;

/// Bytes of a huge page.
const HUGE_BYTES: usize = 2 << 20;
