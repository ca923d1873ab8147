//! Logs written by Kafka 4.4.0: read, printed as its dump tool prints them, and built again.
//! Their origin: `tests/golden/4.4.0/README.md`.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, ControlRecord, Entries, Entry, Position,
};

use crate::dump;

const BATCHES: &[u8] = include_bytes!("../golden/4.4.0/batches/00000000000000000100.log");
const BATCHES_DUMP: &str = include_str!("../golden/4.4.0/batches/dump.txt");
const CONTROL: &[u8] = include_bytes!("../golden/4.4.0/control/00000000000000000000.log");
const CONTROL_DUMP: &str = include_str!("../golden/4.4.0/control/dump.txt");

fn batches(log: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    Entries::new(log, Position::new(0)).map(|entry| match entry.unwrap() {
        Entry::Batch(batch) => batch,
        other => panic!("{other:?}"),
    })
}

fn assert_dump(log: &[u8], dump: &str) {
    let ours: Vec<_> = batches(log).flat_map(|batch| dump::batch_lines(&batch)).collect();
    let kafkas: Vec<_> = dump.lines().skip(2).collect(); // file name, first offset
    assert_eq!(ours, kafkas);
}

#[test]
fn batches_say_what_kafka_says_about_them() {
    assert_dump(BATCHES, BATCHES_DUMP);
}

#[test]
fn control_records_say_what_kafka_says_about_them() {
    assert_dump(CONTROL, CONTROL_DUMP);
}

#[test]
fn a_batch_taken_apart_and_rebuilt_is_the_same_bytes() {
    let mut builder = BatchBuilder::new(BatchSettings::new(alluvium_record_format::Offset::new(0)));
    let mut rebuilt = 0;
    for batch in batches(BATCHES).chain(batches(CONTROL)) {
        if batch.header().is_empty() {
            assert_eq!(batch.header().to_empty().as_bytes()[..], *batch.bytes());
            continue;
        }
        builder.reset(BatchSettings::of(batch.header()));
        for record in batch.records().unwrap() {
            builder.append_record(&record.unwrap()).unwrap();
        }
        builder.set_last_offset(batch.header().last_offset()).unwrap();
        assert_eq!(builder.finish().unwrap(), batch.bytes(), "at byte {}", batch.position());
        rebuilt += 1;
    }
    assert_eq!(rebuilt, 13);
}

#[test]
fn a_control_record_decoded_and_encoded_is_the_same_bytes() {
    for batch in batches(CONTROL) {
        let mut builder = BatchBuilder::new(BatchSettings::of(batch.header()));
        let record = batch.records().unwrap().next().unwrap().unwrap();
        let control = ControlRecord::parse(record.key(), record.value()).unwrap();
        builder.append_control(record.timestamp(), &control).unwrap();
        assert_eq!(builder.finish().unwrap(), batch.bytes(), "{control:?}");
    }
}
