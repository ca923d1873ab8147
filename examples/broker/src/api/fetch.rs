//! Fetch: slices of logs, at once or once there is enough to send.

mod request;
mod response;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use alluvium_log_manager::{Changed, Fetched, Isolation, Log};
use alluvium_record_format::{LeaderEpoch, Offset};
use bytes::BytesMut;
use kafka_protocol::ResponseError;
use tokio::time::{Instant, sleep_until};

use self::request::{Asked, Request};
use super::codes::Refusal;
use super::epoch;
use crate::broker::Node;
use crate::net::{Hangup, Header, Peer, Reply};
use crate::store::Topic;

/// Reads what is there, and where that is less than the client wants to have at least, waits for
/// more until its time is over. A read of many partitions leaves the thread to other connections.
pub(super) async fn answer(
    node: &Node,
    peer: &Peer<'_>,
    header: &Header,
    frame: &mut BytesMut,
) -> Result<Reply, Hangup> {
    let request = Request::read(header, frame)?;
    // Sessions are declined: a client that believes to have one must begin anew.
    if request.session_id != 0 {
        return Ok(response::refused(header, ResponseError::FetchSessionIdNotFound.code()));
    }
    let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0)).min(MAX_WAIT);
    let deadline = Instant::now() + wait;
    let job = Job::new(node, header, &request);
    loop {
        let waits: Vec<_> = job.logs().map(|log| log.changed(log.version())).collect();
        let attempt = || {
            let read = job.read();
            let is_done = read.has_error
                || read.bytes >= job.min_bytes
                || waits.is_empty()
                || Instant::now() >= deadline;
            is_done.then(|| {
                // System calls for each partition: they belong where the reads are.
                job.note_readers(peer, &read.partitions);
                response::build(header, &request, &read.partitions)
            })
        };
        let reply = if request.is_wide() {
            node.in_turn(&node.answer_turns, attempt).await
        } else {
            node.usage.busy(attempt)
        };
        if let Some(reply) = reply {
            return Ok(reply);
        }
        tokio::select! {
            () = any_of(waits) => {}
            () = sleep_until(deadline) => {}
            hangup = peer.gone() => return Err(hangup),
        }
    }
}

