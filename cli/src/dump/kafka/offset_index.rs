//! `.index` files: a line an entry, compared with the batch that it points to.

use alluvium_sparse_index::{OffsetEntry, OffsetIndex};

use super::index::IndexDump;
use crate::error::CliError;
use crate::log_file::{LogFile, Window};
use crate::text::java_path;
use crate::walk::peek_head;

impl IndexDump<'_, '_> {
    /// Dumps an offset index.
    pub(super) fn offset_index(&mut self) -> Result<(), CliError> {
        let Some(base) = self.base_offset()? else { return Ok(()) };
        let bytes = self.file.read_index()?;
        let index = OffsetIndex::new(base, &bytes);
        let log = self.beside("log")?;
        if index.is_empty() {
            self.console.print(format_args!("{} is empty.\n", java_path(self.file.path())));
            return self.name_spare_bytes(index.spare_bytes());
        }
        if self.options.index_sanity_check {
            return self.sanity(index.sanity_check());
        }
        let real = index.without_padding().len();
        // Kafka's tool shows the first slot even when it is padding.
        let shown = index.padding_start().unwrap_or(index.len());
        for (slot, entry) in index.iter().enumerate().take(shown) {
            if let Some(log) = log.as_ref().filter(|_| slot < real) {
                self.check_offset_entry(slot, entry, log)?;
            }
            if !self.options.verify_index_only {
                let OffsetEntry { offset, position, .. } = entry;
                let position = position.get().cast_signed();
                self.console.print(format_args!("offset: {offset} position: {position}\n"));
            }
            self.console.spill()?;
        }
        self.name_padding(index.len() - real, real * OffsetIndex::ENTRY_LEN)?;
        self.name_spare_bytes(index.spare_bytes())
    }

    fn check_offset_entry(
        &mut self,
        slot: usize,
        entry: OffsetEntry,
        log: &LogFile,
    ) -> Result<(), CliError> {
        let start = u64::from(entry.position.get());
        let end = start.saturating_add(u64::from(self.options.max_message_size()));
        if let Some(Ok(head)) = peek_head(&mut Window::new(log, start, end))? {
            if head.last_offset != entry.offset {
                let (index, found) = (entry.offset.get(), head.last_offset.get());
                self.report.index_mismatch(self.file.path(), index, found);
            }
            return Ok(());
        }
        let at = (slot * OffsetIndex::ENTRY_LEN) as u64;
        let what = format_args!("points to byte {start} of the log, where no whole batch begins");
        self.console.damage(self.file.path(), at, what)
    }
}
