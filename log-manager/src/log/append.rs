//! Appends: as the leader, as a follower.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use alluvium_record_format::{Batch, Entries, Entry, LeaderEpoch, Offset, Position, Timestamp};
use alluvium_recovery as recovery;
use alluvium_recovery::{
    AppendRequest, BatchPlace, CompletedTxn, PreparedAppend, ProducerBatch, VerificationGuard,
};
use alluvium_segment::SegmentError;
use alluvium_sparse_index::AbortedTxn;

use super::epochs::check_epoch;
use super::{AppendError, Durability, Effects, Log, LogError, Shared, Writer};
use crate::append::analyze_given;
use crate::{AppendOrigin, LeaderAppend, LogConfig, Prepared, ValidationError};

/// Who appends to a leader, and as whom.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LeaderRequest {
    leader_epoch: LeaderEpoch,
    origin: AppendOrigin,
    transaction_version: Option<i16>,
    verification_guard: Option<VerificationGuard>,
}

impl LeaderRequest {
    /// A client's append to the leader of this epoch.
    pub const fn new(leader_epoch: LeaderEpoch) -> Self {
        Self {
            leader_epoch,
            origin: AppendOrigin::Client,
            transaction_version: None,
            verification_guard: None,
        }
    }

    /// The end of a transaction, from its coordinator, by this version of the protocol.
    pub const fn coordinator(mut self, transaction_version: i16) -> Self {
        self.origin = AppendOrigin::Coordinator;
        self.transaction_version = Some(transaction_version);
        self
    }

    /// The guard of a verified transaction.
    pub const fn verification_guard(mut self, guard: VerificationGuard) -> Self {
        self.verification_guard = Some(guard);
        self
    }
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The offset of the first record; `None` where nothing was appended.
    pub first_offset: Option<Offset>,
    /// The offset of the last record; `None` where nothing was appended.
    pub last_offset: Option<Offset>,
    /// The largest time of the records.
    pub max_timestamp: Option<Timestamp>,
    /// The time that the leader gave all records, on a topic with `LogAppendTime`; the time of
    /// the first append, where this is a repetition.
    pub log_append_time: Option<Timestamp>,
    /// Whether this repeats an earlier append: nothing was written.
    pub is_duplicate: bool,
    /// The offset below which everything was durable when the append returned.
    pub durable_offset: Offset,
}

impl Appended {
    /// No batch at all was in the bytes.
    fn nothing(shared: &Shared) -> Self {
        Self {
            first_offset: None,
            last_offset: None,
            max_timestamp: None,
            log_append_time: None,
            is_duplicate: false,
            durable_offset: shared.commits.durable(),
        }
    }
}

impl Log {
    /// Appends what a client or coordinator sends to the leader, and gives it offsets.
    ///
    /// `batches` is changed in place: see [`Prepared::check`]. All checks but those of producers
    /// come before the log's lock is taken. An append that repeats one of the last five of its
    /// producer is answered with the first one's offsets, and nothing is written.
    ///
    /// Readers see all of it or nothing. Where the write fails, no record has changed; as where
    /// Kafka refuses a producer, the epoch stays noted and a segment that was due begun. A batch
    /// that is cut off at the end of `batches` is left out without an error; where there is no
    /// other, `first_offset` is `None`.
    ///
    /// Source: `UnifiedLog.appendAsLeader` in Kafka.
    ///
    /// # Errors
    ///
    /// The first check that fails; [`AppendError::Log`] where the disk fails, and for an epoch
    /// below 0.
    pub fn append_as_leader(
        &self,
        batches: &mut [u8],
        request: LeaderRequest,
    ) -> Result<Appended, AppendError> {
        let shared = &*self.shared;
        shared.check_open()?;
        check_epoch(request.leader_epoch)?;
        let config = shared.config.load();
        let now = shared.clock.now();
        let append = LeaderAppend::new(request.leader_epoch, now).origin(request.origin);
        let Some(mut prepared) = Prepared::check(batches, &config, append)? else {
            return Ok(Appended::nothing(shared));
        };
        let (max_timestamp, log_append_time) = (prepared.max_timestamp(), prepared.append_time());
        let mut effects = Effects::default();
        let mut writer = shared.writer.lock();
        shared.check_open()?;
        let next_offset = shared.log_end();
        let last_offset = last_of(next_offset, prepared.offset_count().into())?;
        let batch = prepared.assign(next_offset)?;
        let incoming = Incoming {
            bytes: batch.bytes(),
            only: Some(batch),
            first_offset: next_offset,
            last_offset,
            max_timestamp,
            now,
            producers: request.producers(),
        };
        let written = writer.append(shared, &config, &incoming, &mut effects);
        drop(writer);
        self.after_append(
            written,
            effects,
            Appended {
                first_offset: Some(next_offset),
                last_offset: Some(last_offset),
                max_timestamp,
                log_append_time,
                ..Appended::nothing(shared)
            },
        )
    }

