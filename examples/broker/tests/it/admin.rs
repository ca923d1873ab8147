//! What administrators ask for.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsTopic,
};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    BrokerId, CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest,
    DeleteTopicsRequest, DescribeConfigsRequest, DescribeLogDirsRequest,
    IncrementalAlterConfigsRequest, OffsetForLeaderEpochRequest,
};
use kafka_protocol::protocol::StrBytes;

use crate::client::{Client, TestBroker, batch, name};

fn started() -> (tempfile::TempDir, TestBroker, Client) {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    client.create("t", 1);
    (disk, broker, client)
}

fn text(text: &'static str) -> StrBytes {
    StrBytes::from_static_str(text)
}

#[test]
fn topics_that_cannot_be_are_refused_with_the_numbers_of_kafka() {
    let (_disk, _broker, mut client) = started();
    let topic = |topic_name: &'static str, partitions, replicas| {
        CreatableTopic::default()
            .with_name(name(topic_name))
            .with_num_partitions(partitions)
            .with_replication_factor(replicas)
    };
    let config =
        CreatableTopicConfig::default().with_name(text("segment.byte")).with_value(Some(text("5")));
    let elsewhere = CreatableReplicaAssignment::default()
        .with_partition_index(0)
        .with_broker_ids(vec![BrokerId(77)]);
    for (what, topic, code) in [
        ("exists", topic("t", 1, 1), 36),
        ("no partition", topic("a", 0, 1), 37),
        ("millions of partitions", topic("a", i32::MAX, 1), 37),
        ("three replicas", topic("a", 1, 3), 38),
        ("a name with a slash", topic("a/b", 1, 1), 17),
        ("an unknown setting", topic("a", 1, 1).with_configs(vec![config]), 40),
        ("another broker", topic("a", -1, -1).with_assignments(vec![elsewhere]), 39),
        ("defaults", topic("a", -1, -1), 0),
    ] {
        for version in [2, 7] {
            let request = CreateTopicsRequest::default()
                .with_topics(vec![topic.clone()])
                .with_validate_only(code == 0 && version == 2);
            let response = client.call(version, &request);
            assert_eq!(response.topics[0].error_code, code, "{what}: {response:?}");
        }
    }
}

#[test]
fn a_topic_that_stands_twice_in_a_request_is_not_created() {
    let (_disk, _broker, mut client) = started();
    let topic = CreatableTopic::default().with_name(name("twice")).with_num_partitions(1);
    let request = CreateTopicsRequest::default()
        .with_topics(vec![topic.clone().with_replication_factor(1), topic]);
    let response = client.call(7, &request);
    assert!(response.topics.iter().all(|topic| topic.error_code == 42));
}

#[test]
fn a_deleted_topic_is_gone_and_its_name_is_free() {
    let (disk, _broker, mut client) = started();
    client.append("t", &["a"]);
    let id = client.metadata("t").topic_id;
    let by_name = DeleteTopicsRequest::default().with_topic_names(vec![name("t")]);
    assert_eq!(client.call(5, &by_name).responses[0].error_code, 0);
    assert_eq!(client.call(5, &by_name).responses[0].error_code, 3);
    assert!(!disk.path().join("t-0").exists());
    client.create("t", 1);
    let again = client.metadata("t").topic_id;
    assert_ne!(again, id);
    assert_eq!(client.append("t", &["b"]), 0);
    let by_id = |topic_id| {
        let topic = DeleteTopicState::default().with_name(None).with_topic_id(topic_id);
        DeleteTopicsRequest::default().with_topics(vec![topic])
    };
    assert_eq!(client.call(6, &by_id(id)).responses[0].error_code, 100);
    assert_eq!(client.call(6, &by_id(again)).responses[0].error_code, 0);
}

#[test]
fn a_topic_grows_and_never_shrinks() {
    let (_disk, _broker, mut client) = started();
    for (version, count, code) in [(0, 3, 0), (1, 3, 37), (2, 2, 37), (3, 5, 0), (3, 100_000, 37)] {
        let topic = CreatePartitionsTopic::default()
            .with_name(name("t"))
            .with_count(count)
            .with_assignments(None);
        let request = CreatePartitionsRequest::default().with_topics(vec![topic]);
        assert_eq!(client.call(version, &request).results[0].error_code, code, "{count}");
    }
    assert_eq!(client.metadata("t").partitions.len(), 5);
}

#[test]
fn deleted_records_are_out_of_range() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a", "b", "c", "d"]);
    for (version, offset, code, low) in [(0, 2, 0, 2), (1, 9, 1, -1), (2, -1, 0, 4)] {
        let partition =
            DeleteRecordsPartition::default().with_partition_index(0).with_offset(offset);
        let topic =
            DeleteRecordsTopic::default().with_name(name("t")).with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topic]);
        let response = client.call(version, &request);
        let result = &response.topics[0].partitions[0];
        assert_eq!((result.error_code, result.low_watermark), (code, low));
    }
    assert_eq!(client.fetch("t", 3).error_code, 1);
    assert_eq!(client.fetch("t", 4).log_start_offset, 4);
}

