//! An index that is opened on first use, by exactly one of the threads that ask for it.

use std::sync::{Mutex, OnceLock, PoisonError};

/// A value that is made on first use: Kafka opens indexes so, because most segments of a large
/// log are never read after a start.
///
/// However many threads ask at once, one runs the opener and the others wait for it; two index
/// objects over one file never exist. Once open, a call costs one atomic load. An opener that
/// fails leaves nothing behind: the next caller tries again.
///
/// Source: `LazyIndex` in Kafka.
#[derive(Debug)]
pub struct LazyIndex<T> {
    value: OnceLock<T>,
    opening: Mutex<()>,
}

impl<T> LazyIndex<T> {
    /// An index that is not open yet.
    #[must_use]
    pub const fn new() -> Self {
        Self { value: OnceLock::new(), opening: Mutex::new(()) }
    }

    /// An index that is open.
    #[must_use]
    pub fn opened(value: T) -> Self {
        Self { value: OnceLock::from(value), opening: Mutex::new(()) }
    }

    /// The index, if it is open.
    #[must_use]
    pub fn opened_ref(&self) -> Option<&T> {
        self.value.get()
    }

    /// The index, opened by `open` unless it is already.
    ///
    /// # Errors
    ///
    /// What `open` returns.
    pub fn get_or_open<E>(&self, open: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = self.value.get() {
            return Ok(value);
        }
        let value = open()?;
        Ok(self.value.get_or_init(|| value))
    }

    /// Closes the index: takes it out, so that the next use opens it again.
    pub fn take(&mut self) -> Option<T> {
        self.value.take()
    }
}

impl<T> Default for LazyIndex<T> {
    fn default() -> Self {
        Self::new()
    }
}
