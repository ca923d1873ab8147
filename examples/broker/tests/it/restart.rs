//! What is left after a stop, and the metrics.

use std::io::{Read, Write};
use std::net::TcpStream;

use alluvium_log_manager::{Clock, SystemClock};
use alluvium_record_format::{BatchSettings, Offset, ProducerEpoch, ProducerId, Sequence};
use bytes::Bytes;

use crate::client::{TestBroker, batch_with};

/// A producer that was silent for a day would be forgotten, so this one wrote just now.
fn batch_of_producer() -> Bytes {
    let id = ProducerId::new(7);
    let settings = BatchSettings::new(Offset::new(0)).producer(
        id,
        ProducerEpoch::new(0),
        Some(Sequence::new(0)),
    );
    batch_with(settings, SystemClock::default().now().get(), &["c"])
}

#[test]
fn a_stopped_broker_leaves_a_clean_marker_and_all_its_records() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("t", 2);
    let id = client.metadata("t").topic_id;
    client.append("t", &["a", "b"]);
    let sent = batch_of_producer();
    assert_eq!(client.produce("t", sent.clone()).base_offset, 2);
    assert!(broker.stop());
    assert!(disk.path().join(".kafka_cleanshutdown").exists());
    assert!(disk.path().join("meta.properties").exists());

    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    let topic = client.metadata("t");
    assert_eq!((topic.topic_id, topic.partitions.len()), (id, 2));
    let read = client.fetch("t", 0);
    assert_eq!((read.error_code, read.high_watermark), (0, 3));
    // The producer is remembered: its batch is not written twice.
    assert_eq!(client.produce("t", sent).base_offset, 2);
    assert_eq!(client.append("t", &["d"]), 3);
}

#[test]
fn a_directory_with_an_absurd_number_is_left_out_and_its_topic_keeps_the_others() {
    let disk = tempfile::tempdir().unwrap();
    for dir in ["t-1", "t-2147483647", "t-10000", "alone-2147483647"] {
        std::fs::create_dir(disk.path().join(dir)).unwrap();
    }
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    let topic = client.metadata("t");
    assert_eq!((topic.error_code, topic.partitions.len()), (0, 2));
    client.create("alone", 1);
    assert_eq!(client.append("alone", &["a"]), 0);
    assert!(broker.stop());
    assert!(disk.path().join("alone-2147483647").exists());
}

#[test]
fn a_log_whose_topic_cannot_be_told_is_left_out_and_the_others_are_served() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    for topic in ["sound", "spoilt"] {
        client.create(topic, 1);
        client.append(topic, &["a"]);
    }
    assert!(broker.stop());
    let metadata = disk.path().join("spoilt-0/partition.metadata");
    std::fs::write(&metadata, "nothing of the kind\n").unwrap();

    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    assert_eq!(client.append("sound", &["b"]), 1);
    assert_ne!(client.fetch("spoilt", 0).error_code, 0);
    assert!(broker.stop());
    assert_eq!(std::fs::read_to_string(metadata).unwrap(), "nothing of the kind\n");
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let second = std::panic::catch_unwind(|| TestBroker::start(disk.path()));
    assert!(second.is_err());
    assert!(broker.stop());
}

#[test]
fn metrics_tell_how_idle_the_broker_is() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(disk.path(), |settings| {
        settings.metrics = Some("127.0.0.1:0".parse().unwrap());
    });
    broker.client().create("t", 1);
    let mut socket = TcpStream::connect(broker.metrics_addr()).unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("broker_request_handler_idle_percent"), "{answer}");
    assert!(answer.contains(r#"broker_requests_total{api="CreateTopics"}"#), "{answer}");
}
