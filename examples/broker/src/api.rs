//! The requests that are served, one module each.

mod api_versions;
mod codes;
mod configs;
mod create_partitions;
mod create_topics;
mod delete_records;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_log_dirs;
mod epoch;
mod fetch;
mod find_coordinator;
mod incremental_alter_configs;
mod init_producer_id;
mod list_offsets;
mod metadata;
mod offset_for_leader_epoch;
mod produce;

use bytes::{Buf, BytesMut};
use kafka_protocol::messages::{ApiKey, FindCoordinatorRequest};
use kafka_protocol::protocol::{Encodable, Request};

use crate::broker::Node;
use crate::net::{Hangup, Header, Peer, Reply, ReplyBuilder};
use crate::observe;
use crate::wire::{self, Reader};

/// The versions of a request that are served.
#[derive(Clone, Copy, Debug)]
struct Served {
    key: ApiKey,
    /// What clients are told.
    advertised_min: i16,
    /// What is answered.
    min: i16,
    max: i16,
}

const fn served(key: ApiKey, min: i16, max: i16) -> Served {
    Served { key, advertised_min: min, min, max }
}

/// All that is served, in the order of the keys.
///
/// Versions 0 to 2 of Produce are not served but advertised, as by Kafka: librdkafka takes the
/// lowest version of Produce for a sign of which codecs a broker knows.
const SERVED: &[Served] = &[
    Served { key: ApiKey::Produce, advertised_min: 0, min: 3, max: 13 },
    served(ApiKey::Fetch, 4, 18),
    served(ApiKey::ListOffsets, 1, 11),
    served(ApiKey::Metadata, 0, 13),
    served(ApiKey::FindCoordinator, 0, 2),
    served(ApiKey::ApiVersions, 0, 4),
    served(ApiKey::CreateTopics, 2, 7),
    served(ApiKey::DeleteTopics, 1, 6),
    served(ApiKey::DeleteRecords, 0, 2),
    served(ApiKey::InitProducerId, 0, 5),
    served(ApiKey::OffsetForLeaderEpoch, 2, 4),
    served(ApiKey::DescribeConfigs, 1, 4),
    served(ApiKey::DescribeLogDirs, 1, 4),
    served(ApiKey::CreatePartitions, 0, 3),
    served(ApiKey::IncrementalAlterConfigs, 0, 1),
    served(ApiKey::DescribeCluster, 0, 2),
];

/// Whether this version of a request is answered.
pub(crate) fn serves(key: ApiKey, version: i16) -> bool {
    let known = SERVED.iter().find(|served| served.key == key);
    known.is_some_and(|served| (served.min..=served.max).contains(&version))
}

/// Answers a request; `None` where its client wants no answer.
pub(crate) async fn answer(
    node: &Node,
    peer: &Peer<'_>,
    header: &Header,
    frame: &mut BytesMut,
) -> Result<Option<Reply>, Hangup> {
    observe::requested(header.key);
    match header.key {
        ApiKey::Fetch => fetch::answer(node, peer, header, frame).await.map(Some),
        ApiKey::Produce => produce::answer(node, header, frame).await,
        ApiKey::ApiVersions => node.usage.busy(|| api_versions::answer(header)).map(Some),
        _ => {
            let answer = || answer_at_once(node, peer, header, frame);
            node.in_turn(&node.answer_turns, answer).await.map(Some)
        }
    }
}

/// Answers what neither waits nor carries records, but may take its time.
fn answer_at_once(
    node: &Node,
    peer: &Peer<'_>,
    header: &Header,
    frame: &mut BytesMut,
) -> Result<Reply, Hangup> {
    let version = header.version;
    match header.key {
        ApiKey::ListOffsets => typed(header, frame, |q| list_offsets::answer(node, version, &q)),
        ApiKey::Metadata => typed(header, frame, |q| metadata::answer(node, peer, version, &q)),
        ApiKey::FindCoordinator => {
            typed(header, frame, |_: FindCoordinatorRequest| find_coordinator::answer())
        }
        ApiKey::CreateTopics => typed(header, frame, |q| create_topics::answer(node, &q)),
        ApiKey::DeleteTopics => typed(header, frame, |q| delete_topics::answer(node, &q)),
        ApiKey::DeleteRecords => typed(header, frame, |q| delete_records::answer(node, &q)),
        ApiKey::InitProducerId => typed(header, frame, |q| init_producer_id::answer(node, &q)),
        ApiKey::OffsetForLeaderEpoch => {
            typed(header, frame, |q| offset_for_leader_epoch::answer(node, &q))
        }
        ApiKey::DescribeConfigs => typed(header, frame, |q| describe_configs::answer(node, &q)),
        ApiKey::DescribeLogDirs => typed(header, frame, |q| describe_log_dirs::answer(node, &q)),
        ApiKey::CreatePartitions => typed(header, frame, |q| create_partitions::answer(node, &q)),
        ApiKey::IncrementalAlterConfigs => {
            typed(header, frame, |q| incremental_alter_configs::answer(node, &q))
        }
        ApiKey::DescribeCluster => {
            typed(header, frame, |q| describe_cluster::answer(node, peer, version, &q))
        }
        key => Err(Hangup::NotServed { key: key as i16, version }),
    }
}

/// Decodes a request, checked first, and encodes its answer.
fn typed<Q: Request>(
    header: &Header,
    frame: &mut BytesMut,
    answer: impl FnOnce(Q) -> Q::Response,
) -> Result<Reply, Hangup> {
    let key = header.key;
    let version = schema_version(header);
    let mut reader = Reader::new(frame, false);
    reader.skip(header.len)?;
    wire::check(key, version, reader)?;
    let mut body = frame.split().freeze();
    body.advance(header.len);
    let request = Q::decode(&mut body, version).map_err(|source| Hangup::Decode { key, source })?;
    encode(header, version, &answer(request))
}

fn encode<R: Encodable>(header: &Header, version: i16, response: &R) -> Result<Reply, Hangup> {
    let mut reply = ReplyBuilder::new(header, version);
    response
        .encode(&mut reply.bytes, version)
        .map_err(|source| Hangup::Encode { key: header.key, source })?;
    Ok(reply.finish())
}

/// The version whose schema a request has. `ListOffsets` 11 brought a special time, no field.
fn schema_version(header: &Header) -> i16 {
    match header.key {
        ApiKey::ListOffsets => header.version.min(10),
        _ => header.version,
    }
}
