//! Kinds of batches that a log must be able to hold.

use alluvium_record_format::{Codec, TxnOutcome};

use super::plan::{Content, Planned, PlannedRecord, Producer};

/// Some day in 2025.
pub(super) const DAY_ONE: i64 = 1_750_000_000_000;

/// Every kind, by name.
pub(super) fn all() -> Vec<(String, Vec<Planned>)> {
    let mut scenarios = Vec::new();
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let batches = chain(40, |batch| batch.codec = codec);
        scenarios.push((format!("codec-{}", codec.name()), batches));
        let now = DAY_ONE + 77_000;
        let stamped = chain(30, |batch| {
            batch.codec = codec;
            batch.append_time = Some(now + batch.base_offset);
        });
        scenarios.push((format!("append-time-{}", codec.name()), stamped));
    }
    scenarios.push(("idempotent".to_owned(), idempotent()));
    scenarios.push(("transactions".to_owned(), transactions()));
    let horizon = chain(20, |batch| batch.delete_horizon = Some(DAY_ONE + 500_000));
    scenarios.push(("delete-horizon".to_owned(), horizon));
    scenarios
}

/// So many batches, offsets without a gap, each changed by `adjust`.
pub(super) fn chain(count: usize, mut adjust: impl FnMut(&mut Planned)) -> Vec<Planned> {
    let mut batches: Vec<Planned> = Vec::new();
    for index in 0..count {
        let base = batches.last().map_or(0, Planned::next_offset);
        let mut batch = Planned::new(base, records(base, 1 + index * 7 % 11));
        adjust(&mut batch);
        batches.push(batch);
    }
    batches
}

/// Every shape of key, value and headers.
pub(super) fn records(base: i64, count: usize) -> Vec<PlannedRecord> {
    let record = |offset: i64| PlannedRecord {
        timestamp: DAY_ONE + offset * 40 - if offset % 9 == 8 { 3_000 } else { 0 },
        key: match offset % 5 {
            0 => None,
            1 => Some(String::new()),
            _ => Some(format!("key-{}", offset % 13)),
        },
        value: match offset % 7 {
            0 => None,
            1 => Some(String::new()),
            _ => Some(format!(
                "größe {offset} {}",
                "loam ".repeat(usize::try_from(offset % 40).unwrap_or(0))
            )),
        },
        headers: match offset % 4 {
            0 => vec![("trace", Some("1f")), ("empty", Some("")), ("null", None)],
            1 => vec![("twice", Some("1")), ("twice", Some("2"))],
            _ => Vec::new(),
        },
    };
    (base..).take(count).map(record).collect()
}

/// One producer whose sequence passes the largest number.
fn idempotent() -> Vec<Planned> {
    let mut sequence = i64::from(i32::MAX) - 60;
    chain(30, |batch| {
        let wrapped = i32::try_from(sequence % (i64::from(i32::MAX) + 1)).unwrap_or(0);
        batch.producer = Some(Producer { id: 4_000, epoch: 2, sequence: wrapped });
        sequence += batch.next_offset() - batch.base_offset;
    })
}

/// Two producers that interleave, markers of both kinds, the last transaction left open.
fn transactions() -> Vec<Planned> {
    let mut batches: Vec<Planned> = Vec::new();
    let mut sequences = [0, 0];
    for round in 0..24_i32 {
        let side = usize::from(round % 2 == 1);
        let base = batches.last().map_or(0, Planned::next_offset);
        let mut data = Planned::new(base, records(base, 3));
        let id = 500 + i64::try_from(side).unwrap_or(0);
        data.producer = Some(Producer { id, epoch: 1, sequence: sequences[side] });
        data.transactional = true;
        sequences[side] += 3;
        let base = data.next_offset();
        batches.push(data);
        if round % 4 < 2 || round == 23 {
            continue;
        }
        let outcome = if round % 3 == 0 { TxnOutcome::Abort } else { TxnOutcome::Commit };
        let mut marker = Planned::new(base, Vec::new());
        marker.producer = Some(Producer { id, epoch: 1, sequence: -1 });
        marker.transactional = true;
        let timestamp = DAY_ONE + base * 40;
        marker.content = Content::Marker { outcome, coordinator_epoch: round, timestamp };
        batches.push(marker);
    }
    batches
}
