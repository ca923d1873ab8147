//! Checks a time index in step with the walk over its log.

use alluvium_record_format::{Offset, Timestamp};
use alluvium_sparse_index::{TimeEntry, TimeIndex};

use super::entries::{Entries, Slot};
use super::finding::{Findings, Kind};
use super::segment::Content;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::walk::Head;

/// A time index under check.
#[derive(Debug)]
pub(super) struct TimeIndexCheck<'f> {
    entries: Entries<'f>,
    base: Offset,
    /// The entry whose batch has not been reached.
    next: Option<Slot<TimeEntry>>,
    /// The entry before it.
    before: Option<TimeEntry>,
    /// The largest timestamp so far, and the last offset of the batch that reached it first.
    largest: Option<(Timestamp, Offset)>,
    /// Batches were damaged or lost, so that the largest timestamp is not known.
    in_doubt: bool,
    old_style: u64,
    /// The first slot is all zeros: padding, or the entry of a record from 1970 at the base offset.
    is_first_zero: bool,
}

impl<'f> TimeIndexCheck<'f> {
    /// Begins to check the index of the segment at `base`.
    pub(super) fn new(file: &'f LogFile, base: Offset) -> Result<Self, CliError> {
        let mut check = Self {
            entries: Entries::new(file, TimeIndex::ENTRY_LEN),
            base,
            next: None,
            before: None,
            largest: None,
            in_doubt: false,
            old_style: 0,
            is_first_zero: false,
        };
        check.read()?;
        check.is_first_zero = check.entries.has_padding();
        Ok(check)
    }

    /// From here on the largest timestamp of the log is not known.
    pub(super) fn doubt(&mut self) {
        self.in_doubt = true;
    }

    /// Compares the entries up to the last offset of this batch.
    pub(super) fn batch(
        &mut self,
        head: &Head,
        content: Content,
        findings: &mut Findings,
    ) -> Result<(), CliError> {
        self.in_doubt |= !content.is_sound;
        if let Some(time) = head.max_timestamp
            && self.largest.is_none_or(|(largest, _)| time > largest)
            && time.get() >= 0
        {
            self.largest = Some((time, head.last_offset));
        }
        let zero = TimeEntry::new(Timestamp::new(0), self.base);
        if self.largest == Some((zero.timestamp, zero.offset))
            && std::mem::take(&mut self.is_first_zero)
        {
            self.entries.take_one_padding();
            self.before = Some(zero);
        }
        while let Some(slot) = self.next
            && slot.entry.offset <= head.last_offset
        {
            self.order(slot, findings);
            self.compare(slot, head, findings);
            self.read()?;
        }
        Ok(())
    }

    /// Says what is left when the log has ended.
    pub(super) fn finish(
        mut self,
        is_active: bool,
        findings: &mut Findings,
    ) -> Result<(), CliError> {
        let path = self.entries.path();
        while let Some(slot) = self.next {
            self.order(slot, findings);
            let detail = format_args!("names offset {}, behind the last batch", slot.entry.offset);
            findings.add(Kind::TimeIndexEntry, path, slot.at, detail);
            self.read()?;
        }
        if self.old_style > 0 {
            findings.add(Kind::IndexOld, path, None, format_args!("{} entries", self.old_style));
        }
        self.entries.name_padding(is_active, findings);
        if let Some((largest, offset)) = self.largest
            && !is_active
            && !self.in_doubt
            && self.before.is_none_or(|last| last.timestamp < largest)
        {
            let detail = format_args!("{largest} at offset {offset} is missing at the end");
            findings.add(Kind::TimeIndexEnd, path, None, detail);
        }
        self.entries.finish(findings);
        Ok(())
    }

    fn compare(&mut self, slot: Slot<TimeEntry>, head: &Head, findings: &mut Findings) {
        let TimeEntry { timestamp, offset, .. } = slot.entry;
        if self.in_doubt || self.largest == Some((timestamp, offset)) {
            return;
        }
        // Brokers before 4.0 named the record itself, not the last one of its batch.
        let is_old_style = self.largest == Some((timestamp, head.last_offset));
        if is_old_style && offset >= head.base_offset {
            self.old_style += 1;
            return;
        }
        let found = match self.largest {
            Some((largest, at)) => format!("the log reached {largest} at offset {at}"),
            None => "no batch so far has a time".to_owned(),
        };
        let detail = format_args!("says that {timestamp} was reached at offset {offset}; {found}");
        findings.add(Kind::TimeIndexEntry, self.entries.path(), slot.at, detail);
    }

    fn order(&mut self, slot: Slot<TimeEntry>, findings: &mut Findings) {
        let TimeEntry { timestamp, offset, .. } = slot.entry;
        if let Some(before) = self.before.replace(slot.entry)
            && (timestamp <= before.timestamp || offset < before.offset)
        {
            let detail = format_args!(
                "{timestamp} at offset {offset} is not above {} at offset {}",
                before.timestamp, before.offset
            );
            findings.add(Kind::TimeIndexEntry, self.entries.path(), slot.at, detail);
        }
        self.entries.name_hidden(Kind::TimeIndexEntry, slot.at, findings);
    }

    /// Reads the next entry that is not padding.
    fn read(&mut self) -> Result<(), CliError> {
        let (base, padding) = (self.base, TimeEntry::new(Timestamp::new(0), self.base));
        let parse = |bytes: &[u8]| TimeIndex::new(base, bytes).entry(0);
        self.next = self.entries.next_but(&padding, parse)?;
        Ok(())
    }
}