    /// Appends what a follower fetched from the leader of `leader_epoch`: offsets, times and
    /// checksums stay as they are. A gap to the log end is fine.
    ///
    /// Stops before the first batch of a later epoch. A batch that is cut off at the end of
    /// `batches`, as fetches end, is left out without an error. A batch without an epoch is taken:
    /// the one before goes on. Old formats are refused.
    ///
    /// Source: `UnifiedLog.appendAsFollower` in Kafka.
    ///
    /// # Errors
    ///
    /// The first check that fails; [`AppendError::Log`] where the disk fails.
    pub fn append_as_follower(
        &self,
        batches: &[u8],
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        self.append_given(batches, leader_epoch, AppendOrigin::Replication)
    }

    /// Appends what the leader of a Raft quorum has made for its metadata log: as it is, offsets
    /// and epoch included. `max.message.bytes` holds here, and not for a follower.
    ///
    /// Source: `UnifiedLog.appendAsLeader` with `AppendOrigin.RAFT_LEADER` in Kafka.
    ///
    /// # Errors
    ///
    /// As [`append_as_follower`](Self::append_as_follower); `InvalidBatch::LeaderEpoch` where a
    /// batch is not of `leader_epoch`, `BatchTooLarge`, [`AppendError::Log`] for an epoch below 0.
    pub fn append_as_raft_leader(
        &self,
        batches: &[u8],
        leader_epoch: LeaderEpoch,
    ) -> Result<Appended, AppendError> {
        check_epoch(leader_epoch)?;
        self.append_given(batches, leader_epoch, AppendOrigin::RaftLeader)
    }

    /// Appends batches that bring their offsets.
    fn append_given(
        &self,
        batches: &[u8],
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin,
    ) -> Result<Appended, AppendError> {
        let shared = &*self.shared;
        shared.check_open()?;
        let config = shared.config.load();
        let analysis = analyze_given(batches, leader_epoch, origin, config.max_message_bytes())?;
        let Some(first_offset) = analysis.first_offset else {
            return Ok(Appended::nothing(shared));
        };
        let max_timestamp =
            (analysis.max_timestamp != -1).then_some(Timestamp::new(analysis.max_timestamp));
        let incoming = Incoming {
            bytes: &batches[..analysis.valid_bytes],
            only: None,
            first_offset,
            last_offset: analysis.last_offset,
            max_timestamp,
            now: shared.clock.now(),
            producers: AppendRequest::new(origin),
        };
        let mut effects = Effects::default();
        let mut writer = shared.writer.lock();
        shared.check_open()?;
        let log_end_offset = shared.log_end();
        // A damaged batch may end before it begins.
        if first_offset.min(analysis.last_offset_of_first) < log_end_offset {
            let last_offset = analysis.last_offset;
            return Err(AppendError::BelowLogEnd { first_offset, last_offset, log_end_offset });
        }
        if analysis.last_offset == Offset::MAX {
            return Err(AppendError::OffsetsExhausted { first_offset });
        }
        let written = writer.append(shared, &config, &incoming, &mut effects);
        drop(writer);
        self.after_append(
            written,
            effects,
            Appended {
                first_offset: Some(first_offset),
                last_offset: Some(analysis.last_offset),
                max_timestamp,
                ..Appended::nothing(shared)
            },
        )
    }

