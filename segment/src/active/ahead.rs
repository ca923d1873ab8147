//! Blocks on disk ahead of the writer of a log.
//!
//! On ext4 each write to blocks that the file does not have yet reserves them one by one, a
//! seventh of what the write costs. Blocks that lie behind the end of the file save that. They
//! change neither its length nor its bytes: what lies in them is never seen, also after a crash.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FallocateFlags, fallocate, fstatfs};

use crate::config::SegmentConfig;

/// The blocks that a log has behind its end.
#[derive(Debug)]
pub(super) struct BlocksAhead {
    /// A write that ends behind this byte is where to look again.
    enough_until: u32,
    given: Given,
}

/// Whether there are blocks behind the end.
#[derive(Clone, Copy, Debug)]
enum Given {
    No,
    /// A writer that was not sealed, or a crash, may have left some: the file tells.
    ByOthers,
    /// They were asked for.
    Yes,
}

impl BlocksAhead {
    /// None yet; none ever for a log that is as long as it gets from the start.
    pub(super) const fn of(config: &SegmentConfig) -> Self {
        let enough_until = if config.preallocate_bytes.is_some() { u32::MAX } else { FROM_BYTES };
        Self { enough_until, given: Given::No }
    }

    /// Those of a log that was written to before.
    pub(super) const fn of_reopened(config: &SegmentConfig) -> Self {
        Self { given: Given::ByOthers, ..Self::of(config) }
    }

    /// Whether there may be blocks behind the end of the file. A cut to its length frees them.
    pub(super) fn are_given(&self, file: &Metadata) -> bool {
        match self.given {
            Given::No => false,
            Given::ByOthers => has_blocks_ahead(file),
            Given::Yes => true,
        }
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
        self.enough_until = u32::MAX;
        if is_ext4(file) {
            // A call that fails on a full disk keeps what it got before.
            self.given = Given::Yes;
            if fallocate(file, FallocateFlags::KEEP_SIZE, size.into(), len).is_ok() {
                self.enough_until = until;
            }
        }
    }
}

/// Whether a file seems to have blocks behind its end.
pub(crate) fn has_blocks_ahead(file: &Metadata) -> bool {
    let block = file.blksize().max(1);
    // Where a file lies in many pieces, a block beside its bytes says where they are.
    let needed = file.len().next_multiple_of(block).saturating_add(block);
    file.blocks().saturating_mul(STAT_BLOCK_BYTES) > needed
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

/// What `st_blocks` counts in.
const STAT_BLOCK_BYTES: u64 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_count_as_given_where_the_call_for_them_failed() {
        let program = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, b"").unwrap();
        // Not to be written to, so that nothing can be allocated.
        let file = File::open(&path).unwrap();
        let mut ahead = BlocksAhead::of(&SegmentConfig::new());
        let are_given = |ahead: &BlocksAhead| ahead.are_given(&file.metadata().unwrap());
        ahead.before_write(&file, 0, FROM_BYTES);
        assert!(!are_given(&ahead));
        ahead.before_write(&file, 0, FROM_BYTES + 1);
        assert_eq!(are_given(&ahead), is_ext4(&file));
        assert_eq!(ahead.enough_until, u32::MAX, "it is not asked again");
    }
}
