//! Builds the batch of an append anew: with another codec, or out of an old format.
//!
//! Source: `LogValidator.buildRecordsAndAssignOffsets` and
//! `LogValidator.convertAndAssignOffsetsNonCompressed` in Kafka.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, BuildError, Codec, Entry, Offset, Position, Timestamp,
    TimestampType,
};

use super::analysis::next_entry;
use super::check::{Check, Checked};
use super::prepare::{LeaderAppend, check_batch};
use super::records::for_each_record;
use super::{InvalidBatch, ValidationError};
use crate::LogConfig;

/// One batch of magic 2 in codec `target` with the records of `sent`, checked on the way.
pub(super) fn rebuild(
    sent: &[u8],
    config: &LogConfig,
    append: LeaderAppend,
    target: Codec,
) -> Result<(Vec<u8>, Checked), ValidationError> {
    match next_entry(sent, 0)? {
        Some(Entry::Batch(batch)) => rebuild_batch(&batch, config, append, target),
        _ => Err(InvalidBatch::Empty.at(Position::default())),
    }
}

fn rebuild_batch(
    batch: &Batch<'_>,
    config: &LogConfig,
    append: LeaderAppend,
    target: Codec,
) -> Result<(Vec<u8>, Checked), ValidationError> {
    let header = batch.header();
    check_batch(header, append.origin, batch.position())?;
    let attributes = header.attributes();
    let mut settings = settings(config, append, target)
        .base_offset(header.base_offset())
        .transactional(attributes.is_transactional());
    if let Some(producer_id) = header.producer_id() {
        settings = settings.producer(producer_id, header.producer_epoch(), header.base_sequence());
    }
    let mut builder = BatchBuilder::new(settings);
    let mut check = Check::new(config, attributes.timestamp_type(), append.now);
    let mut built = Ok(());
    for_each_record(batch, config.max_decompressed_message_bytes(), |record| {
        let offset = record.offset().get().wrapping_sub(header.base_offset().get());
        let timestamp = record.timestamp().map_or(-1, Timestamp::get);
        check.record(record.key().is_some(), timestamp, Some(offset));
        if built.is_ok() && check.is_sound() {
            built = builder.append_record(record);
        }
        Ok(())
    })?;
    let checked = check.finish(batch.position())?;
    finish(builder, built, target).map(|bytes| (bytes, checked))
}

/// The settings that every new batch has.
fn settings(config: &LogConfig, append: LeaderAppend, target: Codec) -> BatchSettings {
    let settings = BatchSettings::new(Offset::new(0))
        .leader_epoch(append.leader_epoch)
        .codec(target)
        .level(config.compression_level(target));
    match config.message_timestamp_type() {
        TimestampType::LogAppendTime => settings.log_append_time(append.now),
        _ => settings,
    }
}

fn finish(
    mut builder: BatchBuilder,
    built: Result<(), BuildError>,
    codec: Codec,
) -> Result<Vec<u8>, ValidationError> {
    let bytes = built.and_then(|()| builder.finish().map(<[u8]>::to_vec));
    bytes.map_err(|source| ValidationError::Compress { codec, source })
}
