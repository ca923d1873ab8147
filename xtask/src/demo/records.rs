//! The records of the demo: each follows from its offset, so that every one can be checked.

use std::io::Write;

use alluvium_record_format::{
    BatchBuilder, BatchSettings, Codec, Offset, Record, SimpleRecord, Timestamp,
};
use anyhow::{Context, Result, ensure};

/// How many the demo writes.
pub(super) const RECORDS: i64 = 1_000_000;

/// Records in a batch.
pub(super) const PER_BATCH: i64 = 400;

/// Every codec, in turns.
pub(super) const CODECS: [Codec; 5] =
    [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// The time of the record at offset 0; the others follow, a millisecond apart.
pub(super) const DAY_ONE: i64 = 1_750_000_000_000;

/// Writes the key and the value of the record at `offset` into the buffers.
fn content(offset: i64, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<()> {
    key.clear();
    value.clear();
    let noise = offset.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64.cast_signed()).unsigned_abs();
    write!(key, "sensor-{:03}", noise % 500)?;
    let (level, flow) = (noise % 9_973, noise / 9_973 % 4_099);
    write!(value, "{{\"number\":{offset},\"river\":\"alluvial\",\"level_mm\":{level},")?;
    write!(value, "\"flow\":{flow},\"source\":\"gauge\",\"check\":\"{noise:016x}\"}}")?;
    Ok(())
}

/// Builds the batch that begins at `base` into `builder`, offsets from 0: the log assigns them.
pub(super) fn build(builder: &mut BatchBuilder, base: i64, codec: Codec) -> Result<Vec<u8>> {
    builder.reset(BatchSettings::new(Offset::new(0)).codec(codec));
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for offset in base..base + PER_BATCH {
        content(offset, &mut key, &mut value)?;
        let time = Timestamp::new(DAY_ONE + offset);
        let record = SimpleRecord::new().timestamp(time).key(&key).value(&value);
        builder.append(&record).context("cannot append to a batch")?;
    }
    Ok(builder.finish().context("cannot build a batch")?.to_vec())
}

/// Compares a record with what it must be.
pub(super) fn check(record: &Record<'_>, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<()> {
    let offset = record.offset().get();
    content(offset, key, value)?;
    ensure!(record.key() == Some(key.as_slice()), "the key at offset {offset} is another");
    ensure!(record.value() == Some(value.as_slice()), "the value at offset {offset} is another");
    let time = record.timestamp().map(Timestamp::get);
    ensure!(time == Some(DAY_ONE + offset), "the time at offset {offset} is another");
    Ok(())
}
