//! An open file whose readers are counted in several places: threads that read at once do not
//! wait for each other's count.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An open file, and a counted share of it for each of some threads. It closes when nobody has it
/// or a share.
pub(crate) struct SharedFile {
    file: Arc<File>,
    shares: [OnceLock<FileShare>; SHARES],
}

/// A file that stays open as long as this lives. To clone or drop it writes to a count that only
/// the threads with the same share write to.
#[derive(Clone)]
pub(crate) struct FileShare(Arc<Counted>);

/// A cache line for the count, which is changed, and one for the file, which is read.
#[repr(align(64))]
struct Counted(Arc<File>);

impl SharedFile {
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self { file, shares: [const { OnceLock::new() }; SHARES] }
    }

    /// The file itself, for who keeps it long or asks rarely.
    pub(crate) const fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The share of the calling thread. The first time it is allocated.
    pub(crate) fn share(&self) -> FileShare {
        self.shares[share_of_thread()].get_or_init(|| FileShare::of(Arc::clone(&self.file))).clone()
    }
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

impl FileShare {
    /// A share that nobody else has.
    pub(crate) fn of(file: Arc<File>) -> Self {
        Self(Arc::new(Counted(file)))
    }
}

impl Deref for FileShare {
    type Target = Arc<File>;

    fn deref(&self) -> &Arc<File> {
        &self.0.0
    }
}

impl fmt::Debug for FileShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.0.fmt(f)
    }
}

/// Which share a thread takes: threads get them in turn.
fn share_of_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    MINE.with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARES);
        }
        mine.get()
    })
}

/// As many threads read a segment at once without a common count. A share that was used takes
/// 128 bytes.
const SHARES: usize = 16;

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn open() -> Arc<File> {
        Arc::new(tempfile::tempfile().unwrap())
    }

    /// Threads of other tests may have taken a whole round of shares between two of these.
    #[test]
    fn threads_have_one_descriptor_and_a_count_each() {
        let shared = SharedFile::new(open());
        let mine = shared.share();
        assert!(Arc::ptr_eq(&mine.0, &shared.share().0));
        let others = thread::scope(|scope| {
            [(); 4].map(|()| scope.spawn(|| shared.share())).map(|other| other.join().unwrap())
        });
        assert!(others.iter().all(|other| Arc::ptr_eq(other, shared.file())));
        assert!(others.iter().any(|other| !Arc::ptr_eq(&mine.0, &other.0)));
    }

    #[test]
    fn the_file_closes_with_its_last_share_and_not_before() {
        let file = open();
        let watched = Arc::downgrade(&file);
        let shared = SharedFile::new(file);
        let (mine, other) =
            thread::scope(|scope| (shared.share(), scope.spawn(|| shared.share()).join().unwrap()));
        drop(shared);
        drop(mine);
        assert!(watched.upgrade().is_some());
        drop(other);
        assert!(watched.upgrade().is_none());
    }

    #[test]
    fn a_count_has_its_cache_lines_alone() {
        let (first, second) = (FileShare::of(open()), FileShare::of(open()));
        let line = |share: &FileShare| Arc::as_ptr(&share.0).addr() / 64;
        // The file's line is its own, and the count lies in the one before.
        assert!(line(&first).abs_diff(line(&second)) >= 2);
        assert_eq!(Arc::as_ptr(&first.0).addr() % 64, 0);
    }
}
