//! A broker of its own for each test, and a client that sends any request in any version.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use alluvium_broker::{Broker, Settings};
use alluvium_log_manager::BrokerConfig;
use alluvium_record_format::{
    BatchBuilder, BatchSettings, Codec, Offset, ProducerEpoch, ProducerId, Sequence, SimpleRecord,
    Timestamp,
};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponseTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    ApiKey, BrokerId, CreateTopicsRequest, FetchRequest, FetchResponse, MetadataRequest,
    ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, Request, StrBytes};
use tokio::runtime::Runtime;

/// A broker in this process.
pub(crate) struct TestBroker {
    runtime: Runtime,
    broker: Option<Broker>,
    pub(crate) addr: SocketAddr,
}

impl TestBroker {
    pub(crate) fn start(data: &Path) -> Self {
        Self::start_with(data, |_settings| {})
    }

    pub(crate) fn start_with(data: &Path, change: impl FnOnce(&mut Settings)) -> Self {
        let dirs = data.to_str().unwrap();
        let (logs, _unknown) =
            BrokerConfig::from_properties([("log.dirs", dirs), ("log.retention.ms", "-1")])
                .unwrap();
        let mut settings = Settings::new(logs);
        change(&mut settings);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let broker = runtime
            .block_on(async { tokio::spawn(Broker::start(settings)).await.unwrap().unwrap() });
        let addr = broker.addr();
        Self { runtime, broker: Some(broker), addr }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.addr)
    }

    pub(crate) fn metrics_addr(&self) -> SocketAddr {
        self.broker.as_ref().unwrap().metrics_addr().unwrap()
    }

    /// Stops gracefully; returns whether the next start may do without recovery.
    pub(crate) fn stop(mut self) -> bool {
        let broker = self.broker.take().unwrap();
        self.runtime.block_on(async { tokio::spawn(broker.stop()).await.unwrap().unwrap() })
    }
}

/// One connection, of a socket or through TLS.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) socket: S,
    correlation_id: i32,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_nodelay(true).unwrap();
        Self::over(socket)
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) const fn over(socket: S) -> Self {
        Self { socket, correlation_id: 0 }
    }

    /// Sends a request and reads its answer.
    pub(crate) fn call<Q: Request>(&mut self, version: i16, request: &Q) -> Q::Response {
        self.send(version, request);
        self.receive::<Q>(version)
    }

    pub(crate) fn send<Q: Request>(&mut self, version: i16, request: &Q) {
        let frame = self.frame(version, request);
        self.socket.write_all(&frame).unwrap();
    }

    /// A request with its length.
    pub(crate) fn frame<Q: Request>(&mut self, version: i16, request: &Q) -> BytesMut {
        self.correlation_id += 1;
        let header = RequestHeader::default()
            .with_request_api_key(Q::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("test")));
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        header.encode(&mut frame, Q::header_version(version)).unwrap();
        request.encode(&mut frame, version).unwrap();
        let len = u32::try_from(frame.len() - 4).unwrap();
        frame[..4].copy_from_slice(&len.to_be_bytes());
        frame
    }

    pub(crate) fn receive<Q: Request>(&mut self, version: i16) -> Q::Response {
        let mut body = self.receive_frame();
        let key = ApiKey::try_from(Q::KEY).unwrap();
        let header_version = key.response_header_version(version);
        let header = ResponseHeader::decode(&mut body, header_version).unwrap();
        assert_eq!(header.correlation_id, self.correlation_id);
        let response = Q::Response::decode(&mut body, version).unwrap();
        assert!(!body.has_remaining(), "{} bytes too many", body.remaining());
        response
    }

    pub(crate) fn receive_frame(&mut self) -> Bytes {
        let mut length = [0; 4];
        self.socket.read_exact(&mut length).unwrap();
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        self.socket.read_exact(&mut body).unwrap();
        Bytes::from(body)
    }

    /// Whether the broker closes the connection, and says nothing more. Panics where it does
    /// neither.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.socket.read(&mut [0]) {
            Ok(len) => len == 0,
            Err(error) => is_end(&error),
        }
    }

    /// Whether the broker closes the connection instead of answering.
    pub(crate) fn is_closed_now(&mut self) -> bool {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        let frame = self.frame(12, &request);
        self.socket.write_all(&frame).is_err() || self.is_closed_before_answer()
    }

    fn is_closed_before_answer(&mut self) -> bool {
        let mut length = [0; 4];
        if let Err(error) = self.socket.read_exact(&mut length) {
            return is_end(&error);
        }
        let mut body = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
        self.socket.read_exact(&mut body).is_err_and(|error| is_end(&error))
    }

    pub(crate) fn create(&mut self, topic: &str, partitions: i32) {
        let topic = CreatableTopic::default()
            .with_name(name(topic))
            .with_num_partitions(partitions)
            .with_replication_factor(1);
        let response = self.call(7, &CreateTopicsRequest::default().with_topics(vec![topic]));
        assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    }

    pub(crate) fn metadata(&mut self, topic: &str) -> MetadataResponseTopic {
        let wanted = MetadataRequestTopic::default().with_name(Some(name(topic)));
        let request = MetadataRequest::default().with_topics(Some(vec![wanted]));
        self.call(12, &request).topics.remove(0)
    }

    pub(crate) fn produce(&mut self, topic: &str, records: Bytes) -> PartitionProduceResponse {
        let mut response = self.call(9, &produce(topic, -1, records));
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Appends a batch of records with these values, and returns the offset of the first.
    pub(crate) fn append(&mut self, topic: &str, values: &[&str]) -> i64 {
        let appended = self.produce(topic, batch(values));
        assert_eq!(appended.error_code, 0, "{appended:?}");
        appended.base_offset
    }

    pub(crate) fn fetch(&mut self, topic: &str, offset: i64) -> PartitionData {
        let mut response: FetchResponse = self.call(12, &fetch(topic, offset));
        response.responses.remove(0).partitions.remove(0)
    }
}

