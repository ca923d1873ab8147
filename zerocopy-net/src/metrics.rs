//! What sending counts, through the `metrics` facade: nothing where nobody listens.

use metrics::{Counter, counter, describe_counter};

use crate::path::CopyReason;

/// Bytes of files that went from page cache to socket.
pub const BYTES_ZERO_COPY: &str = "net_bytes_zero_copy_total";
/// Bytes of files that went through a buffer.
pub const BYTES_COPIED: &str = "net_bytes_copied_total";
/// Bytes of responses that belong to no file.
pub const BYTES_INLINE: &str = "net_bytes_inline_total";
/// Sockets, and files on one of them, that lost zero copy; label `reason`.
pub const FALLBACKS: &str = "net_fallbacks_total";
/// Windows of a file that were read by another thread, as their pages were not in memory.
pub const COLD_READS: &str = "net_cold_reads_total";
/// Responses that failed because a file was shorter than promised.
pub const TRUNCATED: &str = "net_truncated_total";

/// Tells the recorder of this process what each name means, and shows each counter as 0. To be
/// called once it is installed.
pub fn describe_metrics() {
    describe_counter!(BYTES_ZERO_COPY, "bytes of files sent from the page cache");
    describe_counter!(BYTES_COPIED, "bytes of files sent through a buffer");
    describe_counter!(BYTES_INLINE, "bytes of responses outside files");
    describe_counter!(
        FALLBACKS,
        "sockets, and files on one of them, that lost zero copy, by reason"
    );
    describe_counter!(COLD_READS, "windows of files read ahead off the runtime");
    describe_counter!(TRUNCATED, "responses whose file was shorter than promised");
    for name in [BYTES_ZERO_COPY, BYTES_COPIED, BYTES_INLINE, COLD_READS, TRUNCATED] {
        counter!(name).increment(0);
    }
    for reason in [CopyReason::Asked, CopyReason::Wrapped, CopyReason::Refused(0)] {
        counter!(FALLBACKS, "reason" => reason.label()).increment(0);
    }
}

/// The counters of one socket, looked up once.
#[derive(Clone)]
pub(crate) struct Counters {
    pub(crate) zero_copy: Counter,
    pub(crate) copied: Counter,
    pub(crate) inline: Counter,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            zero_copy: counter!(BYTES_ZERO_COPY),
            copied: counter!(BYTES_COPIED),
            inline: counter!(BYTES_INLINE),
        }
    }
}

pub(crate) fn fell_back(reason: CopyReason) {
    counter!(FALLBACKS, "reason" => reason.label()).increment(1);
}

pub(crate) fn truncated() {
    counter!(TRUNCATED).increment(1);
}

#[cfg(feature = "tokio")]
pub(crate) fn read_cold() {
    counter!(COLD_READS).increment(1);
}
