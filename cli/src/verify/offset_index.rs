//! Checks an offset index in step with the walk over its log.

use alluvium_record_format::{Offset, Position};
use alluvium_sparse_index::{OffsetEntry, OffsetIndex};

use super::entries::{Entries, Slot};
use super::finding::{Findings, Kind};
use super::segment::Content;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::walk::Head;

/// An offset index under check. Entries are read in order, as the walk reaches their batches.
#[derive(Debug)]
pub(super) struct OffsetIndexCheck<'f> {
    entries: Entries<'f>,
    base: Offset,
    /// The entry whose batch has not been reached.
    next: Option<Slot<OffsetEntry>>,
    /// The entry before it.
    before: Option<OffsetEntry>,
    /// An entry at the right byte with an offset that must end a later batch.
    open: Option<Slot<OffsetEntry>>,
    /// Entries that named a later batch.
    old_style: u64,
}

impl<'f> OffsetIndexCheck<'f> {
    /// Begins to check the index of the segment at `base`.
    pub(super) fn new(file: &'f LogFile, base: Offset) -> Result<Self, CliError> {
        let mut check = Self {
            entries: Entries::new(file, OffsetIndex::ENTRY_LEN),
            base,
            next: None,
            before: None,
            open: None,
            old_style: 0,
        };
        check.read()?;
        Ok(check)
    }

    /// Compares the entries that point to or before this batch.
    pub(super) fn batch(
        &mut self,
        head: &Head,
        content: Content,
        findings: &mut Findings,
    ) -> Result<(), CliError> {
        self.close(head.base_offset, findings);
        while let Some(slot) = self.next
            && u64::from(slot.entry.position.get()) <= head.position
        {
            self.order(slot, findings);
            if u64::from(slot.entry.position.get()) < head.position {
                let detail =
                    format!("points to byte {}, where no batch begins", slot.entry.position);
                findings.add(Kind::IndexEntry, self.entries.path(), slot.at, detail);
            } else if !content.is_sound {
                // What the batch says of its offsets cannot be believed.
            } else if slot.entry.offset > head.last_offset {
                self.open = Some(slot);
            } else if slot.entry.offset < head.last_offset {
                let detail = format!(
                    "names offset {}, but the batch at byte {} ends at {}",
                    slot.entry.offset, slot.entry.position, head.last_offset
                );
                findings.add(Kind::IndexEntry, self.entries.path(), slot.at, detail);
            }
            self.read()?;
        }
        if self.open.take_if(|slot| slot.entry.offset == head.last_offset).is_some() {
            self.old_style += 1;
        }
        Ok(())
    }

    /// Says what is left when the log has ended.
    pub(super) fn finish(
        mut self,
        is_active: bool,
        findings: &mut Findings,
    ) -> Result<(), CliError> {
        self.close(Offset::MAX, findings);
        while let Some(slot) = self.next {
            self.order(slot, findings);
            let detail = format!("points to byte {}, behind the last batch", slot.entry.position);
            findings.add(Kind::IndexEntry, self.entries.path(), slot.at, detail);
            self.read()?;
        }
        let path = self.entries.path();
        if self.old_style > 0 {
            findings.add(Kind::IndexOld, path, None, format!("{} entries", self.old_style));
        }
        self.entries.name_padding(is_active, findings);
        self.entries.finish(findings);
        Ok(())
    }

    /// An open entry whose batch did not come before offset `reached`.
    fn close(&mut self, reached: Offset, findings: &mut Findings) {
        if let Some(slot) = self.open.take_if(|slot| slot.entry.offset < reached) {
            let detail = format!("no batch ends at offset {}", slot.entry.offset);
            findings.add(Kind::IndexEntry, self.entries.path(), slot.at, detail);
        }
    }

    fn order(&mut self, slot: Slot<OffsetEntry>, findings: &mut Findings) {
        let OffsetEntry { offset, position, .. } = slot.entry;
        if let Some(before) = self.before.replace(slot.entry)
            && (offset <= before.offset || position <= before.position)
        {
            let detail = format!(
                "offset {offset} at byte {position} is not above offset {} at byte {}",
                before.offset, before.position
            );
            findings.add(Kind::IndexEntry, self.entries.path(), slot.at, detail);
        }
        self.entries.name_hidden(Kind::IndexEntry, slot.at, findings);
    }

    /// Reads the next entry that is not padding.
    fn read(&mut self) -> Result<(), CliError> {
        let (base, padding) = (self.base, OffsetEntry::new(self.base, Position::new(0)));
        let parse = |bytes: &[u8]| OffsetIndex::new(base, bytes).entry(0);
        self.next = self.entries.next_but(&padding, parse)?;
        Ok(())
    }
}
