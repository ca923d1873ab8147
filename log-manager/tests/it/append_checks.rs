//! What a leader refuses before a byte reaches the file, and what it writes.

use alluvium_log_manager::{
    AppendError, AppendOrigin, CleanupPolicy, CompressionType, ErrorCode, InvalidBatch,
    InvalidRecord, LeaderAppend, LogConfig, Prepared, ValidationError,
};
use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Codec, Header, LeaderEpoch, Offset, Position,
    ProducerEpoch, ProducerId, SimpleRecord, Timestamp, TimestampType,
};

use crate::batches::{HEX_A, NOW, batch, batch_with, hex, l3, patched};
use crate::disk::{Disk, read};

const LAST_OFFSET_DELTA: usize = 23;
const RECORD_COUNT: usize = 57;

fn append() -> LeaderAppend {
    LeaderAppend::new(LeaderEpoch::new(4), NOW)
}

/// Checks and assigns offset 100: the batch as it would be written.
fn written_by(config: &LogConfig, append: LeaderAppend, mut sent: Vec<u8>) -> Vec<u8> {
    let mut prepared = Prepared::check(&mut sent, config, append).unwrap().unwrap();
    prepared.assign(Offset::new(100)).unwrap().bytes().to_vec()
}

fn written(sent: Vec<u8>) -> Vec<u8> {
    written_by(&LogConfig::default(), append(), sent)
}

fn refused_by(config: &LogConfig, mut sent: Vec<u8>) -> ValidationError {
    Prepared::check(&mut sent, config, append()).unwrap_err()
}

fn refused(sent: Vec<u8>) -> ValidationError {
    refused_by(&LogConfig::default(), sent)
}

fn refused_batch(sent: Vec<u8>) -> InvalidBatch {
    match refused(sent) {
        ValidationError::Batch { reason, .. } => reason,
        other => panic!("another refusal: {other:?}"),
    }
}

fn keyed() -> Vec<u8> {
    batch(&[(Some(b"a"), NOW.get()), (Some(b"b"), NOW.get() - 1)])
}

#[test]
fn a_leader_sets_offsets_and_epoch_and_nothing_else() {
    let sent = keyed();
    let stored = written(sent.clone());
    let header = *Batch::parse(&stored, Position::new(0)).unwrap().header();
    assert_eq!(header.base_offset(), Offset::new(100));
    assert_eq!(header.last_offset(), Offset::new(101));
    assert_eq!(header.leader_epoch(), Some(LeaderEpoch::new(4)));
    assert_eq!(sent[16..], stored[16..]);
}

/// FR-029.
#[test]
fn a_count_that_differs_from_the_offsets_is_refused() {
    for (at, bytes) in [(RECORD_COUNT, 3_i32), (LAST_OFFSET_DELTA, 5)] {
        let reason = refused_batch(patched(keyed(), at, &bytes.to_be_bytes()));
        assert!(matches!(reason, InvalidBatch::Count { .. }), "{reason}");
    }
}

/// FR-029.
#[test]
fn a_batch_without_records_is_refused() {
    let reason = refused_batch(patched(keyed(), RECORD_COUNT, &[0; 4]));
    assert!(matches!(reason, InvalidBatch::Count { count: 0, .. }), "{reason}");
}

/// FR-029.
#[test]
fn a_control_batch_is_refused_from_a_client_and_taken_from_a_coordinator() {
    let control = patched(keyed(), 21, &0x20_i16.to_be_bytes());
    assert!(matches!(refused_batch(control.clone()), InvalidBatch::ClientControl));
    let coordinator = append().origin(AppendOrigin::Coordinator);
    let stored = written_by(&LogConfig::default(), coordinator, control);
    assert!(Batch::parse(&stored, Position::new(0)).unwrap().header().attributes().is_control());
}

