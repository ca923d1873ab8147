//! `ApiVersions`, Metadata, `FindCoordinator`, `InitProducerId`: what a client asks first.

use bytes::Buf;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest, FindCoordinatorRequest,
    InitProducerIdRequest, MetadataRequest, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, StrBytes};

use crate::client::{TestBroker, name};

/// A version above those that are known is answered in version 0, on an open connection.
#[test]
fn a_version_of_api_versions_that_is_too_high_gets_a_body_of_version_0() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    let request = ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("test"))
        .with_client_software_version(StrBytes::from_static_str("1"));
    let mut frame = client.frame(4, &request);
    frame[6..8].copy_from_slice(&5_i16.to_be_bytes());
    std::io::Write::write_all(&mut client.socket, &frame).unwrap();
    let mut answer = client.receive_frame();
    answer.advance(4);
    let response = ApiVersionsResponse::decode(&mut answer, 0).unwrap();
    assert!(!answer.has_remaining());
    assert_eq!(response.error_code, 35);
    let own = response.api_keys.iter().find(|served| served.api_key == 18).unwrap();
    assert_eq!((own.min_version, own.max_version), (0, 4));
    for version in 0..=4 {
        assert_eq!(client.call(version, &request).error_code, 0);
    }
}

#[test]
fn the_ranges_begin_where_those_of_kafka_do() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let response = broker.client().call(0, &ApiVersionsRequest::default());
    let min_of = |key| {
        response.api_keys.iter().find(|served| served.api_key == key).map(|it| it.min_version)
    };
    let expected = [(0, 0), (1, 4), (2, 1), (3, 0), (19, 2), (20, 1), (23, 2), (10, 0)];
    for (key, min) in expected {
        assert_eq!(min_of(key), Some(min), "{key}");
    }
    // Neither groups nor transactions.
    for key in [8, 9, 11, 24, 25, 26, 28] {
        assert_eq!(min_of(key), None, "{key}");
    }
}

#[test]
fn every_version_of_metadata_names_the_topic_and_a_controller_that_is_a_broker() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("orders", 3);
    for version in 0..=13 {
        let wanted = MetadataRequestTopic::default().with_name(Some(name("orders")));
        let request = MetadataRequest::default().with_topics(Some(vec![wanted]));
        let response = client.call(version, &request);
        let [topic] = &response.topics[..] else { panic!("{response:?}") };
        assert_eq!((topic.error_code, topic.partitions.len()), (0, 3), "{version}");
        assert!(topic.partitions.iter().all(|it| it.leader_id == response.brokers[0].node_id));
        assert_eq!(response.brokers[0].port, i32::from(broker.addr.port()));
        if version >= 1 {
            assert_eq!(response.controller_id, response.brokers[0].node_id, "{version}");
        }
        if version >= 2 {
            assert_eq!(response.cluster_id.as_ref().map(|id| id.len()), Some(22), "{version}");
        }
    }
}

#[test]
fn no_topics_are_all_topics_in_version_0_and_none_later() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("a", 1);
    client.create("b", 1);
    let none = MetadataRequest::default().with_topics(Some(Vec::new()));
    assert_eq!(client.call(0, &none).topics.len(), 2);
    assert_eq!(client.call(1, &none).topics.len(), 0);
    assert_eq!(client.call(1, &MetadataRequest::default().with_topics(None)).topics.len(), 2);
}

#[test]
fn a_topic_is_created_by_asking_for_it_only_where_both_sides_want_that() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let ask = |topic, may_create| {
        let wanted = MetadataRequestTopic::default().with_name(Some(name(topic)));
        let request = MetadataRequest::default()
            .with_topics(Some(vec![wanted]))
            .with_allow_auto_topic_creation(may_create);
        broker.client().call(12, &request).topics.remove(0)
    };
    assert_eq!(ask("new", false).error_code, 3);
    assert_eq!(ask("new", true).error_code, 0);
    assert_eq!(ask("new", false).error_code, 0);
    assert_eq!(ask("../new", true).error_code, 17);

    let other = tempfile::tempdir().unwrap();
    let broker = TestBroker::start_with(other.path(), |s| s.auto_create_topics = false);
    assert_eq!(broker.client().metadata("new").error_code, 3);
}

#[test]
fn a_topic_is_found_by_its_id() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("orders", 1);
    let id = client.metadata("orders").topic_id;
    assert!(!id.is_nil());
    for (wanted, code) in [(id, 0), (uuid::Uuid::from_u128(5), 100)] {
        let topic = MetadataRequestTopic::default().with_name(None).with_topic_id(wanted);
        let request = MetadataRequest::default().with_topics(Some(vec![topic]));
        let found = client.call(12, &request).topics.remove(0);
        assert_eq!(found.error_code, code);
        assert_eq!(found.name.map(|name| name.to_string()), (code == 0).then(|| "orders".into()));
    }
}

#[test]
fn nobody_coordinates_and_every_version_says_so() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    for version in 0..=2 {
        let request = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("g"));
        assert_eq!(broker.client().call(version, &request).error_code, 15);
    }
}

#[test]
fn producer_ids_differ_and_transactions_are_refused() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    let mut ids = Vec::new();
    for version in 0..=5 {
        let request = InitProducerIdRequest::default().with_transactional_id(None);
        let given = client.call(version, &request);
        assert_eq!((given.error_code, given.producer_epoch), (0, 0));
        ids.push(given.producer_id.0);
    }
    ids.dedup();
    assert_eq!(ids.len(), 6);
    let id = TransactionalId(StrBytes::from_static_str("t"));
    let request = InitProducerIdRequest::default().with_transactional_id(Some(id));
    assert_eq!(client.call(4, &request).error_code, 35);
}

#[test]
fn the_cluster_has_one_broker() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    for version in 0..=2 {
        let request = DescribeClusterRequest::default();
        let described = broker.client().call(version, &request);
        assert_eq!((described.error_code, described.brokers.len()), (0, 1));
        assert_eq!(described.controller_id, described.brokers[0].broker_id);
    }
}
