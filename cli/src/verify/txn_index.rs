//! Checks a transaction index in step with the walk over its log.

use std::collections::HashMap;
use std::path::Path;

use alluvium_record_format::{Corruption, Offset, ProducerId, TxnOutcome};
use alluvium_sparse_index::{AbortedTxn, TransactionIndex};

use super::entries::{Entries, Slot};
use super::finding::{Findings, Kind};
use super::segment::Content;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::walk::Head;

/// A transaction index under check, or the lack of one.
#[derive(Debug)]
pub(super) struct TxnIndexCheck<'f> {
    entries: Option<Entries<'f>>,
    log: &'f Path,
    base: Offset,
    /// The entry whose marker has not been reached.
    next: Option<Slot<Result<AbortedTxn, Corruption>>>,
    /// Last offset of the entry before it.
    before: Option<Offset>,
    /// Transactions with records in this segment that no marker has ended, and where they began.
    open: HashMap<ProducerId, Offset>,
    /// Batches were damaged or lost, so that markers may be missing.
    in_doubt: bool,
}

impl<'f> TxnIndexCheck<'f> {
    /// Begins to check the index of the segment at `base`, if it has one.
    pub(super) fn new(
        file: Option<&'f LogFile>,
        log: &'f Path,
        base: Offset,
    ) -> Result<Self, CliError> {
        let mut check = Self {
            entries: file.map(|file| Entries::new(file, TransactionIndex::ENTRY_LEN)),
            log,
            base,
            next: None,
            before: None,
            open: HashMap::new(),
            in_doubt: false,
        };
        check.read()?;
        Ok(check)
    }

    /// From here on records of transactions may be missing.
    pub(super) fn doubt(&mut self) {
        self.in_doubt = true;
    }

    /// Follows the transaction of a batch, and compares the entries up to its last offset.
    pub(super) fn batch(
        &mut self,
        head: &Head,
        content: Content,
        findings: &mut Findings,
    ) -> Result<(), CliError> {
        self.in_doubt |= !content.is_sound;
        let producer = head.header.as_ref().and_then(|header| {
            header.producer_id().filter(|_| header.attributes().is_transactional())
        });
        let mut began = None;
        if let (Some(producer), Some(header)) = (producer, &head.header) {
            if content.outcome.is_some() {
                began = self.open.remove(&producer);
            } else if !header.attributes().is_control() && header.record_count() > 0 {
                self.open.entry(producer).or_insert(head.base_offset);
            }
        }
        let aborted = producer.filter(|_| content.outcome == Some(TxnOutcome::Abort));
        let mut is_listed = false;
        while let Some(slot) = self.next {
            let Ok(txn) = slot.entry else {
                self.damage(slot, findings);
                self.read()?;
                continue;
            };
            if txn.last_offset > head.last_offset {
                break;
            }
            is_listed |= aborted == Some(txn.producer_id) && txn.last_offset == head.last_offset;
            self.compare(slot.at, txn, (head, aborted, began), findings);
            self.read()?;
        }
        if let (Some(producer), Some(began)) = (aborted, began)
            && !is_listed
            && !self.in_doubt
        {
            let detail = format_args!(
                "the transaction of producer {producer} from offset {began} on was aborted at {}, \
                 but is not in the transaction index",
                head.last_offset
            );
            findings.add(Kind::TxnIndexEntry, self.log, head.position, detail);
        }
        Ok(())
    }

    /// Says what is left when the log has ended.
    pub(super) fn finish(mut self, findings: &mut Findings) -> Result<(), CliError> {
        while let Some(slot) = self.next {
            match slot.entry {
                Ok(txn) => {
                    let detail = format!("names offset {}, behind the last batch", txn.last_offset);
                    self.add(slot.at, &detail, findings);
                }
                Err(_) => self.damage(slot, findings),
            }
            self.read()?;
        }
        if let Some(entries) = &self.entries {
            entries.finish(findings);
        }
        Ok(())
    }

    /// One entry against the batch at or behind its last offset.
    fn compare(
        &mut self,
        at: u64,
        txn: AbortedTxn,
        (head, aborted, began): (&Head, Option<ProducerId>, Option<Offset>),
        findings: &mut Findings,
    ) {
        let AbortedTxn { producer_id, first_offset, last_offset, last_stable_offset, .. } = txn;
        let before = self.before.replace(last_offset);
        let is_here = last_offset >= head.base_offset;
        let detail = if before.is_some_and(|before| last_offset <= before) {
            Some(format!("offset {last_offset} does not rise"))
        } else if last_offset < self.base || first_offset > last_offset || first_offset.get() < 0 {
            Some(format!("offsets {first_offset} to {last_offset} cannot be"))
        } else if is_here && !self.in_doubt && aborted != Some(producer_id) {
            Some(format!("offset {last_offset} is no ABORT marker of producer {producer_id}"))
        } else if is_here && began.is_some_and(|began| first_offset > began) {
            Some(format!("begins at offset {first_offset}, behind records of the transaction"))
        } else if last_stable_offset > self.last_stable(last_offset) || last_stable_offset.get() < 0
        {
            Some(format!("last stable offset {last_stable_offset} cannot be"))
        } else {
            None
        };
        if let Some(detail) = detail {
            self.add(at, &detail, findings);
        }
    }

    /// The largest that the last stable offset can have been behind a marker: that of the
    /// earliest transaction still open in this segment, or the offset after the marker.
    fn last_stable(&self, marker: Offset) -> Offset {
        let after = marker.checked_add(1).unwrap_or(marker);
        self.open.values().fold(after, |least, first| least.min(*first))
    }

    fn damage(&self, slot: Slot<Result<AbortedTxn, Corruption>>, findings: &mut Findings) {
        if let Err(corruption) = slot.entry {
            self.add(slot.at, &corruption.kind().to_string(), findings);
        }
    }

    fn add(&self, at: u64, detail: &str, findings: &mut Findings) {
        if let Some(entries) = &self.entries {
            findings.add(Kind::TxnIndexEntry, entries.path(), at, detail);
        }
    }

    fn read(&mut self) -> Result<(), CliError> {
        let base = self.base;
        let Some(entries) = &mut self.entries else { return Ok(()) };
        self.next = entries.next(|bytes| TransactionIndex::new(base, bytes).iter().next())?;
        Ok(())
    }
}