/// FR-029.
#[test]
fn a_producer_without_a_sequence_is_refused() {
    let settings = BatchSettings::new(Offset::new(0)).producer(
        ProducerId::new(9),
        ProducerEpoch::new(0),
        Some(alluvium_record_format::Sequence::new(5)),
    );
    let first_ever = batch_with(settings, &[(None, NOW.get())]);
    written(first_ever.clone());
    let reason = refused_batch(patched(first_ever, 53, &(-1_i32).to_be_bytes()));
    assert!(matches!(reason, InvalidBatch::NoSequence { found: -1, .. }), "{reason}");
}

/// FR-029.
#[test]
fn two_batches_in_one_append_are_refused() {
    let sent = [keyed(), keyed()].concat();
    assert!(matches!(refused_batch(sent), InvalidBatch::MoreThanOne));
}

/// FR-029.
#[test]
fn a_base_offset_other_than_0_is_refused() {
    let reason = refused_batch(patched(keyed(), 0, &7_i64.to_be_bytes()));
    assert!(matches!(reason, InvalidBatch::BaseOffset { found: 7, .. }), "{reason}");
}

/// FR-029.
#[test]
fn every_record_without_a_key_is_named_on_a_compacted_topic() {
    for policy in [CleanupPolicy::COMPACT, CleanupPolicy::COMPACT_AND_DELETE] {
        let config = LogConfig::builder().cleanup_policy(policy).build().unwrap();
        let records = [(None, NOW.get()), (Some(&b"k"[..]), NOW.get()), (None, NOW.get())];
        let error = refused_by(&config, batch(&records));
        assert_eq!(error.code(), ErrorCode::InvalidRecord);
        let ValidationError::Records { records, .. } = error else { panic!("{error:?}") };
        assert_eq!(records.iter().map(|record| record.index).collect::<Vec<_>>(), [0, 2]);
        assert!(records.iter().all(|record| record.reason == InvalidRecord::NoKey));
    }
}

/// FR-029.
#[test]
fn a_time_two_hours_ahead_is_refused_and_one_hour_is_not() {
    const HOUR: i64 = 3_600_000;
    written(batch(&[(None, NOW.get() + HOUR)]));
    for ahead in [HOUR + 1, 2 * HOUR] {
        let error = refused(batch(&[(None, NOW.get() + ahead)]));
        assert_eq!(error.code(), ErrorCode::InvalidTimestamp);
        assert!(matches!(error, ValidationError::Records { .. }), "{error:?}");
    }
}

/// FR-029: accepted, as Kafka does.
#[test]
fn a_time_of_minus_2_is_taken() {
    let mut sent = batch(&[(None, 0)]);
    sent = patched(sent, 27, &(-2_i64).to_be_bytes());
    written(sent);
}

/// FR-029.
#[test]
fn a_wrong_checksum_is_refused() {
    let mut sent = keyed();
    sent[17] ^= 1;
    let error = refused(sent);
    assert_eq!(error.code(), ErrorCode::CorruptMessage);
    assert!(matches!(error, ValidationError::Corrupt { .. }), "{error:?}");
}

#[test]
fn a_batch_of_exactly_the_limit_is_taken_and_one_more_byte_is_not() {
    let size = u32::try_from(keyed().len()).unwrap();
    let limit = |max| LogConfig::builder().max_message_bytes(max).build().unwrap();
    written_by(&limit(size), append(), keyed());
    let error = refused_by(&limit(size - 1), keyed());
    assert_eq!(error.code(), ErrorCode::MessageTooLarge);
}

#[test]
fn a_batch_that_the_buffer_cuts_off_is_left_out() {
    for len in 0..keyed().len() {
        let mut cut = keyed()[..len].to_vec();
        let prepared = Prepared::check(&mut cut, &LogConfig::default(), append()).unwrap();
        assert!(prepared.is_none(), "{len}");
    }
    let mut more = keyed();
    let whole = more.len();
    more.extend_from_slice(&keyed()[..40]);
    assert_eq!(written(more).len(), whole);
}

