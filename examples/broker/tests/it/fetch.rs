//! Fetch: limits, long polls, errors.

use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::FetchPartition;
use kafka_protocol::messages::{FetchRequest, FetchResponse, TopicName};

use crate::client::{Client, TestBroker, batch, fetch};

fn started() -> (tempfile::TempDir, TestBroker, Client) {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("t", 2);
    (disk, broker, client)
}

fn records_of(response: &FetchResponse, partition: usize) -> usize {
    response.responses[0].partitions[partition].records.as_ref().map_or(0, Bytes::len)
}

#[test]
fn every_version_reads_what_was_written() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a"]);
    let sent = batch(&["a"]);
    let id = client.metadata("t").topic_id;
    for version in 4..=18 {
        let mut request = fetch("t", 0);
        if version >= 13 {
            request.topics[0].topic = TopicName::default();
            request.topics[0].topic_id = id;
        }
        let mut response = client.call(version, &request);
        let mut topic = response.responses.remove(0);
        let read = topic.partitions.remove(0);
        assert_eq!((read.error_code, read.high_watermark, read.last_stable_offset), (0, 1, 1));
        assert_eq!(read.records.unwrap()[16..], sent[16..], "{version}");
        assert_eq!(read.aborted_transactions, None);
        assert_eq!(response.session_id, 0);
    }
}

#[test]
fn the_first_batch_is_whole_whatever_the_limits_and_the_next_partition_gets_nothing() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a", "b", "c"]);
    let whole = batch(&["a", "b", "c"]).len();
    let mut request = fetch("t", 0);
    request.max_bytes = 1;
    request.topics[0].partitions[0].partition_max_bytes = 1;
    let second = FetchPartition::default().with_partition(1).with_partition_max_bytes(1);
    request.topics[0].partitions.push(second);
    let response = client.call(12, &request);
    assert_eq!(records_of(&response, 0), whole);
    assert_eq!(records_of(&response, 1), 0);
}

#[test]
fn a_partition_is_cut_at_its_own_limit() {
    let (_disk, _broker, mut client) = started();
    for _ in 0..10 {
        client.append("t", &["a"]);
    }
    let one = batch(&["a"]).len();
    let mut request = fetch("t", 0);
    request.topics[0].partitions[0].partition_max_bytes = i32::try_from(one * 3 + 7).unwrap();
    assert_eq!(records_of(&client.call(12, &request), 0), one * 3 + 7);
}

#[test]
fn a_fetch_of_many_partitions_reads_all_of_them_up_to_its_limit() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a"]);
    let one = batch(&["a"]).len();
    let mut request = fetch("t", 0);
    let asked = request.topics[0].partitions[0].clone();
    request.topics[0].partitions = vec![asked; 500];
    request.max_bytes = i32::try_from(one * 300 + 7).unwrap();
    let response = client.call(12, &request);
    let lens: Vec<_> = (0..500).map(|partition| records_of(&response, partition)).collect();
    assert!(lens[..300].iter().all(|len| *len == one), "{lens:?}");
    assert_eq!(lens[300], 7);
    assert!(lens[301..].iter().all(|len| *len == 0), "{lens:?}");
}

#[test]
fn a_fetch_at_the_end_waits_until_a_record_comes() {
    let (_disk, broker, mut client) = started();
    let mut waiting = broker.client();
    let request = fetch("t", 0).with_max_wait_ms(15_000);
    waiting.send(12, &request);
    let began = Instant::now();
    client.append("t", &["a"]);
    let response: FetchResponse = waiting.receive::<FetchRequest>(12);
    assert_eq!(records_of(&response, 0), batch(&["a"]).len());
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_fetch_that_finds_too_little_answers_when_its_time_is_over() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a"]);
    let mut request = fetch("t", 0);
    request.min_bytes = 1 << 20;
    request.max_wait_ms = 50;
    let began = Instant::now();
    let response = client.call(12, &request);
    assert!(began.elapsed() >= Duration::from_millis(50));
    assert_eq!(records_of(&response, 0), batch(&["a"]).len());
}

#[test]
fn errors_are_told_at_once_and_leave_other_partitions_alone() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a"]);
    let mut request = fetch("t", 0);
    request.max_wait_ms = 60_000;
    for (partition, offset) in [(0, 5), (0, -3), (9, 0)] {
        request.topics[0].partitions.push(
            FetchPartition::default()
                .with_partition(partition)
                .with_fetch_offset(offset)
                .with_partition_max_bytes(1000),
        );
    }
    let response = client.call(12, &request);
    let codes: Vec<_> = response.responses[0].partitions.iter().map(|it| it.error_code).collect();
    assert_eq!(codes, [0, 1, 1, 3]);
    assert!(records_of(&response, 0) > 0);
    let unknown = client.call(12, &fetch("nowhere", 0));
    assert_eq!(unknown.responses[0].partitions[0].error_code, 3);
    let mut by_id = fetch("", 0);
    by_id.topics[0].topic_id = uuid::Uuid::from_u128(3);
    assert_eq!(client.call(13, &by_id).responses[0].partitions[0].error_code, 100);
}

#[test]
fn another_leader_epoch_is_fenced() {
    let (_disk, _broker, mut client) = started();
    let mut request = fetch("t", 0);
    request.topics[0].partitions[0].current_leader_epoch = 3;
    assert_eq!(client.call(12, &request).responses[0].partitions[0].error_code, 75);
}

#[test]
fn a_session_that_nobody_gave_is_refused_and_a_new_one_declined() {
    let (_disk, _broker, mut client) = started();
    let mut request = fetch("t", 0);
    request.session_epoch = 0;
    assert_eq!(client.call(12, &request).session_id, 0);
    request.session_id = 7;
    let refused = client.call(12, &request);
    assert_eq!((refused.error_code, refused.responses.len()), (70, 0));
}

#[test]
fn read_committed_names_aborted_transactions_even_if_there_are_none() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a"]);
    let mut request = fetch("t", 0);
    request.isolation_level = 1;
    let response = client.call(12, &request);
    let read = &response.responses[0].partitions[0];
    assert_eq!(read.aborted_transactions.as_deref(), Some(&[][..]));
    assert!(records_of(&response, 0) > 0);
}

#[test]
fn a_client_that_leaves_a_long_poll_is_let_go() {
    let (_disk, broker, mut client) = started();
    let mut waiting = broker.client();
    waiting.send(12, &fetch("t", 0).with_max_wait_ms(i32::MAX));
    drop(waiting);
    assert_eq!(client.append("t", &["a"]), 0);
    assert!(broker.stop());
}
