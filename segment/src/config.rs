//! Settings of a segment.

/// Settings of a segment. Small and `Copy`; the layer above may change them at any roll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentConfig {
    /// Bytes between index entries: `index.interval.bytes`, default 4096.
    pub index_interval_bytes: u32,
    /// Bytes of each index while the segment is active: `segment.index.bytes`, default 10 MiB.
    pub max_index_bytes: u32,
    /// Bytes that a new log file gets at once, zeros at first: `segment.bytes` where
    /// `preallocate` is set, default none.
    pub preallocate_bytes: Option<u32>,
}

impl SegmentConfig {
    /// Kafka's defaults.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            index_interval_bytes: 4096,
            max_index_bytes: 10 * 1024 * 1024,
            preallocate_bytes: None,
        }
    }

    /// Sets `index.interval.bytes`. With 0, every batch but the first gets an entry.
    #[must_use]
    pub const fn index_interval_bytes(self, bytes: u32) -> Self {
        Self { index_interval_bytes: bytes, ..self }
    }

    /// Sets `segment.index.bytes`, at least 12: one entry of the larger index.
    #[must_use]
    pub const fn max_index_bytes(self, bytes: u32) -> Self {
        let max_index_bytes = if bytes < 12 { 12 } else { bytes };
        Self { max_index_bytes, ..self }
    }

    /// Sets the length that new log files get at once.
    #[must_use]
    pub const fn preallocate_bytes(self, bytes: Option<u32>) -> Self {
        Self { preallocate_bytes: bytes, ..self }
    }
}

impl Default for SegmentConfig {
    fn default() -> Self {
        Self::new()
    }
}
