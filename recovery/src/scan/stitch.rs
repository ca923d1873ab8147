//! Takes the batches of a file in order, from threads that look for them ahead.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use alluvium_record_format::{Corruption, Offset};
use parking_lot::{Condvar, Mutex};

use super::chunks::find_batches;
use super::{FoundBatch, LogFile, ScanConfig, Step, Walk};
use crate::FileError;

/// How a scan ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScanEnd {
    /// The byte after the last batch that was taken.
    pub(crate) valid_bytes: u32,
    /// What stands there, if it is not the end of the file and the visitor has not stopped.
    pub(crate) damage: Option<Corruption>,
}

/// What the visitor of a scan gets: a batch, and its damage if it has any.
pub(crate) type Visit<'v> = dyn FnMut(&FoundBatch, Option<Corruption>) -> ControlFlow<()> + 'v;

/// Visits the batches of a file in order, each with its checksum looked at.
///
/// With more than one thread, chunks of the file are searched ahead for batches. The visitor is
/// called by this thread alone, and sees the same batches in the same order, whatever the values
/// of records hold: what was found ahead counts only at a position that the walk has reached.
pub(crate) fn scan(
    file: &LogFile,
    segment_base: Offset,
    config: ScanConfig,
    visit: &mut Visit<'_>,
) -> Result<ScanEnd, FileError> {
    if config.threads <= 1 || file.len() <= config.chunk_bytes {
        return Stitcher::new(file).run(&mut |_| Vec::new(), file.len(), visit);
    }
    let ahead = LookAhead::new(file, segment_base, config);
    thread::scope(|scope| {
        // However this ends, a panic of the visitor or of a spawn included: the scope waits for the
        // threads.
        let _stop = StopAtEnd(&ahead);
        for _ in 0..config.threads {
            scope.spawn(|| ahead.work());
        }
        let mut take = |chunk| ahead.take(chunk);
        Stitcher::new(file).run(&mut take, config.chunk_bytes, visit)
    })
}

/// The walk in order, which takes what was found ahead where it fits.
struct Stitcher<'f> {
    walk: Walk<'f>,
    end: u32,
}

impl<'f> Stitcher<'f> {
    fn new(file: &'f LogFile) -> Self {
        Self { walk: Walk::content(file, 0), end: file.len() }
    }

    fn run(
        mut self,
        take: &mut dyn FnMut(u32) -> Vec<FoundBatch>,
        chunk_bytes: u32,
        visit: &mut Visit<'_>,
    ) -> Result<ScanEnd, FileError> {
        for chunk in 0_u32.. {
            let chunk_end = chunk.saturating_add(1).saturating_mul(chunk_bytes).min(self.end);
            let found = take(chunk);
            if let ControlFlow::Break(end) = self.chunk(&found, chunk_end, visit)? {
                return Ok(end);
            }
        }
        Ok(ScanEnd { valid_bytes: self.walk.position(), damage: None })
    }

    /// Takes the batches that begin before `chunk_end`.
    fn chunk(
        &mut self,
        mut ahead: &[FoundBatch],
        chunk_end: u32,
        visit: &mut Visit<'_>,
    ) -> Result<ControlFlow<ScanEnd>, FileError> {
        while self.walk.position() < chunk_end || chunk_end == self.end {
            let at = self.walk.position();
            let stop = |damage| Ok(ControlFlow::Break(ScanEnd { valid_bytes: at, damage }));
            while ahead.first().is_some_and(|batch| batch.position.get() < at) {
                ahead = ahead.get(1..).unwrap_or_default();
            }
            let step = match ahead.first() {
                Some(batch) if batch.position.get() == at => {
                    self.walk.skip(batch);
                    Step::Batch(*batch)
                }
                _ => self.walk.step()?,
            };
            let flow = match step {
                Step::Batch(batch) => visit(&batch, None),
                Step::Bad(batch, damage) => visit(&batch, Some(damage)),
                Step::Damage(damage) => return stop(Some(damage)),
                Step::End => return stop(None),
            };
            if flow.is_break() {
                return stop(None);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Chunks that are searched ahead of the stitcher, at most two a thread.
struct LookAhead<'f> {
    file: &'f LogFile,
    segment_base: Offset,
    config: ScanConfig,
    stopped: AtomicBool,
    chunks: Mutex<Chunks>,
    changed: Condvar,
}

#[derive(Default)]
struct Chunks {
    /// The first chunk that no thread has taken.
    next: u32,
    /// The chunk that the stitcher waits for.
    wanted: u32,
    done: BTreeMap<u32, Vec<FoundBatch>>,
}

impl<'f> LookAhead<'f> {
    fn new(file: &'f LogFile, segment_base: Offset, config: ScanConfig) -> Self {
        let (stopped, changed) = (AtomicBool::new(false), Condvar::new());
        Self { file, segment_base, config, stopped, chunks: Mutex::default(), changed }
    }

    /// Searches chunk after chunk until none is left or the stitcher has stopped.
    fn work(&self) {
        while let Some(chunk) = self.claim() {
            let start = chunk.saturating_mul(self.config.chunk_bytes);
            let end = start.saturating_add(self.config.chunk_bytes).min(self.file.len());
            let mut searched = Searched { ahead: self, chunk, found: Vec::new() };
            let found = find_batches(self.file, (start, end), self.segment_base, &self.stopped);
            // A failed read is met again, and reported, by the walk in order.
            searched.found = found.unwrap_or_default();
        }
    }

    fn claim(&self) -> Option<u32> {
        let ahead = u32::try_from(self.config.threads.saturating_mul(2)).unwrap_or(u32::MAX);
        let mut chunks = self.chunks.lock();
        while !self.is_stopped() && chunks.next >= chunks.wanted.saturating_add(ahead) {
            self.changed.wait(&mut chunks);
        }
        let chunk = chunks.next;
        let start = u64::from(chunk).saturating_mul(self.config.chunk_bytes.into());
        if self.is_stopped() || start >= self.file.len().into() {
            return None;
        }
        chunks.next = chunk.saturating_add(1);
        Some(chunk)
    }

    /// Waits for what was found in a chunk: nothing where a thread has panicked.
    fn take(&self, chunk: u32) -> Vec<FoundBatch> {
        let mut chunks = self.chunks.lock();
        chunks.wanted = chunk;
        self.changed.notify_all();
        loop {
            if let Some(found) = chunks.done.remove(&chunk) {
                return found;
            }
            if self.is_stopped() {
                return Vec::new();
            }
            self.changed.wait(&mut chunks);
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _held = self.chunks.lock();
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Ends the search ahead when it goes.
struct StopAtEnd<'a, 'f>(&'a LookAhead<'f>);

impl Drop for StopAtEnd<'_, '_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Hands over what was found in a chunk when it goes. A panic ends the search of all threads: the
/// stitcher would wait for the chunks that are left.
struct Searched<'a, 'f> {
    ahead: &'a LookAhead<'f>,
    chunk: u32,
    found: Vec<FoundBatch>,
}

impl Drop for Searched<'_, '_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.ahead.stop();
        }
        let found = std::mem::take(&mut self.found);
        self.ahead.chunks.lock().done.insert(self.chunk, found);
        self.ahead.changed.notify_all();
    }
}
