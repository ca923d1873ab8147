//! Produce: what is accepted, what is refused and with which number.

use alluvium_record_format::{BatchSettings, Codec, Offset};
use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::{CreateTopicsRequest, InitProducerIdRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use crate::client::{Client, TestBroker, batch, batch_in, batch_of, batch_with, name, produce};

fn started() -> (tempfile::TempDir, TestBroker, Client) {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("t", 1);
    (disk, broker, client)
}

#[test]
fn every_version_appends_and_offsets_rise_without_gap() {
    let (_disk, _broker, mut client) = started();
    let id = client.metadata("t").topic_id;
    for (version, offset) in (3..=13).zip((0..).step_by(2)) {
        let mut request = produce("t", 1, batch(&["a", "b"]));
        if version >= 13 {
            request.topic_data[0].name = TopicName::default();
            request.topic_data[0].topic_id = id;
        }
        let response = client.call(version, &request);
        let appended = &response.responses[0].partition_responses[0];
        assert_eq!((appended.error_code, appended.base_offset), (0, offset), "{version}");
    }
}

#[test]
fn without_acks_there_is_no_answer_and_an_error_ends_the_connection() {
    let (_disk, broker, mut client) = started();
    client.send(9, &produce("t", 0, batch(&["unheard"])));
    assert_eq!(client.append("t", &["heard"]), 1);
    client.send(9, &produce("nowhere", 0, batch(&["unheard"])));
    assert!(client.is_closed());
    assert_eq!(broker.client().append("t", &["next"]), 2);
}

#[test]
fn damage_is_refused_with_the_numbers_of_kafka() {
    let (_disk, _broker, mut client) = started();
    let whole = batch(&["a", "b", "c"]);
    let edit = |at: usize, byte: u8| {
        let mut bytes = BytesMut::from(&whole[..]);
        bytes[at] ^= byte;
        bytes.freeze()
    };
    let twice = [whole.clone(), whole.clone()].concat();
    for (what, records, code) in [
        ("a wrong checksum", edit(whole.len() - 1, 1), 2),
        ("a wrong checksum in its place", edit(17, 1), 2),
        ("cut short", whole.slice(..whole.len() - 1), 87),
        ("cut within the header", whole.slice(..30), 87),
        ("nothing", Bytes::new(), 87),
        ("two batches", Bytes::from(twice), 87),
        ("magic 1", edit(16, 3), 87),
    ] {
        assert_eq!(client.produce("t", records).error_code, code, "{what}");
    }
    assert_eq!(client.append("t", &["still"]), 0);
}

#[test]
fn a_wrong_count_is_refused_although_the_checksum_is_right() {
    let (_disk, _broker, mut client) = started();
    let mut bytes = BytesMut::from(&batch(&["a", "b", "c"])[..]);
    bytes[57..61].copy_from_slice(&2_i32.to_be_bytes());
    let crc = alluvium_record_format::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(client.produce("t", bytes.freeze()).error_code, 87);
}

#[test]
fn a_record_without_key_is_refused_on_a_compacted_topic_and_named() {
    let (_disk, _broker, mut client) = started();
    let policy = CreatableTopicConfig::default()
        .with_name(StrBytes::from_static_str("cleanup.policy"))
        .with_value(Some(StrBytes::from_static_str("compact")));
    let topic = CreatableTopic::default()
        .with_name(name("compacted"))
        .with_num_partitions(1)
        .with_replication_factor(1)
        .with_configs(vec![policy]);
    client.call(5, &CreateTopicsRequest::default().with_topics(vec![topic]));
    let refused = client.produce("compacted", batch(&["no key"]));
    assert_eq!((refused.error_code, refused.record_errors.len()), (87, 1));
    assert_eq!(refused.record_errors[0].batch_index, 0);
}

#[test]
fn a_time_far_ahead_is_refused() {
    let (_disk, _broker, mut client) = started();
    let far = batch_with(BatchSettings::new(Offset::new(0)), 32_503_680_000_000, &["year 3000"]);
    assert_eq!(client.produce("t", far).error_code, 32);
}

#[test]
fn a_batch_above_the_limit_is_refused_and_the_connection_goes_on() {
    let (_disk, _broker, mut client) = started();
    let large = "x".repeat((1 << 20) + 100);
    assert_eq!(client.produce("t", batch(&[&large])).error_code, 10);
    assert_eq!(client.append("t", &["small"]), 0);
}

#[test]
fn a_producer_that_repeats_itself_gets_the_first_offset_again() {
    let (_disk, _broker, mut client) = started();
    let given = client.call(4, &InitProducerIdRequest::default().with_transactional_id(None));
    let id = given.producer_id.0;
    for (what, epoch, sequence, code, offset) in [
        ("the first", 0, 0, 0, 0),
        ("the next", 0, 2, 0, 2),
        ("the next once more", 0, 2, 0, 2),
        ("a gap", 0, 9, 45, -1),
        ("a new epoch", 1, 0, 0, 4),
        ("the old epoch", 0, 4, 47, -1),
    ] {
        let done = client.produce("t", batch_of(id, epoch, sequence, &["a", "b"]));
        assert_eq!((done.error_code, done.base_offset), (code, offset), "{what}");
    }
}

#[test]
fn every_codec_is_kept_as_it_came_and_zstd_needs_version_7() {
    let (_disk, _broker, mut client) = started();
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let sent = batch_in(codec, &["aaaaaaaaaaaaaaaaaaaaaaaa", "b"]);
        let appended = client.produce("t", sent.clone());
        assert_eq!(appended.error_code, 0, "{codec:?}");
        let kept = client.fetch("t", appended.base_offset).records.unwrap();
        // The base offset and the leader epoch are the broker's.
        assert_eq!(kept[16..], sent[16..], "{codec:?}");
    }
    let old = client.call(6, &produce("t", 1, batch_in(Codec::Zstd, &["a"])));
    assert_eq!(old.responses[0].partition_responses[0].error_code, 76);
}