    fn after_append(
        &self,
        written: Result<Written, AppendError>,
        effects: Effects,
        appended: Appended,
    ) -> Result<Appended, AppendError> {
        let shared = &self.shared;
        effects.run(shared);
        let (bytes, flush_due) = match written {
            Ok(Written::Duplicate(first)) => return self.answer_again(&first, appended),
            Ok(Written::Bytes { bytes, flush_due }) => (bytes, flush_due),
            Err(error) => {
                // The bytes may be there although something behind them failed.
                shared.notifier.notify();
                return Err(error);
            }
        };
        crate::metrics::appended(bytes);
        shared.notifier.notify();
        if flush_due {
            self.flush(false)?;
        }
        let durable_offset = match (shared.durability, appended.last_offset) {
            (Durability::GroupCommit, Some(last)) => shared.commit(offset_after(last, 1))?,
            _ => shared.commits.durable(),
        };
        Ok(Appended { durable_offset, ..appended })
    }

    /// Answers a repeated append with the first one's offsets.
    fn answer_again(
        &self,
        first: &recovery::BatchMetadata,
        appended: Appended,
    ) -> Result<Appended, AppendError> {
        let durable_offset = match self.shared.durability {
            Durability::GroupCommit => self.shared.commit(offset_after(first.last_offset, 1))?,
            Durability::PageCache => self.shared.commits.durable(),
        };
        Ok(Appended {
            first_offset: Some(first.first_offset()),
            last_offset: Some(first.last_offset),
            log_append_time: Some(first.timestamp),
            is_duplicate: true,
            durable_offset,
            ..appended
        })
    }
}

impl LeaderRequest {
    fn producers(&self) -> AppendRequest {
        let request = AppendRequest::new(self.origin).with_guard(self.verification_guard);
        match self.transaction_version {
            Some(version) => request.with_transaction_version(version),
            None => request,
        }
    }
}

/// Batches on their way into the log, with their offsets.
pub(super) struct Incoming<'a> {
    pub(super) bytes: &'a [u8],
    /// The batch, where it is known that these are the bytes of one.
    pub(super) only: Option<Batch<'a>>,
    pub(super) first_offset: Offset,
    pub(super) last_offset: Offset,
    pub(super) max_timestamp: Option<Timestamp>,
    pub(super) now: Timestamp,
    producers: AppendRequest,
}

/// How an append ended.
enum Written {
    Bytes { bytes: usize, flush_due: bool },
    Duplicate(recovery::BatchMetadata),
}

impl Writer {
    /// Source: `UnifiedLog.append` in Kafka, from the epochs on.
    fn append(
        &mut self,
        shared: &Shared,
        config: &LogConfig,
        incoming: &Incoming<'_>,
        effects: &mut Effects,
    ) -> Result<Written, AppendError> {
        self.note_epochs(shared, incoming, effects);
        let size_bytes = incoming.bytes.len() as u64;
        let max_bytes = config.roll_bytes();
        if size_bytes > u64::from(max_bytes) {
            return Err(AppendError::LargerThanSegment { size_bytes, max_bytes });
        }
        self.roll_for(shared, config, incoming, effects)?;
        let prepared = match self.check_producers(incoming)? {
            recovery::Prepared::Append(prepared) => prepared,
            recovery::Prepared::Duplicate(first) => return Ok(Written::Duplicate(first)),
            _ => PreparedAppend::default(),
        };
        self.write(shared, incoming)?;
        let next_offset = offset_after(incoming.last_offset, 1);
        let old_end = shared.log_end();
        shared.log_end.store(next_offset.get(), Ordering::Release);
        self.segments.publish_end();
        // The high watermark lies at the old end at most.
        if next_offset <= old_end {
            self.cap_high_watermark(shared);
        }
        self.finish_producers(shared, prepared, next_offset)?;
        let unflushed = next_offset.get() - shared.flushed.load(Ordering::Acquire);
        let flush_due = u64::try_from(unflushed).unwrap_or(0) >= config.flush_messages();
        Ok(Written::Bytes { bytes: incoming.bytes.len(), flush_due })
    }

