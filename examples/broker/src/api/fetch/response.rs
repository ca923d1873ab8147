//! Builds the answer: fields by hand, records as slices between them.

use kafka_protocol::ResponseError;

use super::request::{Asked, Request};
use super::{Found, PartitionRead};
use crate::api::codes::{self, Refusal};
use crate::net::{Header, Reply, ReplyBuilder};
use crate::wire::Writer;

/// An answer with an error and no topic.
pub(super) fn refused(header: &Header, code: i16) -> Reply {
    let mut reply = ReplyBuilder::new(header, header.version);
    head(&mut reply, header.version, code);
    let mut writer = Writer::new(&mut reply.bytes, header.version >= 12);
    writer.count(Some(0));
    writer.no_tagged_fields();
    reply.finish()
}

/// The answer to a request, with what was read for each of its partitions in order.
pub(super) fn build(header: &Header, request: &Request, reads: &[PartitionRead]) -> Reply {
    let version = header.version;
    let is_flexible = version >= 12;
    let mut reply = ReplyBuilder::new(header, version);
    head(&mut reply, version, codes::NONE);
    Writer::new(&mut reply.bytes, is_flexible).count(Some(request.topics.len()));
    let mut reads = reads.iter();
    for topic in &request.topics {
        let mut writer = Writer::new(&mut reply.bytes, is_flexible);
        if version >= 13 {
            writer.uuid(topic.id);
        } else {
            writer.string(&topic.name);
        }
        writer.count(Some(topic.partitions.len()));
        for (asked, read) in topic.partitions.iter().zip(&mut reads) {
            partition(&mut reply, version, asked, read);
        }
        Writer::new(&mut reply.bytes, is_flexible).no_tagged_fields();
    }
    Writer::new(&mut reply.bytes, is_flexible).no_tagged_fields();
    reply.finish()
}

fn head(reply: &mut ReplyBuilder, version: i16, code: i16) {
    let mut writer = Writer::new(&mut reply.bytes, version >= 12);
    writer.i32(0); // throttled for so many milliseconds
    if version >= 7 {
        writer.i16(code);
        writer.i32(0); // no session
    }
}

fn partition(reply: &mut ReplyBuilder, version: i16, asked: &Asked, read: &PartitionRead) {
    let mut writer = Writer::new(&mut reply.bytes, version >= 12);
    writer.i32(asked.partition);
    let found = match &read.outcome {
        Ok(found) => {
            writer.i16(codes::NONE);
            Some(found)
        }
        Err(refusal) => {
            writer.i16(code_for(version, refusal));
            None
        }
    };
    let offset_of = |offset: fn(&Found) -> i64| found.map_or(-1, offset);
    writer.i64(offset_of(|found| found.high_watermark.get()));
    writer.i64(offset_of(|found| found.last_stable_offset.get()));
    if version >= 5 {
        writer.i64(offset_of(|found| found.log_start_offset.get()));
    }
    let fetched = found.and_then(|found| found.fetched.as_ref());
    aborted(&mut writer, version, fetched.and_then(|fetched| fetched.aborted.as_deref()));
    if version >= 11 {
        writer.i32(-1); // no other replica is preferred
    }
    let slice = fetched.and_then(|fetched| fetched.slice.clone()).filter(|slice| !slice.is_empty());
    let len = slice.as_ref().map_or(0, |slice| usize::try_from(slice.len()).unwrap_or(usize::MAX));
    writer.count(Some(len));
    if let Some(slice) = slice {
        reply.slice(slice);
    }
    let diverging = found.and_then(|found| found.diverging);
    Writer::new(&mut reply.bytes, version >= 12).diverging_epoch(diverging);
}

fn aborted(
    writer: &mut Writer<'_>,
    version: i16,
    aborted: Option<&[alluvium_log_manager::AbortedTransaction]>,
) {
    writer.count(aborted.map(<[_]>::len));
    for transaction in aborted.unwrap_or_default() {
        writer.i64(transaction.producer_id.get());
        writer.i64(transaction.first_offset.get());
        if version >= 12 {
            writer.no_tagged_fields();
        }
    }
}

/// Older clients know fewer errors. Source: `FetchResponse` and its versions in Kafka.
fn code_for(version: i16, refusal: &Refusal) -> i16 {
    if version < 6 && refusal.code == ResponseError::KafkaStorageError.code() {
        return ResponseError::NotLeaderOrFollower.code();
    }
    refusal.code
}
