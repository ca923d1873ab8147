//! A bar on standard error for work that takes longer than a second.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Work shorter than this shows no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts bytes from any thread, and draws a bar when it is asked to.
///
/// Silent when standard error is no terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    total: u64,
    done: AtomicU64,
    started: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Progress {
    /// Progress over `total` bytes.
    pub(crate) fn new(total: u64) -> Self {
        let (started, bar) = (Instant::now(), OnceLock::new());
        Self { total, done: AtomicU64::new(0), started, bar }
    }

    /// Counts bytes as read.
    pub(crate) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Draws the bar, if it is time.
    pub(crate) fn draw(&self) {
        if self.started.elapsed() < PATIENCE {
            return;
        }
        let bar = self.bar.get_or_init(|| ProgressBar::new(self.total).with_style(style()));
        bar.set_position(self.done.load(Ordering::Relaxed).min(self.total));
    }

    /// Runs `print` with the bar out of the way.
    pub(crate) fn beside<R>(&self, print: impl FnOnce() -> R) -> R {
        match self.bar.get() {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

fn style() -> ProgressStyle {
    const TEMPLATE: &str =
        "{bar:40} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left";
    ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_bad| ProgressStyle::default_bar())
}
