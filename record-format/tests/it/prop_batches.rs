//! Any records, built and read back.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Header, LeaderEpoch, Offset, Position, ProducerEpoch,
    ProducerId, Sequence, SimpleRecord, Timestamp, TimestampType,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Any {
    gap: i64,
    timestamp: Option<i64>,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn any_record() -> impl Strategy<Value = Any> {
    let bytes = || prop_oneof![4 => vec(any::<u8>(), 0..20), 1 => vec(any::<u8>(), 60..300)];
    let time = prop_oneof![0..100_000_i64, 0..=i64::MAX];
    (
        prop_oneof![4 => Just(1_i64), 1 => 1..100_000_i64],
        option::of(time),
        option::of(bytes()),
        option::of(bytes()),
        vec((bytes(), option::of(bytes())), 0..4),
    )
        .prop_map(|(gap, timestamp, key, value, headers)| Any {
            gap,
            timestamp,
            key,
            value,
            headers,
        })
}

fn any_settings() -> impl Strategy<Value = BatchSettings> {
    let producer = (0..=i64::MAX, 0..=i16::MAX, 0..=i32::MAX);
    (0..1_i64 << 60, option::of(0..=i32::MAX), option::of(producer), any::<bool>(), time_settings())
        .prop_map(|(base, epoch, producer, transactional, (append_time, horizon))| {
            let mut settings = BatchSettings::new(Offset::new(base));
            if let Some(epoch) = epoch {
                settings = settings.leader_epoch(LeaderEpoch::new(epoch));
            }
            if let Some((id, epoch, sequence)) = producer {
                let (id, epoch) = (ProducerId::new(id), ProducerEpoch::new(epoch));
                settings = settings
                    .producer(id, epoch, Some(Sequence::new(sequence)))
                    .transactional(transactional);
            }
            if let Some(now) = append_time {
                settings = settings.log_append_time(Timestamp::new(now));
            }
            if let Some(horizon) = horizon {
                settings = settings.delete_horizon(Timestamp::new(horizon));
            }
            settings
        })
}

fn time_settings() -> impl Strategy<Value = (Option<i64>, Option<i64>)> {
    (option::weighted(0.2, 0..=i64::MAX), option::weighted(0.2, 0..=i64::MAX))
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(settings in any_settings(), records in vec(any_record(), 1..40)) {
        let mut builder = BatchBuilder::new(settings);
        let mut offset = base_offset(settings) - 1;
        let mut offsets = Vec::new();
        for record in &records {
            offset += record.gap;
            offsets.push(Offset::new(offset));
            append(&mut builder, Offset::new(offset), record);
        }
        let bytes = builder.finish().unwrap();

        let batch = Batch::parse(bytes, Position::new(0)).unwrap();
        batch.verify_crc().unwrap();
        let header = batch.header();
        prop_assert_eq!(BatchSettings::of(header), settings);
        prop_assert_eq!(Some(&header.last_offset()), offsets.last());
        let append_time = match header.attributes().timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp(),
            _ => None,
        };
        let mut read = batch.records().unwrap();
        let mut keys = batch.records().unwrap().keys();
        for (record, at) in records.iter().zip(&offsets) {
            let seen = read.next().unwrap().unwrap();
            let key = keys.next().unwrap().unwrap();
            prop_assert_eq!((seen.offset(), key.offset()), (*at, *at));
            prop_assert_eq!(seen.create_time().map(Timestamp::get), record.timestamp);
            prop_assert_eq!(seen.timestamp(), append_time.or(seen.create_time()));
            prop_assert_eq!(seen.key(), record.key.as_deref());
            prop_assert_eq!(key.key(), record.key.as_deref());
            prop_assert_eq!(seen.value(), record.value.as_deref());
            prop_assert_eq!(key.value_bytes(), record.value.as_ref().map(Vec::len));
            let headers = seen.headers().map(|h| (h.key.to_vec(), h.value.map(<[u8]>::to_vec)));
            prop_assert_eq!(headers.collect::<Vec<_>>(), record.headers.clone());
        }
        prop_assert!(read.next().is_none() && keys.next().is_none());
        let summary = batch.records().unwrap().check().unwrap();
        prop_assert_eq!(usize::try_from(summary.record_count).unwrap(), records.len());
        prop_assert!(summary.offsets_rise);
    }
}

fn append(builder: &mut BatchBuilder, offset: Offset, record: &Any) {
    let headers: Vec<_> =
        record.headers.iter().map(|(key, value)| Header::new(key, value.as_deref())).collect();
    let mut simple = SimpleRecord::new().headers(&headers);
    if let Some(time) = record.timestamp {
        simple = simple.timestamp(Timestamp::new(time));
    }
    if let Some(key) = &record.key {
        simple = simple.key(key);
    }
    if let Some(value) = &record.value {
        simple = simple.value(value);
    }
    builder.append_with_offset(offset, &simple).unwrap();
}

/// The base offset that an empty builder gives its first record.
fn base_offset(settings: BatchSettings) -> i64 {
    let mut probe = BatchBuilder::new(settings);
    probe.append(&SimpleRecord::new()).unwrap().get()
}