    /// Checks sequences, epochs and transactions. Nothing changes.
    fn check_producers(
        &mut self,
        incoming: &Incoming<'_>,
    ) -> Result<recovery::Prepared, AppendError> {
        if incoming.only.is_some_and(|batch| batch.header().producer_id().is_none()) {
            return Ok(recovery::Prepared::Append(PreparedAppend::default()));
        }
        let active = self.active();
        let (segment_base, size) = (active.segment().base_offset(), active.segment().size_bytes());
        let mut damage = None;
        let batches = batches_of(incoming.bytes).filter_map(|batch| {
            let read = ProducerBatch::read(&batch).unwrap_or_else(|source| {
                damage.get_or_insert(source);
                None
            });
            let position = Position::new(size.saturating_add(batch.position().get()));
            read.map(|read| read.at(BatchPlace::new(segment_base, position)))
        });
        let prepared = self.producers.prepare(&incoming.producers, batches);
        if let Some(source) = damage {
            return Err(ValidationError::Unreadable { source }.into());
        }
        prepared.map_err(|source| AppendError::Producer { source })
    }

    /// Writes the bytes and their index entries; on failure nothing has changed.
    fn write(&mut self, shared: &Shared, incoming: &Incoming<'_>) -> Result<(), AppendError> {
        let Err(source) = self.active_mut().append(incoming.bytes) else { return Ok(()) };
        let is_disk = match &source {
            SegmentError::CutFailed { .. } | SegmentError::InDoubt { .. } => true,
            SegmentError::Io { source, .. } => source.kind() == ErrorKind::ReadOnlyFilesystem,
            _ => false,
        };
        let error = LogError::Segment { source };
        Err(if is_disk { shared.disk_failed(error) } else { error }.into())
    }

    /// Takes over what the batches mean for producers and transactions.
    fn finish_producers(
        &mut self,
        shared: &Shared,
        prepared: PreparedAppend,
        next_offset: Offset,
    ) -> Result<(), AppendError> {
        let mut failed = None;
        for completed in self.producers.apply(prepared) {
            // After a failure, later transactions stay open too: recovery completes them all.
            if failed.is_none() {
                failed = self.complete(&completed).err();
            }
            if failed.is_some() {
                self.unindexed.push(completed);
            }
        }
        self.producers.set_map_end_offset(next_offset);
        self.publish_first_unstable(shared);
        match failed {
            None => Ok(()),
            Some(error) => {
                shared.needs_recovery.store(true, Ordering::Release);
                Err(error.into())
            }
        }
    }

    fn complete(&mut self, completed: &CompletedTxn) -> Result<(), LogError> {
        if completed.is_aborted {
            let last_stable_offset = self.producers.last_stable_offset(completed);
            self.active().segment().append_aborted(AbortedTxn::new(
                completed.producer_id,
                completed.first_offset,
                completed.last_offset,
                last_stable_offset,
            ))?;
        }
        self.producers.complete(completed);
        Ok(())
    }
}

/// The batches of magic 2 in bytes that were checked.
pub(super) fn batches_of(bytes: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    Entries::new(bytes, Position::new(0)).filter_map(|entry| match entry {
        Ok(Entry::Batch(batch)) => Some(batch),
        _ => None,
    })
}

/// The last of `count` offsets from `first_offset` on, after which there must be another one.
fn last_of(first_offset: Offset, count: i64) -> Result<Offset, AppendError> {
    let next = first_offset.get().checked_add(count);
    let last = next.map(|next| Offset::new(next.saturating_sub(1)));
    last.ok_or(AppendError::OffsetsExhausted { first_offset })
}

/// The offset `count` after this one, or the largest.
pub(super) fn offset_after(offset: Offset, count: i64) -> Offset {
    Offset::new(offset.get().saturating_add(count))
}
