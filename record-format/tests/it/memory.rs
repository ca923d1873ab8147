//! What reading and building take from the heap.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchMut, BatchSettings, Entries, Header, Offset, Position, SimpleRecord,
    Timestamp, TimestampType,
};

use crate::heap::{left_of, peak_of};
use crate::hex;

const START: Position = Position::new(0);

/// A batch of records with headers.
fn append_all(builder: &mut BatchBuilder) {
    let headers = [Header::new(b"trace", Some(b"0123456789")), Header::new(b"n", None)];
    for at in 0..500 {
        let record = SimpleRecord::new()
            .timestamp(Timestamp::new(at * 70_000))
            .key(b"key")
            .value(&[b'v'; 100])
            .headers(&headers);
        builder.append(&record).unwrap();
    }
}

#[test]
fn reading_an_uncompressed_batch_allocates_nothing() {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    append_all(&mut builder);
    let bytes = builder.finish().unwrap();
    let (peak, read) = peak_of(|| {
        let mut read = 0;
        for entry in Entries::new(bytes, START) {
            entry.unwrap().verify_crc().unwrap();
        }
        let batch = Batch::parse(bytes, START).unwrap();
        for record in batch.records().unwrap() {
            read += record.unwrap().headers().count();
        }
        for key in batch.records().unwrap().keys() {
            read += key.unwrap().key().unwrap().len();
        }
        read + usize::try_from(batch.records().unwrap().check().unwrap().record_count).unwrap()
    });
    assert_eq!((peak, read), (0, 500 * (2 + 3 + 1)));
}

#[test]
fn editing_a_batch_allocates_nothing() {
    let mut bytes = hex::three_batches();
    let (peak, ()) = peak_of(|| {
        let mut batch = BatchMut::parse(&mut bytes, START).unwrap();
        batch.set_last_offset(Offset::new(77));
        batch.set_max_timestamp(TimestampType::LogAppendTime, Some(Timestamp::new(5)));
    });
    assert_eq!(peak, 0);
}

#[test]
fn a_warm_builder_allocates_nothing() {
    let settings = BatchSettings::new(Offset::new(0));
    let mut builder = BatchBuilder::new(settings);
    append_all(&mut builder);
    let (left, len) = left_of(|| {
        let (peak, len) = peak_of(|| {
            builder.reset(settings);
            append_all(&mut builder);
            builder.finish().unwrap().len()
        });
        assert_eq!(peak, 0);
        len
    });
    assert_eq!(left, 0);
    assert!(len > 50_000);
}

/// FR-002
#[test]
fn a_count_of_two_thousand_million_reserves_nothing() {
    let bytes = hex::bytes(
        "00000000000000000000003a0000000002e120aa2f00000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff7fffffff10000000026b027600",
    );
    let (peak, records) = peak_of(|| {
        let batch = Batch::parse(&bytes, START).unwrap();
        batch.records().unwrap().collect::<Vec<_>>()
    });
    assert_eq!(records.len(), 2);
    assert!(peak < 4096, "{peak} bytes for one record and an error");
}
