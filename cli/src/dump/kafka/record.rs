//! The line of one record.

use alluvium_record_format::{BatchHeader, Headers, LegacyRecord, Record, Timestamp};

use crate::console::Console;
use crate::text::push_java_utf8;

/// What the line of a record shows, whatever the magic of its batch.
#[derive(Debug)]
pub(super) struct RecordLine<'a> {
    pub(super) offset: i64,
    pub(super) timestamp: i64,
    pub(super) timestamp_label: &'static str,
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    pub(super) rest: Rest<'a>,
}

/// What only some magics have.
#[derive(Debug)]
pub(super) enum Rest<'a> {
    /// Magic 2.
    Current { sequence: i32, headers: Headers<'a> },
    /// Magic 0 and 1.
    Legacy { is_valid: bool, crc: u32 },
}

impl<'a> RecordLine<'a> {
    /// The line of a record of a batch of magic 2.
    pub(super) fn new(header: &BatchHeader, record: &Record<'a>) -> Self {
        let sequence = match header.base_sequence() {
            Some(base) if base.get() >= 0 => {
                let delta = record.offset().get().wrapping_sub(header.base_offset().get());
                // The delta is a 32-bit field: the low half is all of it.
                increment_sequence(base.get(), i32::try_from(delta).unwrap_or_default())
            }
            _ => -1,
        };
        Self {
            offset: record.offset().get(),
            timestamp: record.timestamp().map_or(-1, Timestamp::get),
            timestamp_label: header.attributes().timestamp_type().name(),
            key: record.key(),
            value: record.value(),
            rest: Rest::Current { sequence, headers: record.headers() },
        }
    }

    /// The line of a message of magic 0 or 1; the label is that of its wrapper.
    pub(super) fn legacy(timestamp_label: &'static str, record: &LegacyRecord<'a>) -> Self {
        Self {
            offset: record.offset().get(),
            timestamp: record.timestamp().map_or(-1, Timestamp::get),
            timestamp_label,
            key: record.key(),
            value: record.value(),
            rest: Rest::Legacy { is_valid: record.is_valid(), crc: record.crc() },
        }
    }

    /// Prints all but key and value.
    pub(super) fn print_metadata(&self, console: &mut Console) {
        let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len().cast_signed());
        console.print(format_args!(
            "| offset: {} {}: {} keySize: {} valueSize: {}",
            self.offset,
            self.timestamp_label,
            self.timestamp,
            size(self.key),
            size(self.value),
        ));
        match &self.rest {
            Rest::Current { sequence, headers } => {
                console.print(format_args!(" sequence: {sequence} headerKeys: ["));
                for (index, header) in headers.clone().enumerate() {
                    if index > 0 {
                        console.buffer().push(b',');
                    }
                    push_java_utf8(header.key, console.buffer());
                }
                console.buffer().push(b']');
            }
            Rest::Legacy { is_valid, crc } => {
                console.print(format_args!(" isValid: {is_valid} crc: {crc}"));
            }
        }
    }

    /// Prints key and value, as far as there are any; `prefix` stands before the first.
    pub(super) fn print_contents(&self, prefix: &str, console: &mut Console) {
        let out = console.buffer();
        let mut prefix = prefix;
        for (name, bytes) in [("key: ", self.key), ("payload: ", self.value)] {
            let Some(bytes) = bytes else { continue };
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(name.as_bytes());
            push_java_utf8(bytes, out);
            prefix = " ";
        }
    }
}

/// The sequence `count` after `sequence` as Kafka computes it, also where damage makes either
/// negative.
///
/// Source: `DefaultRecordBatch.incrementSequence` in Kafka.
pub(super) fn increment_sequence(sequence: i32, count: i32) -> i32 {
    if sequence > i32::MAX.wrapping_sub(count) {
        count.wrapping_sub(i32::MAX.wrapping_sub(sequence)).wrapping_sub(1)
    } else {
        sequence.wrapping_add(count)
    }
}