/// FR-022: the first batch has the append-time bit, which a producer may not set where the
/// topic keeps it; on a topic of create times its own time counts.
#[test]
fn the_leader_recomputes_the_largest_time_from_the_records() {
    let max_missing = hex("00000000000000000000003a000000000277e482af00000000000000000000000003e8\
        ffffffffffffffffffffffffffffffffffffffffffff0000000110000000026b027600");
    let stored = written(max_missing);
    let stored = Batch::parse(&stored, Position::new(0)).unwrap();
    stored.verify_crc().unwrap();
    assert_eq!(stored.header().max_timestamp(), Some(Timestamp::new(1000)));

    let none = hex("00000000000000000000003a0000000002461639eb000000000000ffffffffffffffff\
        ffffffffffffffffffffffffffffffffffffffffffff0000000110000000026b027600");
    let stored = written(none);
    assert_eq!(Batch::parse(&stored, Position::new(0)).unwrap().header().max_timestamp(), None);

    let append_time = hex("00000000000000000000003a0000000002fcfbdb48000800000000000000000000\
        03e80000000000001388ffffffffffffffffffffffffffff0000000110000e00026b027600");
    let stored = written(append_time.clone());
    let stored = Batch::parse(&stored, Position::new(0)).unwrap();
    stored.verify_crc().unwrap();
    assert_eq!(stored.header().attributes().timestamp_type(), TimestampType::CreateTime);
    assert_eq!(stored.header().max_timestamp(), Some(Timestamp::new(5000)));

    let topic = LogConfig::builder().message_timestamp_type(TimestampType::LogAppendTime);
    let error = refused_by(&topic.build().unwrap(), append_time);
    assert_eq!(error.code(), ErrorCode::InvalidTimestamp);
}

#[test]
fn append_time_replaces_every_records_time() {
    let topic = LogConfig::builder().message_timestamp_type(TimestampType::LogAppendTime);
    let mut sent = hex(HEX_A);
    let mut prepared =
        Prepared::check(&mut sent, &topic.build().unwrap(), append()).unwrap().unwrap();
    assert_eq!(prepared.append_time(), Some(NOW));
    assert_eq!(prepared.max_timestamp(), Some(NOW));
    let stored = prepared.assign(Offset::new(7)).unwrap();
    stored.verify_crc().unwrap();
    let record = stored.records().unwrap().next().unwrap().unwrap();
    assert_eq!((record.offset(), record.timestamp()), (Offset::new(7), Some(NOW)));
}

/// FR-027: the last one as Kafka does; the others are refused here although Kafka takes them
/// when they are not compressed.
#[test]
fn inner_offsets_that_are_not_dense_are_refused() {
    let below = "00000000000000000000003a00000000029e5a0a9000000000000000000000000003e80000000000\
        0003e8ffffffffffffffffffffffffffff0000000110000001026b027600";
    let beyond = "00000000000000000000003a0000000002cae0d95500000000000000000000000003e8000000000\
        00003e8ffffffffffffffffffffffffffff000000011000000a026b027600";
    let descending = "0000000000000000000000430000000002ddd1a41500000000000100000000000003e800000\
        000000003e8ffffffffffffffffffffffffffff0000000210000002026b02760010000000026b027700";
    for sent in [below, beyond, descending] {
        let reason = refused_batch(hex(sent));
        assert!(matches!(reason, InvalidBatch::InnerOffset { index: 0, .. }), "{reason}");
    }
    let span = "00000000000000000000003a0000000002c6ff579d0000ffffffff00000000000003e8000000000000\
        03e8ffffffffffffffffffffffffffff0000000110000000026b027600";
    assert!(matches!(refused_batch(hex(span)), InvalidBatch::Count { span: 0, .. }));
}

#[test]
fn a_record_that_does_not_fill_its_length_is_refused() {
    let mut sent = hex(HEX_A);
    *sent.last_mut().unwrap() = 2; // one header, which is not there
    let error = refused(patched(sent, 0, &[0]));
    assert!(matches!(error, ValidationError::Unreadable { .. }), "{error:?}");
    assert_eq!(error.code(), ErrorCode::InvalidRecord);
}

