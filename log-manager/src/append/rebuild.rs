//! Builds the batch of an append anew: with another codec, or out of an old format.
//!
//! Source: `LogValidator.buildRecordsAndAssignOffsets` and
//! `LogValidator.convertAndAssignOffsetsNonCompressed` in Kafka.

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, BuildError, Codec, Entry, LegacyEntry, LegacyRecord,
    Offset, Position, SimpleRecord, Timestamp, TimestampType,
};

use super::analysis::next_entry;
use super::check::{Check, Checked};
use super::prepare::{LeaderAppend, check_batch};
use super::records::{for_each_message, for_each_record};
use super::{InvalidBatch, InvalidRecord, ValidationError};
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
        Some(Entry::Legacy(_)) => rebuild_legacy(sent, config, append, target),
        _ => Err(InvalidBatch::Empty.at(Position::default())),
    }
}

/// Takes the records into a new batch, at consecutive offsets.
fn rebuild_batch(
    batch: &Batch<'_>,
    config: &LogConfig,
    append: LeaderAppend,
    target: Codec,
) -> Result<(Vec<u8>, Checked), ValidationError> {
    let header = batch.header();
    check_batch(header, append.origin, batch.position())?;
    let attributes = header.attributes();
    let mut settings =
        settings(config, append, target).transactional(attributes.is_transactional());
    if let Some(producer_id) = header.producer_id() {
        settings = settings.producer(producer_id, header.producer_epoch(), header.base_sequence());
    }
    let mut builder = BatchBuilder::new(settings);
    let mut check = Check::new(config, attributes.timestamp_type(), append.now);
    let mut built = Ok(());
    for_each_record(batch, config.max_decompressed_message_bytes(), |record| {
        let timestamp = record.timestamp().map_or(-1, Timestamp::get);
        check.record(record.key().is_some(), timestamp, None);
        if built.is_ok() && check.is_sound() {
            built = builder.append_renumbered(record).map(drop);
        }
        Ok(())
    })?;
    let checked = check.finish(batch.position())?;
    finish(builder, built, target).map(|bytes| (bytes, checked))
}

/// Takes the messages of old formats into one batch, at consecutive offsets.
fn rebuild_legacy(
    sent: &[u8],
    config: &LogConfig,
    append: LeaderAppend,
    target: Codec,
) -> Result<(Vec<u8>, Checked), ValidationError> {
    let mut builder = BatchBuilder::new(settings(config, append, target));
    let mut check = Check::new(config, TimestampType::CreateTime, append.now);
    let mut built = Ok(());
    let mut first_magic = None;
    let mut end = 0;
    while let Some(entry) = next_entry(sent, end)? {
        end += entry.bytes().len();
        let position = entry.position();
        let Entry::Legacy(entry) = entry else {
            let first = first_magic.unwrap_or(2);
            return Err(InvalidBatch::MixedMagic { first, found: 2 }.at(position));
        };
        let (first, found) = (*first_magic.get_or_insert(entry.magic()), entry.magic());
        if first != found {
            return Err(InvalidBatch::MixedMagic { first, found }.at(position));
        }
        for_each_message(&entry, config.max_decompressed_message_bytes(), |message| {
            take_message(&entry, message, &mut check)?;
            if built.is_ok() && check.is_sound() {
                built = builder.append(&simple(message)).map(drop);
            }
            Ok(())
        })?;
    }
    let checked = check.finish(Position::default())?;
    finish(builder, built, target).map(|bytes| (bytes, checked))
}

/// Checks one message of an old format.
fn take_message(
    entry: &LegacyEntry<'_>,
    message: &LegacyRecord<'_>,
    check: &mut Check,
) -> Result<(), ValidationError> {
    if message.magic() != entry.magic() {
        let (batch, found) = (entry.magic(), message.magic());
        check.refuse_record(InvalidRecord::Magic { batch, found });
        return Ok(());
    }
    if !message.is_valid() {
        // The wrapper's checksum was right, so this is how the producer made it.
        return Err(InvalidBatch::InnerChecksum.at(entry.position()));
    }
    // Magic 0 has no times: nothing that a producer could have set.
    check.set_batch_type(entry.timestamp_type().unwrap_or(TimestampType::CreateTime));
    let timestamp = message.timestamp().map_or(-1, Timestamp::get);
    check.record(message.key().is_some(), timestamp, None);
    Ok(())
}

fn simple<'m>(message: &LegacyRecord<'m>) -> SimpleRecord<'m> {
    let record = SimpleRecord::new();
    let record = message.timestamp().map_or(record, |time| record.timestamp(time));
    let record = message.key().map_or(record, |key| record.key(key));
    message.value().map_or(record, |value| record.value(value))
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
