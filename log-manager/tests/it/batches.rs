//! Batches for tests.

use alluvium_record_format::{
    BatchBuilder, BatchMut, BatchSettings, Offset, Position, SimpleRecord, Timestamp,
};

/// A time that the leader's clock shows in tests.
pub(crate) const NOW: Timestamp = Timestamp::new(1_760_000_000_000);

/// One batch of 70 bytes: offset 0, key "k", value "v", time 1000, no producer, epoch 0.
pub(crate) const HEX_A: &str = "00000000000000000000003a0000000002716a618900000000000000000000\
    000003e800000000000003e8ffffffffffffffffffffffffffff0000000110000000026b027600";

/// The bytes of a hexadecimal text.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

/// A batch from offset 0 with these keys and times, value "v".
pub(crate) fn batch(records: &[(Option<&[u8]>, i64)]) -> Vec<u8> {
    batch_with(BatchSettings::new(Offset::new(0)), records)
}

/// A batch with these settings, keys and times, value "v".
pub(crate) fn batch_with(settings: BatchSettings, records: &[(Option<&[u8]>, i64)]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(settings);
    for &(key, time) in records {
        let record = SimpleRecord::new().value(b"v").timestamp(Timestamp::new(time));
        builder.append(&key.map_or(record, |key| record.key(key))).unwrap();
    }
    builder.finish().unwrap().to_vec()
}

/// Changes bytes of a batch and makes its checksum right again.
pub(crate) fn patched(mut batch: Vec<u8>, at: usize, bytes: &[u8]) -> Vec<u8> {
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    BatchMut::parse(&mut batch, Position::new(0)).unwrap().rewrite_crc();
    batch
}
