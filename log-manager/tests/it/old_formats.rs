//! Messages of magic 0 and 1 on their way into a leader's log.

use alluvium_log_manager::{InvalidBatch, LeaderAppend, LogConfig, Prepared, ValidationError};
use alluvium_record_format::{
    Batch, Entries, Entry, LeaderEpoch, LegacyEntry, Offset, Position, Timestamp, TimestampType,
};

use crate::batches::NOW;

const MAGIC_0: &[u8] = include_bytes!("../golden/4.4.0/magic0/00000000000000000000.log");
const MAGIC_1: &[u8] = include_bytes!("../golden/4.4.0/magic1/00000000000000000000.log");

type Message = (Option<i64>, Option<Vec<u8>>, Option<Vec<u8>>);

fn append() -> LeaderAppend {
    LeaderAppend::new(LeaderEpoch::new(1), NOW)
}

fn entries(log: &'static [u8]) -> impl Iterator<Item = LegacyEntry<'static>> {
    Entries::new(log, Position::new(0)).map(|entry| match entry.unwrap() {
        Entry::Legacy(entry) => entry,
        _ => panic!("a batch of magic 2"),
    })
}

fn messages(entry: &LegacyEntry<'_>) -> Vec<Message> {
    let mut inflated = Vec::new();
    let messages = entry.inflate(1 << 20, &mut inflated).unwrap().map(Result::unwrap);
    let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
    messages
        .map(|it| (it.timestamp().map(Timestamp::get), owned(it.key()), owned(it.value())))
        .collect()
}

#[test]
fn a_leader_stores_old_messages_in_one_batch_of_magic_2() {
    let mut seen = 0;
    for entry in entries(MAGIC_0).chain(entries(MAGIC_1)) {
        // Here the producer claims to be the leader: refused, see below.
        if entry.timestamp_type() == Some(TimestampType::LogAppendTime) {
            continue;
        }
        let mut sent = entry.bytes().to_vec();
        let config = LogConfig::default();
        let mut prepared = Prepared::check(&mut sent, &config, append()).unwrap().unwrap();
        let stored = prepared.assign(Offset::new(70)).unwrap();
        stored.verify_crc().unwrap();
        assert_eq!(stored.header().attributes().codec(), entry.codec());
        assert_eq!(stored.header().leader_epoch(), Some(LeaderEpoch::new(1)));
        let mut inflated = Vec::new();
        let records = stored.inflate(1 << 20, &mut inflated).unwrap();
        let expected = messages(&entry);
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let mut next = 70;
        let found: Vec<Message> = records
            .map(|record| {
                let record = record.unwrap();
                assert_eq!(record.offset(), Offset::new(next));
                next += 1;
                let time = record.timestamp().map(Timestamp::get);
                (time, owned(record.key()), owned(record.value()))
            })
            .collect();
        assert_eq!(found, expected);
        seen += 1;
    }
    assert!(seen > 10, "{seen} entries");
}

#[test]
fn an_append_time_that_the_producer_set_counts_on_a_topic_of_create_times_alone() {
    let entry = entries(MAGIC_1)
        .find(|entry| entry.timestamp_type() == Some(TimestampType::LogAppendTime))
        .expect("a message with append time");
    let mut sent = entry.bytes().to_vec();
    let prepared = Prepared::check(&mut sent, &LogConfig::default(), append());
    assert_eq!(prepared.unwrap().unwrap().max_timestamp(), entry.timestamp());

    let topic = LogConfig::builder().message_timestamp_type(TimestampType::LogAppendTime);
    let mut sent = entry.bytes().to_vec();
    let refused = Prepared::check(&mut sent, &topic.build().unwrap(), append());
    assert!(matches!(refused, Err(ValidationError::Records { .. })), "{refused:?}");
}

#[test]
fn plain_old_messages_come_together_and_wrappers_alone() {
    let plain =
        |entry: &LegacyEntry<'_>| entry.codec() == Some(alluvium_record_format::Codec::None);
    let two: Vec<u8> =
        entries(MAGIC_0).filter(plain).take(2).flat_map(|it| it.bytes().to_vec()).collect();
    let mut sent = two.clone();
    let prepared = Prepared::check(&mut sent, &LogConfig::default(), append()).unwrap();
    assert_eq!(prepared.unwrap().offset_count(), 2);

    let wrapper = entries(MAGIC_0).find(|entry| !plain(entry)).unwrap();
    let mut mixed = [&two, wrapper.bytes()].concat();
    let refused = Prepared::check(&mut mixed, &LogConfig::default(), append());
    let more_than_one =
        matches!(refused, Err(ValidationError::Batch { reason: InvalidBatch::MoreThanOne, .. }));
    assert!(more_than_one, "{refused:?}");
}

#[test]
fn formats_do_not_mix_in_one_append() {
    let plain =
        |entry: &LegacyEntry<'_>| entry.codec() == Some(alluvium_record_format::Codec::None);
    let first = entries(MAGIC_0).find(plain).unwrap();
    let old = entries(MAGIC_1).find(plain).unwrap().bytes().to_vec();
    for (second, magic) in [(old, 1), (crate::batches::batch(&[(None, 0)]), 2)] {
        let mut mixed = [first.bytes(), &second].concat();
        let refused = Prepared::check(&mut mixed, &LogConfig::default(), append()).unwrap_err();
        let ValidationError::Batch { position, reason, .. } = refused else {
            panic!("magic {magic}: {refused:?}");
        };
        assert!(
            matches!(reason, InvalidBatch::MixedMagic { first: 0, found, .. } if found == magic)
        );
        assert_eq!(position, Position::saturating_from_len(first.bytes().len()), "magic {magic}");
    }
}

#[test]
fn a_damaged_old_message_is_corrupt() {
    let mut sent = entries(MAGIC_1).next().unwrap().bytes().to_vec();
    *sent.last_mut().unwrap() ^= 1;
    let refused = Prepared::check(&mut sent, &LogConfig::default(), append());
    assert!(matches!(refused, Err(ValidationError::Corrupt { .. })), "{refused:?}");
}

/// A batch of magic 2 is what the leader writes, so a stored one passes as it is.
#[test]
fn what_was_converted_once_is_not_converted_again() {
    let mut sent = entries(MAGIC_1).next().unwrap().bytes().to_vec();
    let config = LogConfig::default();
    let mut prepared = Prepared::check(&mut sent, &config, append()).unwrap().unwrap();
    let mut stored = prepared.assign(Offset::new(0)).unwrap().bytes().to_vec();
    let before = stored.clone();
    let mut again = Prepared::check(&mut stored, &config, append()).unwrap().unwrap();
    assert_eq!(again.assign(Offset::new(0)).unwrap().bytes(), before);
    Batch::parse(&before, Position::new(0)).unwrap().verify_crc().unwrap();
}
