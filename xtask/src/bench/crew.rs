//! Threads that work in step: started once, so that a slice measures their work alone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::pair::Slice;

/// A slice of each worker at the same time.
#[derive(Debug)]
pub(super) struct Crew {
    start: Arc<Barrier>,
    stop: Arc<AtomicBool>,
    results: mpsc::Receiver<Result<u64>>,
    workers: Vec<JoinHandle<()>>,
}

impl Crew {
    /// Starts the threads, which wait.
    pub(super) fn start<F>(workers: Vec<F>) -> Self
    where
        F: FnMut() -> Result<u64> + Send + 'static,
    {
        let start = Arc::new(Barrier::new(workers.len() + 1));
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, results) = mpsc::channel();
        let spawn = |mut work: F| {
            let (start, stop, sender) = (Arc::clone(&start), Arc::clone(&stop), sender.clone());
            let is_called = move || {
                start.wait();
                !stop.load(Ordering::Acquire)
            };
            std::thread::spawn(move || while is_called() && sender.send(work()).is_ok() {})
        };
        let workers = workers.into_iter().map(spawn).collect();
        Self { start, stop, results, workers }
    }

    /// Starts the threads, which wait, each bound to a processor of its own. Of two that are woken
    /// on one processor the second goes on milliseconds later.
    ///
    /// # Errors
    ///
    /// When there are fewer processors than threads, or one cannot be had.
    pub(super) fn start_apart<F>(workers: Vec<F>) -> Result<Self>
    where
        F: FnMut() -> Result<u64> + Send + 'static,
    {
        let allowed = sched_getaffinity(None).context("cannot ask for the processors")?;
        let mut processors = (0..CpuSet::MAX_CPU).filter(|&number| allowed.is_set(number));
        let bind = |mut work: F| {
            let mut own = CpuSet::new();
            own.set(processors.next().context("there are more threads than processors")?);
            let mut is_bound = false;
            Ok(move || {
                if !is_bound {
                    sched_setaffinity(None, &own).context("cannot bind a thread")?;
                    is_bound = true;
                }
                work()
            })
        };
        let mut crew = Self::start(workers.into_iter().map(bind).collect::<Result<_>>()?);
        // The first slice binds them.
        crew.run()?;
        Ok(crew)
    }
}

impl Slice for Crew {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        self.start.wait();
        let mut sum = 0_u64;
        for _ in &self.workers {
            sum = sum.wrapping_add(self.results.recv().context("a worker is gone")??);
        }
        Ok(sum)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.start.wait();
        for worker in self.workers.drain(..) {
            // A panic of a worker has been reported by its thread.
            let _joined = worker.join();
        }
    }
}
