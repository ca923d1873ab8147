//! Batches for tests.

use alluvium_record_format::{
    BatchBuilder, BatchMut, BatchSettings, EndTxnMarker, Offset, Position, ProducerEpoch,
    ProducerId, Sequence, SimpleRecord, Timestamp, TxnOutcome,
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

/// Three batches of 118 bytes: offsets 0 to 8, leader epochs 0, 0 and 1, times 1000 to 1008, keys
/// k0 to k8, the value ten times "v".
pub(crate) fn l3() -> [Vec<u8>; 3] {
    [
        "00000000000000000000006a000000000206742cbf00000000000200000000000003e800000000000003eafff\
        fffffffffffffffffffffffff0000000324000000046b3014767676767676767676760024000202046b311476\
        7676767676767676760024000404046b32147676767676767676767600",
        "00000000000000030000006a0000000002359cfb7500000000000200000000000003eb00000000000003edfff\
        fffffffffffffffffffffffff0000000324000000046b3314767676767676767676760024000202046b341476\
        7676767676767676760024000404046b35147676767676767676767600",
        "00000000000000060000006a0000000102cb8a8a8d00000000000200000000000003ee00000000000003f0fff\
        fffffffffffffffffffffffff0000000324000000046b3614767676767676767676760024000202046b371476\
        7676767676767676760024000404046b38147676767676767676767600",
    ]
    .map(hex)
}

/// The same batch from another base offset: the checksum does not cover it.
pub(crate) fn at_offset(mut batch: Vec<u8>, base: i64) -> Vec<u8> {
    batch[..8].copy_from_slice(&base.to_be_bytes());
    batch
}

/// A batch of one record of an idempotent producer of epoch 0, with this first sequence.
pub(crate) fn sequenced(producer_id: i64, sequence: i32, times: &[i64]) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(0)).producer(
        ProducerId::new(producer_id),
        ProducerEpoch::new(0),
        Some(Sequence::new(sequence)),
    );
    batch_with(settings, &times.iter().map(|time| (None, *time)).collect::<Vec<_>>())
}

/// As [`sequenced`], in a transaction.
pub(crate) fn transactional(producer_id: i64, sequence: i32) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(0))
        .producer(
            ProducerId::new(producer_id),
            ProducerEpoch::new(0),
            Some(Sequence::new(sequence)),
        )
        .transactional(true);
    batch_with(settings, &[(None, NOW.get())])
}

/// The end of a producer's transaction.
pub(crate) fn marker(producer_id: i64, outcome: TxnOutcome) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(0))
        .producer(ProducerId::new(producer_id), ProducerEpoch::new(0), None)
        .transactional(true)
        .control(true);
    let mut builder = BatchBuilder::new(settings);
    builder.append_control(Some(NOW), &EndTxnMarker::new(outcome, 1).into()).unwrap();
    builder.finish().unwrap().to_vec()
}