/// Ready once one of the logs has changed.
async fn any_of(mut waits: Vec<Changed>) {
    poll_fn(|context| {
        let mut changed = waits.iter_mut().map(|wait| Pin::new(wait).poll(context));
        if changed.any(|poll| poll.is_ready()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// What was read of one partition.
struct PartitionRead {
    outcome: Result<Found, Refusal>,
}

/// Bounds of a log, and the bytes of it.
struct Found {
    high_watermark: Offset,
    last_stable_offset: Offset,
    log_start_offset: Offset,
    /// Where the log parts from that of a client which has read another one.
    diverging: Option<(i32, i64)>,
    fetched: Option<Fetched>,
}

struct Reads {
    /// In the order of the request, one for each partition of each topic.
    partitions: Vec<PartitionRead>,
    bytes: u64,
    has_error: bool,
}

struct Job<'a> {
    request: &'a Request,
    /// For each topic of the request.
    topics: Vec<Result<Arc<Topic>, ResponseError>>,
    isolation: Isolation,
    max_bytes: u32,
    min_bytes: u64,
}

impl<'a> Job<'a> {
    fn new(node: &Node, header: &Header, request: &'a Request) -> Self {
        let by_id = header.version >= 13;
        let find = |topic: &request::TopicAsked| {
            if by_id {
                node.topics.by_id(topic.id).ok_or(ResponseError::UnknownTopicId)
            } else {
                let found = node.topics.by_name(&topic.name);
                found.ok_or(ResponseError::UnknownTopicOrPartition)
            }
        };
        let isolation = match (request.replica_id, request.isolation_level) {
            (-1, 1) => Isolation::TxnCommitted,
            (-1, _) => Isolation::HighWatermark,
            _ => Isolation::LogEnd,
        };
        Self {
            request,
            topics: request.topics.iter().map(find).collect(),
            isolation,
            max_bytes: at_least_0(request.max_bytes).min(node.settings.max_fetch_bytes),
            min_bytes: u64::from(at_least_0(request.min_bytes)),
        }
    }

    /// The logs that are asked for.
    fn logs(&self) -> impl Iterator<Item = &Log> {
        let topics = self.request.topics.iter().zip(&self.topics);
        topics.filter_map(|(asked, topic)| Some((asked, topic.as_ref().ok()?))).flat_map(
            |(asked, topic)| asked.partitions.iter().filter_map(|asked| topic.log(asked.partition)),
        )
    }

    /// Notes what is about to be sent, so that what follows is asked for.
    fn note_readers(&self, peer: &Peer<'_>, reads: &[PartitionRead]) {
        let mut reads = reads.iter();
        for (asked, topic) in self.request.topics.iter().zip(&self.topics) {
            for (asked, read) in asked.partitions.iter().zip(&mut reads) {
                let (Ok(topic), Ok(found)) = (topic, &read.outcome) else { continue };
                let fetched = found.fetched.as_ref();
                if let Some(slice) = fetched.and_then(|fetched| fetched.slice.as_ref()) {
                    peer.readers.note(topic.id, asked.partition, slice);
                }
            }
        }
    }

    /// Reads all partitions in order, as long as the limit on bytes allows; the first batch of
    /// all is whole in any case. Source: `ReplicaManager.readFromLog` in Kafka.
    fn read(&self) -> Reads {
        let mut reads = Reads { partitions: Vec::new(), bytes: 0, has_error: false };
        for (asked, topic) in self.request.topics.iter().zip(&self.topics) {
            for partition in &asked.partitions {
                let left = u64::from(self.max_bytes).saturating_sub(reads.bytes);
                let limit = u32::try_from(left).unwrap_or(u32::MAX);
                let outcome = match topic {
                    Ok(topic) => self.read_one(topic, partition, limit, reads.bytes == 0),
                    Err(error) => Err(Refusal::from(*error)),
                };
                match &outcome {
                    Ok(found) => {
                        let fetched = found.fetched.as_ref();
                        reads.bytes += u64::from(fetched.map_or(0, Fetched::len));
                        reads.has_error |= found.diverging.is_some();
                    }
                    Err(_) => reads.has_error = true,
                }
                reads.partitions.push(PartitionRead { outcome });
            }
        }
        reads
    }

    fn read_one(
        &self,
        topic: &Topic,
        asked: &Asked,
        limit: u32,
        is_first: bool,
    ) -> Result<Found, Refusal> {
        let log = topic.log(asked.partition).ok_or(ResponseError::UnknownTopicOrPartition)?;
        epoch::check(log, asked.current_leader_epoch)?;
        let bounds = |diverging, fetched| Found {
            high_watermark: log.high_watermark(),
            last_stable_offset: log.last_stable_offset(),
            log_start_offset: log.log_start_offset(),
            diverging,
            fetched,
        };
        if let Some(diverging) = diverging(log, asked)? {
            return Ok(bounds(Some(diverging), None));
        }
        let max_bytes = at_least_0(asked.max_bytes).min(limit);
        let start = Offset::new(asked.fetch_offset);
        let fetched = log
            .read(start, max_bytes, self.isolation, is_first)
            .map_err(|error| Refusal::from(&error))?;
        Ok(bounds(None, Some(fetched)))
    }
}

/// Where the log parts from what the client has read before.
///
/// Source: `Partition.fetchRecords` in Kafka.
fn diverging(log: &Log, asked: &Asked) -> Result<Option<(i32, i64)>, Refusal> {
    if asked.last_fetched_epoch < 0 {
        return Ok(None);
    }
    let last = LeaderEpoch::new(asked.last_fetched_epoch);
    let (epoch, end) = log
        .end_offset_for_epoch(last)
        .ok_or_else(|| Refusal::from(ResponseError::OffsetOutOfRange))?;
    let parts = epoch < last || end.get() < asked.fetch_offset;
    Ok(parts.then(|| (epoch.get(), end.get())))
}

fn at_least_0(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// No answer is put off for longer, whatever the client says.
const MAX_WAIT: Duration = Duration::from_mins(5);