#[test]
fn a_control_batch_is_not_compressed() {
    let topic = LogConfig::builder().compression_type(CompressionType::Codec(Codec::Zstd));
    let coordinator = append().origin(AppendOrigin::Coordinator);
    let control = patched(keyed(), 21, &0x20_i16.to_be_bytes());
    let stored = written_by(&topic.build().unwrap(), coordinator, control);
    let attributes = Batch::parse(&stored, Position::new(0)).unwrap().header().attributes();
    assert_eq!((attributes.codec(), attributes.is_control()), (Some(Codec::None), true));
}

#[test]
fn a_leader_stores_the_codec_that_the_topic_asks_for() {
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    let records = [(Some(&b"a"[..]), NOW.get()), (None, NOW.get() - 9), (Some(b""), -1)];
    for source in codecs {
        for target in codecs {
            let topic = LogConfig::builder().compression_type(CompressionType::Codec(target));
            let settings = BatchSettings::new(Offset::new(0)).codec(source);
            let sent = batch_with(settings, &records);
            let stored = written_by(&topic.build().unwrap(), append(), sent.clone());
            let batch = Batch::parse(&stored, Position::new(0)).unwrap();
            batch.verify_crc().unwrap();
            assert_eq!(batch.header().attributes().codec(), Some(target));
            assert_eq!(batch.header().leader_epoch(), Some(LeaderEpoch::new(4)));
            assert_eq!(batch.header().max_timestamp(), Some(NOW));
            if source == target {
                assert_eq!(stored[16..], sent[16..], "{source} is kept as it is");
            }
            let mut buffer = Vec::new();
            let read: Vec<_> = batch.inflate(1 << 20, &mut buffer).unwrap().collect();
            for (index, (record, (key, time))) in read.into_iter().zip(records).enumerate() {
                let record = record.unwrap();
                assert_eq!(record.offset().get(), 100 + i64::try_from(index).unwrap());
                assert_eq!(record.key(), key);
                assert_eq!(record.timestamp().map_or(-1, Timestamp::get), time);
            }
        }
    }
}

/// What the real validator does with these: `100..101`. Some old clients number records so.
#[test]
fn records_of_a_batch_that_is_built_anew_get_consecutive_offsets() {
    let coordinator = append().origin(AppendOrigin::Coordinator);
    let numbered = |codec, offsets: [i64; 2]| {
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).codec(codec));
        for offset in offsets.map(Offset::new) {
            let headers = [Header::new(b"h", Some(b"x"))];
            let record = SimpleRecord::new().value(b"v").timestamp(NOW).headers(&headers);
            builder.append_with_offset(offset, &record).unwrap();
        }
        builder.finish().unwrap().to_vec()
    };
    let one = 1_i32.to_be_bytes();
    let cases = [
        (Codec::Gzip, Codec::Lz4, append(), patched(numbered(Codec::Gzip, [0, 2]), 23, &one)),
        (Codec::Gzip, Codec::None, append(), patched(numbered(Codec::Gzip, [0, 2]), 23, &one)),
        (Codec::None, Codec::Lz4, append(), patched(numbered(Codec::None, [0, 2]), 23, &one)),
        (Codec::Gzip, Codec::Lz4, coordinator, numbered(Codec::Gzip, [3, 5])),
    ];
    for (source, target, append, sent) in cases {
        let topic = LogConfig::builder().compression_type(CompressionType::Codec(target));
        let stored = written_by(&topic.build().unwrap(), append, sent);
        let batch = Batch::parse(&stored, Position::new(0)).unwrap();
        batch.verify_crc().unwrap();
        let mut buffer = Vec::new();
        let records = batch.inflate(1 << 20, &mut buffer).unwrap().map(Result::unwrap);
        let found: Vec<_> =
            records.map(|record| (record.offset().get(), record.headers().len())).collect();
        assert_eq!(found, [(100, 1), (101, 1)], "{source} to {target}");
        let header = batch.header();
        assert_eq!((header.base_offset().get(), header.last_offset().get()), (100, 101));
    }
    // Kafka fails on those that keep their codec, and takes those that stay uncompressed.
    for codec in [Codec::Gzip, Codec::None] {
        let reason = refused_batch(patched(numbered(codec, [0, 2]), 23, &one));
        assert!(matches!(reason, InvalidBatch::InnerOffset { index: 1, offset: 2, .. }));
    }
}

