//! System calls on files and directories: whole transfers, and a hook to make them fail.
//!
//! Every change that this crate makes on disk, except stores into a mapped index, goes through
//! [`Io`]. A test gives it an [`IoHook`] and sees each call before it is made: it can shorten a
//! transfer, fail a call, or keep a record from which the state after a power loss is made.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::page_cache::{read_uncached, write_uncached};

/// A system call that is about to be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum IoCall<'a> {
    /// Opens a file, and makes it where `create` is set.
    #[non_exhaustive]
    Open {
        /// The file.
        path: &'a Path,
        /// Whether it is made.
        create: bool,
    },
    /// Reads up to `len` bytes.
    #[non_exhaustive]
    Read {
        /// The file.
        path: &'a Path,
        /// The first byte.
        position: u64,
        /// Bytes asked for.
        len: usize,
    },
    /// Writes these bytes. Those of a transaction index entry are left out.
    #[non_exhaustive]
    Write {
        /// The file.
        path: &'a Path,
        /// The first byte.
        position: u64,
        /// What is written.
        bytes: &'a [u8],
    },
    /// Cuts or extends a file.
    #[non_exhaustive]
    SetLen {
        /// The file.
        path: &'a Path,
        /// The length after the call.
        len: u64,
    },
    /// Makes a file's bytes durable.
    #[non_exhaustive]
    Sync {
        /// The file.
        path: &'a Path,
    },
    /// Makes the names in a directory durable.
    #[non_exhaustive]
    SyncDir {
        /// The directory.
        path: &'a Path,
    },
    /// Renames a file or directory.
    #[non_exhaustive]
    Rename {
        /// The old name.
        from: &'a Path,
        /// The new name; what stands there is replaced.
        to: &'a Path,
    },
    /// Removes a file.
    #[non_exhaustive]
    Remove {
        /// The file.
        path: &'a Path,
    },
}

/// What becomes of a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum IoVerdict {
    /// It is made.
    Proceed,
    /// It is made, and moves at most so many bytes. For calls that move none it is made.
    Limit(usize),
    /// It is not made and fails so. `ErrorKind::Interrupted` makes a transfer try again.
    Fail(io::Error),
}

/// Sees every system call before it is made. For tests.
pub trait IoHook: Send + Sync {
    /// Decides what becomes of `call`.
    fn before(&self, call: &IoCall<'_>) -> IoVerdict;
}

/// The way to the files. Cheap to clone.
///
/// Without a hook it adds one test of a pointer to each call.
#[derive(Clone, Default)]
pub struct Io {
    hook: Option<Arc<dyn IoHook>>,
}

impl fmt::Debug for Io {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Io").field("hooked", &self.hook.is_some()).finish()
    }
}

impl Io {
    /// Calls the operating system and nobody else.
    #[must_use]
    pub const fn new() -> Self {
        Self { hook: None }
    }

    /// Asks `hook` before each call.
    #[must_use]
    pub fn with_hook(hook: Arc<dyn IoHook>) -> Self {
        Self { hook: Some(hook) }
    }