#[test]
fn an_epoch_ends_at_the_log_end() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a", "b"]);
    for version in 2..=4 {
        let partition = OffsetForLeaderPartition::default()
            .with_partition(0)
            .with_current_leader_epoch(-1)
            .with_leader_epoch(0);
        let topic =
            OffsetForLeaderTopic::default().with_topic(name("t")).with_partitions(vec![partition]);
        let request = OffsetForLeaderEpochRequest::default()
            .with_replica_id(BrokerId(-1))
            .with_topics(vec![topic]);
        let response = client.call(version, &request);
        let end = &response.topics[0].partitions[0];
        assert_eq!((end.error_code, end.leader_epoch, end.end_offset), (0, 0, 2));
    }
}

fn described(client: &mut Client, key: &str) -> (String, i8) {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let response = client.call(4, &request);
    let config = response.results[0].configs.iter().find(|config| config.name.as_str() == key);
    let config = config.unwrap();
    (config.value.as_ref().unwrap().to_string(), config.config_source)
}

#[test]
fn settings_change_at_once_and_bad_ones_change_nothing() {
    let (disk, broker, mut client) = started();
    assert_eq!(described(&mut client, "max.message.bytes"), ("1048588".into(), 5));
    let alter = |client: &mut Client, version, key, operation, value: Option<&'static str>| {
        let config = AlterableConfig::default()
            .with_name(text(key))
            .with_config_operation(operation)
            .with_value(value.map(text));
        let resource = AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        client.call(version, &request).responses[0].error_code
    };
    assert_eq!(alter(&mut client, 0, "max.message.bytes", 0, Some("100")), 0);
    assert_eq!(described(&mut client, "max.message.bytes"), ("100".into(), 1));
    let long = "x".repeat(200);
    assert_eq!(client.produce("t", crate::client::batch(&[&long])).error_code, 10);
    assert_eq!(alter(&mut client, 1, "max.message.bytes", 0, Some("many")), 40);
    assert_eq!(alter(&mut client, 1, "no.such.key", 0, Some("1")), 40);
    assert_eq!(alter(&mut client, 1, "cleanup.policy", 2, Some("compact")), 0);
    assert_eq!(described(&mut client, "cleanup.policy"), ("compact,delete".into(), 1));
    assert_eq!(alter(&mut client, 1, "max.message.bytes", 1, None), 0);
    assert_eq!(described(&mut client, "max.message.bytes"), ("1048588".into(), 5));
    assert!(broker.stop());
    let broker = TestBroker::start(disk.path());
    assert_eq!(described(&mut broker.client(), "cleanup.policy"), ("compact,delete".into(), 1));
}

#[test]
fn every_version_describes_settings_of_topic_and_broker() {
    let (_disk, _broker, mut client) = started();
    for version in 1..=4 {
        for (kind, resource_name, code) in
            [(2, "t", 0), (2, "nowhere", 3), (4, "1", 0), (4, "9", 42), (8, "1", 42)]
        {
            let resource = DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(resource_name))
                .with_configuration_keys(None);
            let request = DescribeConfigsRequest::default()
                .with_resources(vec![resource])
                .with_include_synonyms(true);
            let response = client.call(version, &request);
            assert_eq!(response.results[0].error_code, code, "{kind} {resource_name}");
        }
    }
}

#[test]
fn log_dirs_tell_the_size_of_each_log() {
    let (_disk, _broker, mut client) = started();
    client.append("t", &["a"]);
    for version in 1..=4 {
        let response = client.call(version, &DescribeLogDirsRequest::default().with_topics(None));
        let [dir] = &response.results[..] else { panic!("{response:?}") };
        let size = i64::try_from(crate::client::batch(&["a"]).len()).unwrap();
        assert_eq!(dir.topics[0].partitions[0].partition_size, size);
        // From version 4 on also the room on the disk.
        let (total, usable) = (dir.total_bytes, dir.usable_bytes);
        let is_told = usable >= 0 && total > usable && total >= 1 << 20;
        assert_eq!(is_told, version >= 4, "{total} {usable}");
    }
}

/// Tools believe what stands in it: nobody writes it through the broker.
#[test]
fn the_log_of_the_controllers_is_no_topic_of_clients() {
    let disk = tempfile::tempdir().unwrap();
    let broker = TestBroker::start(disk.path());
    let mut client = broker.client();
    let topic = CreatableTopic::default()
        .with_name(name("__cluster_metadata"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    let created = client.call(7, &CreateTopicsRequest::default().with_topics(vec![topic]));
    assert_eq!(created.topics[0].error_code, 17);
    assert_eq!(client.metadata("__cluster_metadata").error_code, 17);
    assert_eq!(client.produce("__cluster_metadata", batch(&["a"])).error_code, 3);
    assert!(!disk.path().join("__cluster_metadata-0").exists());
}

#[test]
fn a_topic_that_differs_from_another_by_a_dot_and_an_underscore_alone_is_refused() {
    let (_disk, _broker, mut client) = started();
    client.create("a.b_c", 1);
    for (topic, code) in [("a_b.c", 17), ("a_b_c", 17), ("a-b_c", 0), ("a.b_cd", 0)] {
        let new = CreatableTopic::default().with_name(name(topic)).with_num_partitions(1);
        let new = new.with_replication_factor(1);
        let created = client.call(7, &CreateTopicsRequest::default().with_topics(vec![new]));
        assert_eq!(created.topics[0].error_code, code, "{topic}");
    }
}
