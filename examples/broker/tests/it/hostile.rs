//! Bytes that no client would send: the connection ends, and the broker goes on.

use std::io::Write;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, ListOffsetsRequest,
    MetadataRequest,
};
use kafka_protocol::protocol::StrBytes;

use crate::client::{Client, TestBroker, batch, fetch, name, produce};

fn started() -> (tempfile::TempDir, TestBroker) {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| settings.stall_ms = 100);
    broker.client().create("t", 1);
    (disk, broker)
}

fn assert_good_round_trip(broker: &TestBroker) {
    let mut client = broker.client();
    let offset = client.append("t", &["good"]);
    assert_eq!(client.fetch("t", offset).error_code, 0);
}

fn header(key: i16, version: i16) -> BytesMut {
    let mut bytes = BytesMut::new();
    bytes.put_i16(key);
    bytes.put_i16(version);
    bytes.put_i32(1);
    bytes.put_i16(-1);
    bytes
}

fn framed(body: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn garbage_lengths_and_unknown_requests_end_the_connection_alone() {
    let (_disk, broker) = started();
    let mut bystander = broker.client();
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("garbage", (0..200_u8).map(|at| at.wrapping_mul(37) ^ 0x5a).collect()),
        ("a length of 2 GiB - 1", vec![0x7f, 0xff, 0xff, 0xff, 0, 0]),
        ("a negative length", vec![0xff, 0xff, 0xff, 0xff]),
        ("no header", framed(&[])),
        ("half a header", framed(&[0, 3, 0])),
        ("an unknown key", framed(&header(999, 0))),
        ("a key below 0", framed(&header(-1, 0))),
        ("a group's request", framed(&header(11, 5))),
        ("a version too high", framed(&header(3, 99))),
        ("a version below 0", framed(&header(3, -1))),
        ("an old version of Produce", framed(&header(0, 2))),
    ];
    for (what, bytes) in cases {
        let mut client = broker.client();
        client.socket.write_all(&bytes).unwrap();
        assert!(client.is_closed(), "{what}");
        assert_good_round_trip(&broker);
    }
    assert_eq!(bystander.metadata("t").error_code, 0);
}

#[test]
fn a_client_that_stops_within_a_frame_is_not_waited_for() {
    let (_disk, broker) = started();
    let mut client = broker.client();
    let frame = client.frame(9, &produce("t", 1, batch(&["a"])));
    client.socket.write_all(&frame[..frame.len() / 2]).unwrap();
    assert!(client.is_closed());
    assert_good_round_trip(&broker);
}

/// Nothing but a few of the bytes ever come.
#[test]
fn frames_that_are_only_announced_keep_nobody_from_memory() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| {
        settings.max_request_bytes = 1 << 20;
        settings.max_in_flight_bytes = 1 << 20;
    });
    broker.client().create("t", 1);
    let slow: Vec<Client> = std::iter::repeat_with(|| broker.client()).take(3).collect();
    for client in &slow {
        let mut socket = &client.socket;
        socket.write_all(&(1_u32 << 20).to_be_bytes()).unwrap();
        socket.write_all(&[0]).unwrap();
    }
    let value = "x".repeat(900 << 10);
    assert_eq!(broker.client().append("t", &[&value]), 0);
}

#[test]
fn a_frame_that_comes_by_drops_is_not_waited_for() {
    let (_disk, broker) = started();
    let mut client = broker.client();
    client.socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    client.socket.write_all(&(100_u32 << 10).to_be_bytes()).unwrap();
    let closed = (0..100).any(|_drop| {
        let sent = client.socket.write_all(&[0]);
        let read = std::io::Read::read(&mut client.socket, &mut [0]);
        let waits = read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        sent.is_err() || !waits
    });
    assert!(closed);
    assert_good_round_trip(&broker);
}

/// The decoders of the protocol allocate what a count claims: it is compared first.
#[test]
fn counts_of_billions_are_refused_without_an_allocation() {
    let (_disk, broker) = started();
    let huge = i32::MAX.to_be_bytes();
    // The varint of 2^32 - 1.
    let compact = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let cases: Vec<(&str, i16, i16, Vec<u8>)> = vec![
        ("metadata", 3, 1, huge.to_vec()),
        ("metadata, flexible", 3, 12, [&[0][..], &compact].concat()),
        ("create topics", 19, 2, huge.to_vec()),
        ("create topics, flexible", 19, 7, [&[0][..], &compact].concat()),
        ("list offsets", 2, 1, [&(-1_i32).to_be_bytes()[..], &huge].concat()),
        ("fetch", 1, 4, [&[0; 17][..], &huge].concat()),
        ("produce", 0, 3, [&[0xff, 0xff, 0, 1, 0, 0, 0, 1][..], &huge].concat()),
        ("delete topics", 20, 1, huge.to_vec()),
        ("describe configs", 32, 1, huge.to_vec()),
        ("describe log dirs", 35, 1, huge.to_vec()),
        ("delete records", 21, 0, huge.to_vec()),
        ("create partitions", 37, 0, huge.to_vec()),
        ("alter configs", 44, 0, huge.to_vec()),
        ("epochs", 23, 2, huge.to_vec()),
    ];
    for (what, key, version, body) in cases {
        let mut client = broker.client();
        let frame = framed(&[&header(key, version)[..], &body].concat());
        client.socket.write_all(&frame).unwrap();
        assert!(client.is_closed(), "{what}");
        assert_good_round_trip(&broker);
    }
}