    /// Opens an existing file to read, and to write if `write` is set. Does not wait where it is
    /// a pipe.
    ///
    /// # Errors
    ///
    /// As the system call.
    pub fn open(&self, path: &Path, write: bool) -> io::Result<File> {
        self.ask(|| IoCall::Open { path, create: false })?;
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)
    }

    /// Opens a file to read and write, and makes it if it is not there. Bytes in it stay.
    ///
    /// # Errors
    ///
    /// As the system call.
    pub fn open_or_create(&self, path: &Path) -> io::Result<File> {
        self.ask(|| IoCall::Open { path, create: true })?;
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
    }

    /// Makes a new file to read and write.
    ///
    /// # Errors
    ///
    /// As the system call; `AlreadyExists` if the name is taken.
    pub fn create_new(&self, path: &Path) -> io::Result<File> {
        self.ask(|| IoCall::Open { path, create: true })?;
        OpenOptions::new().read(true).write(true).create_new(true).open(path)
    }

    /// Fills `buffer` from byte `position` on. Returns how many bytes were there: fewer than
    /// asked for only at the end of the file.
    ///
    /// # Errors
    ///
    /// As the system call; an interrupted one is made again.
    pub fn read_full(
        &self,
        file: &File,
        path: &dyn Fn() -> PathBuf,
        buffer: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        self.read_by(read_at, file, path, buffer, position)
    }

    /// As [`read_full`](Self::read_full), around the page cache: see
    /// [`read_uncached`](crate::page_cache::read_uncached).
    ///
    /// # Errors
    ///
    /// As [`read_full`](Self::read_full).
    pub fn read_full_uncached(
        &self,
        file: &File,
        path: &dyn Fn() -> PathBuf,
        buffer: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        self.read_by(read_uncached, file, path, buffer, position)
    }

    fn read_by(
        &self,
        read: impl Fn(&File, &mut [u8], u64) -> io::Result<usize>,
        file: &File,
        path: &dyn Fn() -> PathBuf,
        buffer: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        let hook = self.named(path);
        let mut done = 0;
        while done < buffer.len() {
            let at = position.saturating_add(len_u64(done));
            let len = buffer.len() - done;
            let limit = hook.as_ref().map_or(Ok(len), |(hook, path)| {
                limit(*hook, &IoCall::Read { path, position: at, len })
            });
            let limit = match limit {
                Ok(limit) => limit.min(len),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            match read(file, &mut buffer[done..done + limit], at) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Writes all of `bytes` from byte `position` on.
    ///
    /// # Errors
    ///
    /// As the system call; an interrupted one is made again. `WriteZero` when a call moves
    /// nothing. A part of the bytes may then be in the file.
    pub fn write_all(
        &self,
        file: &File,
        path: &dyn Fn() -> PathBuf,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<()> {
        self.write_by(write_at, file, path, bytes, position)
    }

    /// As [`write_all`](Self::write_all), around the page cache: see
    /// [`write_uncached`](crate::page_cache::write_uncached).
    ///
    /// # Errors
    ///
    /// As [`write_all`](Self::write_all).
    pub fn write_all_uncached(
        &self,
        file: &File,
        path: &dyn Fn() -> PathBuf,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<()> {
        self.write_by(write_uncached, file, path, bytes, position)
    }

    fn write_by(
        &self,
        write: impl Fn(&File, &[u8], u64) -> io::Result<usize>,
        file: &File,
        path: &dyn Fn() -> PathBuf,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<()> {
        let hook = self.named(path);
        let mut rest = bytes;
        let mut at = position;
        while !rest.is_empty() {
            let limit = hook.as_ref().map_or(Ok(rest.len()), |(hook, path)| {
                limit(*hook, &IoCall::Write { path, position: at, bytes: rest })
            });
            let limit = match limit {
                Ok(limit) => limit.min(rest.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            match write(file, &rest[..limit], at) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    rest = &rest[count..];
                    at = at.saturating_add(len_u64(count));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Cuts the file to `len` bytes, or extends it with zeros that take no blocks.
    ///
    /// # Errors
    ///
    /// As the system call.
    pub fn set_len(&self, file: &File, path: &dyn Fn() -> PathBuf, len: u64) -> io::Result<()> {
        if let Some((hook, path)) = self.named(path) {
            limit(hook, &IoCall::SetLen { path: &path, len })?;
        }
        file.set_len(len)
    }

    /// Makes the file's bytes and its length durable (`fdatasync`).
    ///
    /// # Errors
    ///
    /// As the system call. The bytes may then be lost although a later call succeeds.
    pub fn sync(&self, file: &File, path: &dyn Fn() -> PathBuf) -> io::Result<()> {
        if let Some((hook, path)) = self.named(path) {
            limit(hook, &IoCall::Sync { path: &path })?;
        }
        #[cfg(alluvium_mutant)]
        if crate::mutant::is("no-log-sync") && path().extension().is_some_and(|end| end == "log") {
            return Ok(());
        }
        file.sync_data()
    }

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    ///
    /// As the system calls.
    pub fn sync_dir(&self, path: &Path) -> io::Result<()> {
        #[cfg(alluvium_mutant)]
        if crate::mutant::is("no-directory-sync") {
            return Ok(());
        }
        self.ask(|| IoCall::SyncDir { path })?;
        File::open(path)?.sync_all()
    }

    /// Renames a file or directory; what has the new name is replaced. Durable only after
    /// [`Io::sync_dir`].
    ///
    /// # Errors
    ///
    /// As the system call.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ask(|| IoCall::Rename { from, to })?;
        #[expect(clippy::disallowed_methods, reason = "the helper that the rule asks to use")]
        std::fs::rename(from, to)
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// As the system call.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.ask(|| IoCall::Remove { path })?;
        std::fs::remove_file(path)
    }

    /// Tells the hook of a write that is made elsewhere: it can make it fail, and learns the file
    /// and the byte but not what is written. An interrupted one is announced again, as it would be
    /// made again.
    pub(crate) fn announce_write(&self, path: &Path, position: u64) -> io::Result<()> {
        loop {
            match self.ask(|| IoCall::Write { path, position, bytes: &[] }) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Asks the hook about a call that moves no bytes.
    fn ask<'a>(&self, call: impl FnOnce() -> IoCall<'a>) -> io::Result<()> {
        self.hook.as_ref().map_or(Ok(usize::MAX), |hook| limit(&**hook, &call())).map(drop)
    }

    /// The hook, and the name that it is told. Names are put together for it alone.
    fn named(&self, path: &dyn Fn() -> PathBuf) -> Option<(&dyn IoHook, PathBuf)> {
        self.hook.as_ref().map(|hook| (&**hook, path()))
    }
}

/// How many bytes the hook lets a call move.
fn limit(hook: &dyn IoHook, call: &IoCall<'_>) -> io::Result<usize> {
    match hook.before(call) {
        IoVerdict::Proceed => Ok(usize::MAX),
        IoVerdict::Limit(count) => Ok(count),
        IoVerdict::Fail(error) => Err(error),
    }
}

/// `pread`, without what libc does for threads that may be cancelled.
fn read_at(file: &File, buffer: &mut [u8], position: u64) -> io::Result<usize> {
    Ok(rustix::io::pread(file, buffer, position)?)
}

/// `pwrite`, likewise.
fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<usize> {
    Ok(rustix::io::pwrite(file, bytes, position)?)
}

fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}
