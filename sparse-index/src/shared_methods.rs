//! The public methods that both mapped index files have, written once.

/// Gives an index file the methods that do not look into entries.
macro_rules! shared_methods {
    ($index:ident) => {
        impl $index {
            /// Drops all entries. The length of the file stays.
            ///
            /// # Errors
            ///
            /// `Refused` with `Sealed`.
            pub fn truncate(&self) -> Result<(), IndexError> {
                let _writer = self.file.writer()?;
                self.file.take_back(0);
                Ok(())
            }

            /// Drops all entries and gives the file the length of the whole entries in
            /// `max_bytes`.
            ///
            /// # Errors
            ///
            /// As [`resize`](Self::resize).
            pub fn reset(&self, max_bytes: u32) -> Result<(), IndexError> {
                let mut writer = self.file.writer()?;
                self.file.take_back(0);
                self.file.resize(&mut writer, max_bytes).map(drop)
            }

            /// Gives the file the length of the whole entries in `bytes`. Returns whether the
            /// length changed.
            ///
            /// # Errors
            ///
            /// `Refused` with `Length` below the entries, or above the maximum that was set when
            /// the index was opened, or with `Sealed`; `Io`, `DiskFull`, `Changed`.
            pub fn resize(&self, bytes: u32) -> Result<bool, IndexError> {
                self.file.resize(&mut *self.file.writer()?, bytes)
            }

            /// Cuts the file behind its last entry, as is done when a segment is sealed. An
            /// empty index becomes a file of 0 bytes. Returns whether the length changed.
            ///
            /// # Errors
            ///
            /// `Io`, `Changed`; `Refused` with `Sealed`.
            pub fn trim_to_valid_size(&self) -> Result<bool, IndexError> {
                self.file.trim(&mut *self.file.writer()?)
            }

            /// Reserves blocks on disk for the next `entries` appends, as many as the index has
            /// room for, so that none of them fails for want of space.
            ///
            /// # Errors
            ///
            /// `DiskFull`, `Io`, `Changed`; `Refused` with `Sealed`.
            pub fn reserve(&self, entries: usize) -> Result<(), IndexError> {
                self.file.reserve_slots(&mut *self.file.writer()?, entries)
            }

            /// Makes the entries so far and the length of the file durable. Nobody waits for it.
            ///
            /// # Errors
            ///
            /// `Io`, `Changed`.
            pub fn flush(&self) -> Result<(), IndexError> {
                self.file.flush()
            }

            /// Notes that the file was renamed, or its directory.
            pub fn set_path(&self, path: std::path::PathBuf) {
                self.file.set_path(path);
            }

            /// Checks that the file still has the length that it was left with. A shorter one
            /// turns the next look-up into a signal. Costs three system calls; appends do the
            /// same whenever they reserve blocks.
            ///
            /// # Errors
            ///
            /// `Changed`, `Io`.
            pub fn check_backing(&self) -> Result<(), IndexError> {
                self.file.check_backing(&self.file.lock())
            }

            /// Kafka's check: whole entries alone, and a last entry that can be. Says nothing
            /// about the entries before it, nor about the log.
            ///
            /// # Errors
            ///
            /// `Corrupt`.
            pub fn sanity_check(&self) -> Result<(), IndexError> {
                self.file.corrupt_if_err(self.check_last())?;
                self.file.corrupt_if_err(self.file.check_whole())
            }

            /// The base offset of the segment.
            #[must_use]
            pub const fn base_offset(&self) -> Offset {
                self.base
            }

            /// Whether an entry can hold `offset`: not below the base offset, and at most
            /// `i32::MAX` above it.
            #[must_use]
            pub fn can_append_offset(&self, offset: Offset) -> bool {
                offset.relative_to(self.base).is_some()
            }

            /// Number of entries.
            #[must_use]
            pub fn len(&self) -> usize {
                self.file.len()
            }

            /// Whether there is no entry.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.file.len() == 0
            }

            /// Entries for which the file has room at its present length.
            #[must_use]
            pub fn max_entries(&self) -> usize {
                self.file.capacity()
            }

            /// Bytes of the file.
            #[must_use]
            pub fn size_bytes(&self) -> u64 {
                self.file.file_bytes()
            }
        }
    };
}

pub(crate) use shared_methods;
