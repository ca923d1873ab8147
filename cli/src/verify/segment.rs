//! Checks one segment: its log in one pass, and its indexes in step with it.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{
    Batch, BatchHeader, ControlRecord, Corruption, Entry, LeaderEpoch, LegacyEntry, Offset,
    OffsetRange, TxnOutcome,
};
use alluvium_recovery::EpochEntry;

use super::finding::{Findings, Kind};
use super::offset_index::OffsetIndexCheck;
use super::time_index::TimeIndexCheck;
use super::txn_index::TxnIndexCheck;
use crate::error::CliError;
use crate::inflate::{Checked, Inflater};
use crate::log_file::{LogFile, MAX_LOG_BYTES};
use crate::progress::Progress;
use crate::resync::{CRC_START, Rest, crc_of};
use crate::walk::{Head, Step, Walk};

/// A segment to check. Index files that are not there are `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct SegmentJob {
    /// The number of its name.
    pub(super) base: Offset,
    pub(super) log: PathBuf,
    pub(super) index: Option<PathBuf>,
    pub(super) time_index: Option<PathBuf>,
    pub(super) txn_index: Option<PathBuf>,
    /// Base offset of the segment after it.
    pub(super) next_base: Option<Offset>,
    /// Whether more may be appended: the last segment of its partition.
    pub(super) is_active: bool,
    /// What `leader-epoch-checkpoint` says; empty where there is none.
    pub(super) epochs: Arc<[EpochEntry]>,
}

/// What a segment turned out to hold.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentFacts {
    /// The offset after the last batch; the base offset of an empty segment.
    pub(super) end: Offset,
    /// Bytes of the log.
    pub(super) bytes: u64,
    pub(super) batches: u64,
    pub(super) records: u64,
}

/// Batches larger than this are held in memory only after their checksum has proved right, so
/// that a wrong length takes no memory.
const BIG_BATCH_BYTES: u64 = 64 * 1024 * 1024;

/// Byte of the record count in a batch.
const COUNT_AT: u64 = 57;

/// Byte of the leader epoch in a batch.
const EPOCH_AT: u64 = 12;

/// Checks one segment.
pub(super) fn check(
    job: &SegmentJob,
    progress: &Progress,
    findings: &mut Findings,
) -> Result<SegmentFacts, CliError> {
    let log = LogFile::open(&job.log)?;
    if log.len() > MAX_LOG_BYTES {
        findings.add(Kind::SegmentSize, &job.log, None, format_args!("{} bytes", log.len()));
    }
    let open = |path: &Option<PathBuf>| path.as_deref().map(LogFile::open).transpose();
    let (index, time_index) = (open(&job.index)?, open(&job.time_index)?);
    let txn_index = open(&job.txn_index)?;
    let mut check = SegmentCheck {
        job,
        log: &log,
        facts: SegmentFacts { end: job.base, bytes: log.len(), ..SegmentFacts::default() },
        previous: None,
        epoch: None,
        inflater: Inflater::default(),
        index: index.as_ref().map(|file| OffsetIndexCheck::new(file, job.base)).transpose()?,
        time_index: time_index.as_ref().map(|f| TimeIndexCheck::new(f, job.base)).transpose()?,
        txn_index: TxnIndexCheck::new(txn_index.as_ref(), &job.log, job.base)?,
        findings,
    };
    check.walk(progress)?;
    if let Some(index) = check.index {
        index.finish(job.is_active, check.findings)?;
    }
    if let Some(time_index) = check.time_index {
        time_index.finish(job.is_active, check.findings)?;
    }
    check.txn_index.finish(check.findings)?;
    for file in [&index, &time_index, &txn_index].into_iter().flatten() {
        progress.add(file.len());
    }
    Ok(check.facts)
}

/// A segment under check.
struct SegmentCheck<'a, 'f> {
    job: &'a SegmentJob,
    log: &'f LogFile,
    facts: SegmentFacts,
    /// Last offset of the batch before.
    previous: Option<Offset>,
    /// The largest leader epoch so far.
    epoch: Option<LeaderEpoch>,
    inflater: Inflater,
    index: Option<OffsetIndexCheck<'f>>,
    time_index: Option<TimeIndexCheck<'f>>,
    txn_index: TxnIndexCheck<'f>,
    findings: &'a mut Findings,
}

/// What is known of a batch once its content was looked at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Content {
    /// The checksum is right, so that the header can be believed.
    pub(super) is_sound: bool,
    /// For a marker, how its transaction ended.
    pub(super) outcome: Option<TxnOutcome>,
}

