//! Batches printed by Kafka 4.4.0, built here to the same bytes.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Header, LeaderEpoch, Offset, Position, ProducerEpoch,
    ProducerId, Sequence, SimpleRecord, Timestamp,
};

use crate::hex;

const TIME: i64 = 1_700_000_000_000;

fn idempotent() -> Vec<u8> {
    hex::bytes(
        "00000000000000640000004a00000005021490b4610000000000010000018bcfe568000000018bcfe56805
         000000000000000700030000000b0000000214000000046b31047631001a000a0201010402680278026e01",
    )
}

fn settings() -> BatchSettings {
    BatchSettings::new(Offset::new(100)).leader_epoch(LeaderEpoch::new(5)).producer(
        ProducerId::new(7),
        ProducerEpoch::new(3),
        Some(Sequence::new(11)),
    )
}

#[test]
fn an_idempotent_batch_is_built_as_kafka_builds_it() {
    let headers = [Header::new(b"h", Some(b"x")), Header::new(b"n", None)];
    let mut builder = BatchBuilder::new(settings());
    let first = SimpleRecord::new().timestamp(Timestamp::new(TIME)).key(b"k1").value(b"v1");
    let second = SimpleRecord::new().timestamp(Timestamp::new(TIME + 5)).headers(&headers);

    assert_eq!(builder.append(&first), Ok(Offset::new(100)));
    assert_eq!(builder.append(&second), Ok(Offset::new(101)));
    assert_eq!(builder.finish().unwrap(), idempotent());
}

#[test]
fn an_idempotent_batch_reads_back_what_was_put_in() {
    let bytes = idempotent();
    let batch = Batch::parse(&bytes, Position::new(0)).unwrap();
    batch.verify_crc().unwrap();
    let header = batch.header();
    assert_eq!(header.producer_id(), Some(ProducerId::new(7)));
    assert_eq!(header.producer_epoch(), ProducerEpoch::new(3));
    assert_eq!(header.base_sequence(), Some(Sequence::new(11)));
    assert_eq!(header.last_sequence(), Some(Sequence::new(12)));
    assert_eq!(header.leader_epoch(), Some(LeaderEpoch::new(5)));
    assert_eq!(header.max_timestamp(), Some(Timestamp::new(TIME + 5)));

    let records: Vec<_> = batch.records().unwrap().map(Result::unwrap).collect();
    assert_eq!(records[0].key(), Some(&b"k1"[..]));
    assert_eq!(records[0].value(), Some(&b"v1"[..]));
    assert_eq!(records[1].key(), None);
    assert_eq!(records[1].value(), None);
    let headers: Vec<_> = records[1].headers().collect();
    assert_eq!(headers, [Header::new(b"h", Some(b"x")), Header::new(b"n", None)]);
    assert_eq!(header.sequence_of(records[1].offset()), Some(Sequence::new(12)));
}

#[test]
fn an_emptied_batch_is_the_one_that_kafka_retains() {
    let bytes = idempotent();
    let batch = Batch::parse(&bytes, Position::new(0)).unwrap();
    let retained = hex::bytes(
        "000000000000006400000031000000050299421c13000000000001ffffffffffffffff0000018bcfe56805
         000000000000000700030000000b00000000",
    );
    assert_eq!(batch.header().to_empty().as_bytes()[..], retained);
}

#[test]
fn a_builder_without_records_gives_no_bytes() {
    let mut builder = BatchBuilder::new(settings());
    assert_eq!(builder.finish(), Ok(&[][..]));
}