#[test]
fn a_request_of_very_many_elements_ends_its_connection_alone() {
    // Patient: all of it is to be there.
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    broker.client().create("t", 1);
    let many = 100_001_u32;
    let count = many.to_be_bytes();
    let names = vec![0; 2 * 100_001];
    let tagged: Vec<u8> = (0..200_002_u32).map(|at| u8::from(at % 2 == 0)).collect();
    let metadata = [&count[..], &names].concat();
    let fields = [&[0, 1, 0, 0, 0xa1, 0x8d, 6][..], &tagged].concat();
    let partitions = vec![0xff; 8 * 100_001];
    let produce = [&[0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, b't'][..], &count].concat();
    let cases = [
        ("metadata", framed(&[&header(3, 0)[..], &metadata].concat())),
        ("metadata, tagged fields", framed(&[&header(3, 12)[..], &fields].concat())),
        ("produce", framed(&[&header(0, 3)[..], &produce, &partitions].concat())),
    ];
    for (what, frame) in cases {
        let mut client = broker.client();
        client.socket.write_all(&frame).unwrap();
        assert!(client.is_closed(), "{what}");
    }
    assert_good_round_trip(&broker);
}

#[test]
fn what_stands_twice_in_a_request_is_answered_once() {
    let (_disk, broker) = started();
    let mut client = broker.client();
    let topic = MetadataRequestTopic::default().with_name(Some(name("t")));
    let request = MetadataRequest::default().with_topics(Some(vec![topic; 1000]));
    assert_eq!(client.call(12, &request).topics.len(), 1);
    let resource = |kind, name| {
        let name = StrBytes::from_static_str(name);
        DescribeConfigsResource::default().with_resource_type(kind).with_resource_name(name)
    };
    let mut resources = vec![resource(2, "t"), resource(4, "1")];
    resources.extend(resources.clone());
    let request = DescribeConfigsRequest::default().with_resources(resources);
    assert_eq!(client.call(4, &request).results.len(), 2);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource(4, "+01")]);
    assert_eq!(client.call(4, &request).results[0].error_code, 42);
}

#[test]
fn very_many_topics_at_once_are_refused_each() {
    let (_disk, broker) = started();
    let topic = |number| {
        let topic = CreatableTopic::default().with_name(name(&format!("n{number}")));
        topic.with_num_partitions(1).with_replication_factor(1)
    };
    let topics = (0..10_001).map(topic).collect();
    let request = CreateTopicsRequest::default().with_topics(topics).with_validate_only(true);
    let response = broker.client().call(7, &request);
    assert!(response.topics.iter().all(|topic| topic.error_code == 44));
}

/// Each request cut at every byte, and each with every byte turned round.
#[test]
fn requests_with_any_byte_changed_or_missing_leave_the_broker_alive() {
    let (_disk, broker) = started();
    let mut maker = broker.client();
    let frames = [
        maker.frame(9, &MetadataRequest::default()),
        maker.frame(12, &fetch("t", 0).with_max_wait_ms(1)),
        maker.frame(3, &produce("t", 1, batch(&["a"]))),
        maker.frame(9, &produce("t", 1, batch(&["a"]))),
        maker.frame(7, &CreateTopicsRequest::default()),
        maker.frame(6, &DeleteTopicsRequest::default()),
        maker.frame(7, &ListOffsetsRequest::default()),
    ];
    for frame in frames {
        for at in 4..frame.len() {
            let mut changed = frame.clone();
            changed[at] ^= 0xff;
            send_and_forget(&broker, &changed);
            send_and_forget(&broker, &framed(&frame[4..at]));
        }
    }
    assert_good_round_trip(&broker);
}

fn send_and_forget(broker: &TestBroker, bytes: &[u8]) {
    let client = Client::connect(broker.addr);
    let mut socket = &client.socket;
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket.write_all(bytes).unwrap();
    socket.shutdown(std::net::Shutdown::Write).unwrap();
    // Whatever comes, it ends.
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut socket, &mut answer).ok();
}

#[test]
fn a_connection_too_many_is_refused_and_its_seat_is_free_again_later() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| settings.max_connections = 2);
    let mut first = broker.client();
    let mut second = broker.client();
    assert_eq!(first.metadata("t").error_code, 0);
    assert_eq!(second.metadata("t").error_code, 0);
    assert!(broker.client().is_closed());
    drop(first);
    assert_a_seat_becomes_free(&broker);
}

#[test]
fn a_client_that_does_not_read_its_answers_loses_its_seat() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| {
        settings.stall_ms = 1000;
        settings.max_connections = 1;
    });
    let mut client = broker.client();
    client.create("t", 1);
    client.append("t", &[&"x".repeat(900 << 10)]);
    for _ in 0..64 {
        let frame = client.frame(12, &fetch("t", 0));
        // The seat may be lost before all are sent.
        client.socket.write_all(&frame).ok();
    }
    assert_a_seat_becomes_free(&broker);
    drop(client);
}

#[test]
fn a_client_that_asks_for_nothing_is_hung_up_on() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| settings.max_idle_ms = 50);
    let mut client = broker.client();
    assert_eq!(std::io::Read::read(&mut client.socket, &mut [0]).unwrap(), 0);
}

fn assert_a_seat_becomes_free(broker: &TestBroker) {
    let patience = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let mut third = broker.client();
        if !third.is_closed_now() {
            assert_eq!(third.metadata("t").error_code, 0);
            break;
        }
        assert!(std::time::Instant::now() < patience);
    }
}
