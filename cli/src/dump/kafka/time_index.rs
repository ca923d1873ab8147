//! `.timeindex` files: a line an entry, compared with the batch that it names.

use alluvium_record_format::{Corruption, Offset};
use alluvium_sparse_index::{OffsetIndex, TimeEntry, TimeIndex};

use super::index::IndexDump;
use crate::error::CliError;
use crate::inflate::Inflater;
use crate::log_file::{LogFile, Window};
use crate::walk::{Head, peek_entry, peek_head};

impl IndexDump<'_, '_> {
    /// Dumps a time index.
    pub(super) fn time_index(&mut self) -> Result<(), CliError> {
        let Some(base) = self.base_offset()? else { return Ok(()) };
        let bytes = self.file.read_index()?;
        let index = TimeIndex::new(base, &bytes);
        let log = self.beside("log")?;
        let offsets = self.beside("index")?.map(|file| file.read_index()).transpose()?;
        if self.options.index_sanity_check {
            return self.sanity(index.sanity_check());
        }
        let offsets = OffsetIndex::new(base, offsets.as_deref().unwrap_or_default());
        let real = index.without_padding().len();
        // Kafka's tool shows the first slot even when it is padding.
        let shown = index.padding_start().unwrap_or(index.len());
        let mut checker = log.as_ref().map(|log| Checker::new(log, offsets));
        for (slot, entry) in index.iter().enumerate().take(shown) {
            if let Some(checker) = checker.as_mut().filter(|_| slot < real) {
                let at = (slot * TimeIndex::ENTRY_LEN) as u64;
                self.check_time_entry(entry, at, checker)?;
            }
            if !self.options.verify_index_only {
                let TimeEntry { timestamp, offset, .. } = entry;
                self.console.print(format_args!("timestamp: {timestamp} offset: {offset}\n"));
            }
            self.console.spill()?;
        }
        if let (Some(log), Some(checker)) = (&log, checker)
            && let Some(damage) = checker.damage()?
        {
            let at = u64::from(damage.position().get());
            self.console.damage(log.path(), at, damage.kind())?;
        }
        self.name_padding(index.len() - real, real * TimeIndex::ENTRY_LEN)?;
        self.name_spare_bytes(index.spare_bytes())
    }

    fn check_time_entry(
        &mut self,
        entry: TimeEntry,
        at: u64,
        checker: &mut Checker<'_, '_>,
    ) -> Result<(), CliError> {
        let path = self.file.path();
        let (timestamp, offset) = (entry.timestamp.get(), entry.offset.get());
        let previous = checker.previous.replace(timestamp).unwrap_or(-1);
        let Some(head) = checker.find(entry.offset)? else {
            self.report.not_found(path, offset, -1);
            return Ok(());
        };
        if head.last_offset != entry.offset {
            self.report.not_found(path, offset, head.last_offset.get());
            return Ok(());
        }
        match checker.max_timestamp(&head)? {
            Some(found) if found == timestamp => {}
            Some(found) => self.report.time_mismatch(path, timestamp, found),
            None => {
                let batch = head.position;
                let what = format_args!("the batch at byte {batch} of the log cannot be read");
                self.console.damage(path, at, what)?;
            }
        }
        if previous >= timestamp {
            self.report.out_of_order(path, timestamp, previous);
        }
        Ok(())
    }
}

/// Finds the batches that the entries of a time index name.
struct Checker<'i, 'f> {
    log: &'f LogFile,
    offsets: OffsetIndex<'i>,
    window: Window<'f>,
    /// The offset looked for last: no batch before the window reaches it.
    target: Offset,
    /// The timestamp of the entry before.
    previous: Option<i64>,
    inflater: Inflater,
    /// Where the log could not be walked on.
    damage: Option<Corruption>,
}

impl<'i, 'f> Checker<'i, 'f> {
    fn new(log: &'f LogFile, offsets: OffsetIndex<'i>) -> Self {
        Self {
            log,
            offsets,
            window: Window::new(log, 0, log.len()),
            target: Offset::new(0),
            previous: None,
            inflater: Inflater::default(),
            damage: None,
        }
    }

    /// The first batch whose last offset is `target` or above.
    fn find(&mut self, target: Offset) -> Result<Option<Head>, CliError> {
        let start = u64::from(self.offsets.lookup(target).position.get());
        if target < self.target || start > self.window.position() {
            self.window = Window::new(self.log, start, self.log.len());
        }
        self.target = target;
        while let Some(walked) = peek_head(&mut self.window)? {
            match walked {
                Ok(head) if head.last_offset >= target => return Ok(Some(head)),
                Ok(head) => self.window.advance(head.size),
                Err(corruption) => {
                    self.damage = Some(corruption);
                    break;
                }
            }
        }
        Ok(None)
    }

    /// The first damage of the log behind the first entry, if there is any. Kafka's tool reads
    /// to the end of the log for every entry, and dies there.
    fn damage(mut self) -> Result<Option<Corruption>, CliError> {
        if self.damage.is_none() && self.previous.is_some() {
            self.find(Offset::MAX)?;
        }
        Ok(self.damage)
    }

    /// The largest timestamp of the records of the batch under the window, -1 without records.
    /// `None` where they cannot be read.
    fn max_timestamp(&mut self, head: &Head) -> Result<Option<i64>, CliError> {
        let Ok(entry) = peek_entry(&mut self.window, head)? else { return Ok(None) };
        Ok(self.inflater.max_timestamp(&entry))
    }
}
