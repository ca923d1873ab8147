//! The one who appends, moves the high watermark behind, and now and then cuts off what is above.

use alluvium_log_manager::LeaderRequest;
use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, LeaderEpoch, Offset, Position, SimpleRecord, Timestamp,
};
use anyhow::{Context, Result, ensure};

use super::ledger::Committed;
use super::{Counts, Done, Loaded, count};

pub(super) fn run(loaded: &Loaded, counts: &Counts, done: &Done) -> Result<()> {
    let Loaded { log, ledger } = loaded;
    let mut random = Random(u64::try_from(log.name().len())? + 1);
    let mut waiting: Vec<Committed> = Vec::new();
    let mut number = 0_u64;
    while !done.is_over() {
        for _ in 0..=random.below(4) {
            number += 1;
            waiting.push(append(loaded, number, 1 + random.below(16), counts)?);
        }
        if random.below(40) == 0 {
            // At the high watermark or above, where a batch begins or the log ends.
            let keep = random.below(waiting.len() + 1);
            let cut = waiting.get(keep).map_or(log.log_end_offset(), |batch| batch.base);
            ensure!(cut >= log.high_watermark(), "{cut} is below the watermark");
            log.truncate_to(cut)?;
            count(&counts.truncations, 1);
            count(&counts.batches_cut, waiting.len() - keep);
            waiting.truncate(keep);
        }
        ledger.commit(&waiting);
        waiting.clear();
        log.increment_high_watermark(log.log_end_offset())?;
    }
    Ok(())
}

/// Appends records that no other append has.
fn append(loaded: &Loaded, number: u64, records: usize, counts: &Counts) -> Result<Committed> {
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let value = [number.to_be_bytes(); 12].concat();
    let time = Timestamp::new(1_760_000_000_000 + i64::try_from(number)?);
    for _ in 0..records {
        builder.append(&SimpleRecord::new().value(&value).timestamp(time))?;
    }
    let mut bytes = builder.finish()?.to_vec();
    let appended = loaded
        .log
        .append_as_leader(&mut bytes, LeaderRequest::new(LeaderEpoch::new(0)))
        .context("an append")?;
    count(&counts.appends, 1);
    count(&counts.records_appended, records);
    let header = *Batch::parse(&bytes, Position::new(0))?.header();
    ensure!(appended.last_offset == Some(header.last_offset()), "{appended:?}");
    Ok(Committed { base: header.base_offset(), last: header.last_offset(), crc: header.crc() })
}

/// Good enough to vary what is done (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(bound).unwrap_or(1)).unwrap_or(0)
    }
}
