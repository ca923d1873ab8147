//! Blocks on disk ahead of the writer of a log.
//!
//! On ext4 each write to blocks that the file does not have yet reserves them one by one, a
//! seventh of what the write costs. Blocks that lie behind the end of the file save that. They
//! change neither its length nor its bytes: what lies in them is never seen, also after a crash.

use std::fs::File;
use std::io;

use rustix::fs::{FallocateFlags, fallocate, fstatfs};

use crate::config::SegmentConfig;

/// The blocks that a log has behind its end.
#[derive(Debug)]
pub(super) struct BlocksAhead {
    /// A write that ends behind this byte is where to look again.
    enough_until: u32,
    given: bool,
}

impl BlocksAhead {
    /// None yet; none ever for a log that is as long as it gets from the start.
    pub(super) const fn of(config: &SegmentConfig) -> Self {
        let enough_until = if config.preallocate_bytes.is_some() { u32::MAX } else { FROM_BYTES };
        Self { enough_until, given: false }
    }

    /// Whether there may be blocks behind the end of the file. A cut to its length frees them.
    pub(super) const fn are_given(&self) -> bool {
        self.given
    }

    /// To be called before a write up to `end`, of a log of `size` bytes. Nothing fails: without
    /// blocks ahead a write takes longer, and it is the write that tells of a full disk.
    pub(super) fn before_write(&mut self, file: &File, size: u32, end: u32) {
        if end > self.enough_until {
            self.give(file, size, end);
        }
    }

    #[cold]
    fn give(&mut self, file: &File, size: u32, end: u32) {
        let until = end.saturating_add((end / SHARE).min(MOST_BYTES));
        let len = u64::from(until.saturating_sub(size));
        let is_given =
            is_ext4(file) && fallocate(file, FallocateFlags::KEEP_SIZE, size.into(), len).is_ok();
        if is_given {
            *self = Self { enough_until: until, given: true };
        } else {
            self.enough_until = u32::MAX;
        }
    }

    /// Gives back the blocks of a log that is not written to any more.
    pub(super) fn give_back(&mut self, file: &File) -> io::Result<()> {
        if std::mem::take(&mut self.given) {
            file.set_len(file.metadata()?.len())?;
        }
        Ok(())
    }
}

/// Whether the file lies on ext4, or on its elders. XFS gives blocks ahead by itself, and other
/// systems would gain nothing.
fn is_ext4(file: &File) -> bool {
    fstatfs(file).is_ok_and(|stat| u64::try_from(stat.f_type) == Ok(EXT4_MAGIC))
}

/// No blocks ahead of a shorter log: most logs are short, and there are many.
const FROM_BYTES: u32 = 1 << 20;

/// A log gets so much of its length ahead ...
const SHARE: u32 = 4;

/// ... up to this.
const MOST_BYTES: u32 = 4 << 20;

/// `EXT4_SUPER_MAGIC`.
const EXT4_MAGIC: u64 = 0xef53;