/// Whether this is how a connection ends. Panics where nothing came in time.
fn is_end(error: &io::Error) -> bool {
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(kinds.contains(&error.kind()), "the connection stays: {error}");
    true
}

pub(crate) fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

pub(crate) fn produce(topic: &str, acks: i16, records: Bytes) -> ProduceRequest {
    let partition = PartitionProduceData::default().with_index(0).with_records(Some(records));
    let topic =
        TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![partition]);
    ProduceRequest::default()
        .with_transactional_id(None)
        .with_acks(acks)
        .with_timeout_ms(1000)
        .with_topic_data(vec![topic])
}

/// Asks for what is there, waiting for nothing.
pub(crate) fn fetch(topic: &str, offset: i64) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(0)
        .with_fetch_offset(offset)
        .with_current_leader_epoch(-1)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default().with_topic(name(topic)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_topics(vec![topic])
}

/// A batch as a client sends it.
pub(crate) fn batch(values: &[&str]) -> Bytes {
    batch_with(BatchSettings::new(Offset::new(0)), TIME, values)
}

/// A batch of an idempotent producer.
pub(crate) fn batch_of(producer: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let settings = BatchSettings::new(Offset::new(0)).producer(
        ProducerId::new(producer),
        ProducerEpoch::new(epoch),
        Some(Sequence::new(sequence)),
    );
    batch_with(settings, TIME, values)
}

/// A batch in a codec.
pub(crate) fn batch_in(codec: Codec, values: &[&str]) -> Bytes {
    batch_with(BatchSettings::new(Offset::new(0)).codec(codec), TIME, values)
}

pub(crate) fn batch_with(settings: BatchSettings, first_ms: i64, values: &[&str]) -> Bytes {
    let mut builder = BatchBuilder::new(settings);
    for (time, value) in (first_ms..).zip(values) {
        let record = SimpleRecord::new().value(value.as_bytes()).timestamp(Timestamp::new(time));
        builder.append(&record).unwrap();
    }
    Bytes::copy_from_slice(builder.finish().unwrap())
}

/// A time in the past.
pub(crate) const TIME: i64 = 1_700_000_000_000;