impl SegmentCheck<'_, '_> {
    fn walk(&mut self, progress: &Progress) -> Result<(), CliError> {
        let mut walk = Walk::new(self.log, 0);
        let mut counted = 0;
        loop {
            match walk.step()? {
                Step::Entry(head) => self.entry(&head, &mut walk)?,
                Step::Damage { at, corruption, rest } => self.damage(at, corruption, rest),
                Step::Tail { at, left, is_zero } => {
                    let kind = if is_zero { Kind::ZeroTail } else { Kind::TornTail };
                    self.add(kind, at, format_args!("the last {left} bytes are no whole batch"));
                }
                Step::End => return Ok(()),
            }
            progress.add(walk.position() - counted);
            counted = walk.position();
        }
    }

    fn damage(&mut self, at: u64, corruption: Corruption, rest: Rest) {
        let (kind, left) = (corruption.kind(), self.log.len() - at);
        let byte = u64::from(corruption.position().get());
        match rest {
            Rest::Batch(next) => {
                let lost = next - at;
                self.add(Kind::BatchBroken, byte, format_args!("{kind}; {lost} bytes are lost"));
            }
            Rest::Zeros => {
                self.add(Kind::ZeroTail, at, format_args!("{left} zero bytes up to the end"));
            }
            Rest::Noise => {
                let detail = format_args!("{kind}; no batch follows in {left} bytes");
                self.add(Kind::BatchBroken, byte, detail);
            }
        }
        if let Some(time_index) = &mut self.time_index {
            time_index.doubt();
        }
        self.txn_index.doubt();
    }

    fn entry(&mut self, head: &Head, walk: &mut Walk<'_>) -> Result<(), CliError> {
        self.facts.batches += 1;
        self.offsets(head);
        let mut content = Content::default();
        if head.size > BIG_BATCH_BYTES && !self.big_batch_is_sound(head)? {
            self.add(Kind::BatchCrc, head.position, Offsets(head));
        } else {
            match walk.entry(head)? {
                Ok(Entry::Batch(batch)) => content = self.batch(head, &batch),
                Ok(Entry::Legacy(entry)) => content = self.legacy(head, &entry),
                Ok(_) => {}
                Err(corruption) => self.add(Kind::BatchBroken, head.position, corruption.kind()),
            }
        }
        if let Some(index) = &mut self.index {
            index.batch(head, content, self.findings)?;
        }
        if let Some(time_index) = &mut self.time_index {
            time_index.batch(head, content, self.findings)?;
        }
        self.txn_index.batch(head, content, self.findings)
    }

    /// The checksum of a batch that is too large to be held on trust.
    fn big_batch_is_sound(&self, head: &Head) -> Result<bool, CliError> {
        let Some(header) = &head.header else { return Ok(true) };
        let (start, end) = (head.position + CRC_START, head.position + head.size);
        Ok(crc_of(self.log, start, end)? == header.crc())
    }

    /// Offsets against the batch before, the segment and its neighbour; the leader epoch.
    fn offsets(&mut self, head: &Head) {
        let (base, last, segment) = (head.base_offset, head.last_offset, self.job.base);
        let previous = self.previous.replace(last);
        let detail = if last < base {
            Some(format!("last offset {last} is below base offset {base}"))
        } else if base < segment {
            Some(format!("offset {base} is below the segment's base offset {segment}"))
        } else if let Some(previous) = previous.filter(|previous| base <= *previous) {
            Some(format!("offset {base} is not above {previous}, where the batch before ends"))
        } else if let Some(next) = self.job.next_base.filter(|next| last >= *next) {
            Some(format!("offset {last} belongs into the next segment, which begins at {next}"))
        } else if last.relative_to(segment).is_none() {
            Some(format!("offset {last} is 2^31 or more above the segment's base {segment}"))
        } else {
            None
        };
        if let Some(detail) = detail {
            self.add(Kind::BatchOrder, head.position, detail);
        }
        self.facts.end = self.facts.end.max(last.checked_add(1).unwrap_or(last));
        if let Some(header) = &head.header {
            self.leader_epoch(head, header);
        }
    }

    fn leader_epoch(&mut self, head: &Head, header: &BatchHeader) {
        let Some(epoch) = header.leader_epoch() else {
            if header.leader_epoch_raw() != -1 {
                let detail = format_args!("leader epoch {}", header.leader_epoch_raw());
                self.add(Kind::BatchEpoch, head.position + EPOCH_AT, detail);
            }
            return;
        };
        let offset = head.base_offset;
        let detail = match (epoch_of(&self.job.epochs, offset), self.epoch) {
            (Some(stated), _) if stated != epoch => {
                format!("leader epoch {epoch}, but the checkpoint says {stated} at offset {offset}")
            }
            (_, Some(before)) if epoch < before => {
                format!("leader epoch {epoch} after epoch {before}")
            }
            _ => {
                self.epoch = Some(epoch);
                return;
            }
        };
        self.add(Kind::BatchEpoch, head.position + EPOCH_AT, detail);
    }

