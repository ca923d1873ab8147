//! `ListOffsets`: times, special times, and which version knows which.

use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::{BrokerId, ListOffsetsRequest};

use crate::client::{Client, TIME, TestBroker, name};

fn ask(client: &mut Client, version: i16, timestamp: i64) -> ListOffsetsPartitionResponse {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(0)
        .with_current_leader_epoch(-1)
        .with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(name("t")).with_partitions(vec![partition]);
    let request =
        ListOffsetsRequest::default().with_replica_id(BrokerId(-1)).with_topics(vec![topic]);
    client.call(version, &request).topics.remove(0).partitions.remove(0)
}

#[test]
fn times_are_found_in_every_version() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("t", 1);
    client.append("t", &["a", "b", "c"]); // at TIME, TIME + 1, TIME + 2
    for version in 1..=10 {
        for (timestamp, offset, found) in [
            (-1, 3, -1),
            (-2, 0, -1),
            (0, 0, TIME),
            (TIME + 1, 1, TIME + 1),
            (TIME + 2, 2, TIME + 2),
            (TIME + 3, -1, -1),
        ] {
            let answer = ask(&mut client, version, timestamp);
            let got = (answer.error_code, answer.offset, answer.timestamp);
            assert_eq!(got, (0, offset, found), "version {version}, time {timestamp}");
        }
    }
    assert_eq!(ask(&mut client, 7, -3).offset, 2);
    assert_eq!(ask(&mut client, 8, -4).offset, 0);
    assert_eq!(ask(&mut client, 9, -5).offset, -1);
}

#[test]
fn a_special_time_that_a_version_does_not_know_is_refused() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("t", 1);
    for (version, timestamp) in [(6, -3), (7, -4), (8, -5), (10, -6), (10, -7)] {
        assert_eq!(ask(&mut client, version, timestamp).error_code, 35, "{version} {timestamp}");
    }
}

#[test]
fn an_empty_log_has_bounds_and_no_times() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("t", 1);
    for (timestamp, offset) in [(-1, 0), (-2, 0), (-3, -1), (0, -1)] {
        let answer = ask(&mut client, 7, timestamp);
        assert_eq!((answer.error_code, answer.offset), (0, offset), "{timestamp}");
    }
}