#[test]
fn unknown_topics_partitions_and_acks_are_refused() {
    let (_disk, _broker, mut client) = started();
    assert_eq!(client.produce("nowhere", batch(&["a"])).error_code, 3);
    let mut request = produce("t", 1, batch(&["a"]));
    request.topic_data[0].partition_data[0].index = 7;
    let response = client.call(9, &request);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 3);
    let response = client.call(9, &produce("t", 2, batch(&["a"])));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 21);
    let mut request = produce("", 1, batch(&["a"]));
    request.topic_data[0].topic_id = uuid::Uuid::from_u128(9);
    let response = client.call(13, &request);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 100);
}

/// As many such requests as the broker has threads, each of 2 GiB once decompressed.
#[test]
fn appends_that_take_long_to_decompress_keep_nobody_waiting() {
    let (_disk, broker, mut bystander) = started();
    let zeros = batch_in(Codec::Zstd, &["\0".repeat(1 << 20).as_str()]);
    let mut request = produce("t", 1, zeros);
    let partitions = &mut request.topic_data[0].partition_data;
    partitions.resize(2000, partitions[0].clone());
    let mut busy = [broker.client(), broker.client()];
    for client in &mut busy {
        client.send(9, &request);
    }
    for _ in 0..20 {
        assert_eq!(bystander.metadata("t").error_code, 0);
    }
    for client in &busy {
        client.socket.set_nonblocking(true).unwrap();
        let early = client.socket.peek(&mut [0]).map_err(|error| error.kind());
        assert_eq!(early, Err(std::io::ErrorKind::WouldBlock));
    }
}

/// More than there are turns: those that wait for one are answered in the end, each.
#[test]
fn many_compressed_appends_at_once_are_all_answered() {
    let (_disk, broker, _client) = started();
    let threads: Vec<_> = std::iter::repeat_with(|| broker.client())
        .take(16)
        .map(|mut client| {
            std::thread::spawn(move || {
                client.produce("t", batch_in(Codec::Zstd, &["a"])).base_offset
            })
        })
        .collect();
    let mut offsets: Vec<_> = threads.into_iter().map(|it| it.join().unwrap()).collect();
    offsets.sort_unstable();
    assert!(offsets.into_iter().eq(0..16));
}