    /// Checksum and records of a batch.
    fn batch(&mut self, head: &Head, batch: &Batch<'_>) -> Content {
        if let Err(corruption) = batch.verify_crc() {
            let detail = format_args!("{}; {}", corruption.kind(), Offsets(head));
            self.add(Kind::BatchCrc, head.position, detail);
            return Content::default();
        }
        let header = batch.header();
        self.facts.records += u64::try_from(header.record_count()).unwrap_or(0);
        let bytes = batch.payload().len();
        if header.record_count() == 0 && bytes > 0 {
            let detail = format_args!("{bytes} bytes behind a count of 0; {}", Offsets(head));
            self.add(Kind::BatchCount, head.position + COUNT_AT, detail);
        }
        match self.inflater.check(batch) {
            Ok(Checked::Offsets(Some(range))) => self.record_offsets(head, header, range),
            Ok(Checked::Offsets(None)) => {}
            Ok(Checked::TooLarge) => self.stream(head, batch),
            Err(corruption) => self.payload(head, corruption),
        }
        let is_marker = header.attributes().is_control();
        let outcome = if is_marker { self.control_records(batch) } else { None };
        Content { is_sound: true, outcome }
    }

    /// The records of a batch that inflates to more than is held at once.
    fn stream(&mut self, head: &Head, batch: &Batch<'_>) {
        if let Err(corruption) = self.inflater.check_parts(batch) {
            self.payload(head, corruption);
        }
    }

    fn record_offsets(&mut self, head: &Head, header: &BatchHeader, range: OffsetRange) {
        let OffsetRange { min, max, offsets_rise, .. } = range;
        if min >= header.base_offset() && max <= header.last_offset() && offsets_rise {
            return;
        }
        let order = if offsets_rise { "rise" } else { "do not rise" };
        let detail = format_args!("offsets {min} to {max} {order} in a batch of {}", Offsets(head));
        self.add(Kind::RecordOffsets, head.position, detail);
    }

    fn payload(&mut self, head: &Head, corruption: Corruption) {
        let byte = u64::from(corruption.position().get());
        let detail = format_args!("{}; {}", corruption.kind(), Offsets(head));
        self.add(Kind::BatchPayload, byte, detail);
    }

    /// Reads control records; says how the transaction ended, if one did.
    fn control_records(&mut self, batch: &Batch<'_>) -> Option<TxnOutcome> {
        let at = u64::from(batch.position().get());
        let mut outcome = None;
        // What cannot be read was named when the records were checked.
        let mut records = self.inflater.records(batch).ok()?;
        while let Some(Ok(record)) = records.next_record() {
            match ControlRecord::parse(record.key(), record.value()) {
                Ok(ControlRecord::EndTxn(marker)) => outcome = Some(marker.outcome),
                Ok(_) => {}
                Err(kind) => {
                    let detail = format_args!("{kind} at offset {}", record.offset());
                    self.findings.add(Kind::ControlRecord, &self.job.log, at, detail);
                }
            }
        }
        outcome
    }

    /// Checksum and messages of an entry of magic 0 or 1.
    fn legacy(&mut self, head: &Head, entry: &LegacyEntry<'_>) -> Content {
        if let Err(corruption) = entry.verify_crc() {
            let detail = format_args!("{}; offset {}", corruption.kind(), entry.offset());
            self.add(Kind::BatchCrc, head.position, detail);
            return Content::default();
        }
        let mut count = 0;
        let failed = match self.inflater.legacy_records(entry) {
            Ok(mut records) => records.find_map(|record| {
                count += 1;
                record.err()
            }),
            Err(corruption) => Some(corruption),
        };
        self.facts.records += count;
        if let Some(corruption) = failed {
            self.payload(head, corruption);
        }
        Content { is_sound: true, outcome: None }
    }

    fn add(&mut self, kind: Kind, byte: u64, detail: impl fmt::Display) {
        self.findings.add(kind, &self.job.log, byte, detail);
    }
}

/// The offsets of a batch.
struct Offsets<'h>(&'h Head);

impl fmt::Display for Offsets<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offsets {} to {}", self.0.base_offset, self.0.last_offset)
    }
}

/// The epoch that the checkpoint gives for an offset.
fn epoch_of(epochs: &[EpochEntry], offset: Offset) -> Option<LeaderEpoch> {
    let after = epochs.partition_point(|entry| entry.start_offset <= offset);
    epochs.get(after.checked_sub(1)?).map(|entry| entry.epoch)
}