/// Kafka has no number of its own for these: its -1 says that the server is at fault.
#[test]
fn an_unknown_codec_and_a_payload_that_is_not_compressed_are_faults_of_who_sent_them() {
    let reason = refused_batch(patched(keyed(), 21, &5_i16.to_be_bytes()));
    assert_eq!(reason, InvalidBatch::UnknownCodec);
    assert_eq!(
        refused(patched(keyed(), 21, &5_i16.to_be_bytes())).code(),
        ErrorCode::InvalidRecord
    );
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let settings = BatchSettings::new(Offset::new(0)).codec(codec);
        let sent = batch_with(settings, &[(None, NOW.get())]);
        let broken = patched(sent, 61, &[0x77; 8]);
        for target in [CompressionType::Producer, CompressionType::Codec(Codec::None)] {
            let topic = LogConfig::builder().compression_type(target).build().unwrap();
            let error = refused_by(&topic, broken.clone());
            assert!(matches!(error, ValidationError::Unreadable { .. }), "{error:?}");
            assert_eq!(error.code(), ErrorCode::InvalidRecord);
        }
    }
}

#[test]
fn a_batch_that_grows_past_the_limit_in_recompression_is_refused() {
    let settings = BatchSettings::new(Offset::new(0)).codec(Codec::Gzip);
    let sent = batch_with(settings, &[(Some(&[7; 2000]), NOW.get())]);
    let topic = LogConfig::builder()
        .max_message_bytes(1000)
        .compression_type(CompressionType::Codec(Codec::None))
        .build()
        .unwrap();
    assert_eq!(refused_by(&topic, sent).code(), ErrorCode::MessageTooLarge);
}

/// FR-018: 64 MiB of zeros arrive as a batch of two kilobytes.
#[test]
fn a_record_that_inflates_past_the_limit_is_refused() {
    let settings = BatchSettings::new(Offset::new(0)).codec(Codec::Zstd);
    let sent = batch_with(settings, &[(Some(&vec![0; 64 << 20]), NOW.get())]);
    assert!(sent.len() < 8192);
    let limit = |bytes| LogConfig::builder().max_decompressed_message_bytes(bytes).build().unwrap();
    let error = refused_by(&limit(1 << 20), sent.clone());
    assert_eq!(error.code(), ErrorCode::InvalidRecord);
    written_by(&limit(80 << 20), append(), sent);
}

/// As Kafka's own log takes them: offsets stay, and every batch is of the leader's epoch.
#[test]
fn a_raft_leader_appends_its_own_offsets_and_its_own_epoch_alone() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let epoch = LeaderEpoch::new(0);
    let [first, second, of_epoch_1] = l3();
    let appended = log.append_as_raft_leader(&[first, second.clone()].concat(), epoch).unwrap();
    assert_eq!(appended.last_offset, Some(Offset::new(5)));
    let refused = log.append_as_raft_leader(&of_epoch_1, epoch).unwrap_err();
    assert!(refused.to_string().contains("refused"), "{refused}");
    assert_eq!(refused.code(), ErrorCode::InvalidRecord);
    let refused = log.append_as_raft_leader(&second, epoch).unwrap_err();
    assert!(matches!(refused, AppendError::BelowLogEnd { .. }), "{refused:?}");
    log.append_as_raft_leader(&of_epoch_1, LeaderEpoch::new(1)).unwrap();
    assert_eq!(log.latest_epoch(), Some(LeaderEpoch::new(1)));
    assert_eq!(read(&log, 0).unwrap(), [(0, 2), (3, 5), (6, 8)]);
}
