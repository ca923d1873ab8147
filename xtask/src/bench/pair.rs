//! Two ways to do the same work, measured in turns.
//!
//! A slice is about a millisecond of work. In each round ours, the twin, and the twin once more
//! run one slice each, in an order that is drawn: a slice pays for the caches as the one before
//! left them, and so none follows the same one always. The figure is the median of the ratios of
//! the rounds. The twin against itself shows what is noise.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};

pub(super) use super::outcome::{Bar, Outcome, Quartiles};
use super::random::Random;

/// The fewest rounds whose median counts.
pub(super) const LEAST_SLICES: usize = 501;

/// Runs pairs.
#[derive(Debug)]
pub(super) struct Bench {
    rounds: usize,
}

impl Bench {
    /// At least [`LEAST_SLICES`] rounds.
    pub(super) fn new(rounds: usize) -> Self {
        Self { rounds: rounds.max(LEAST_SLICES) }
    }

    /// The same with so much fewer rounds, an odd number: for slices that take much longer.
    pub(super) fn fewer(&self, divisor: usize) -> Self {
        Self { rounds: self.rounds.div_ceil(divisor) | 1 }
    }

    /// The same with at least so many rounds.
    pub(super) fn of_rounds(&self, least: usize) -> Self {
        Self { rounds: self.rounds.max(least) }
    }

    /// Measures both sides. Each returns a figure that depends on all of its work; `work` is what
    /// one slice does, in `unit`.
    ///
    /// # Errors
    ///
    /// When a side fails.
    pub(super) fn pair(
        &self,
        name: &'static str,
        work: (f64, &'static str),
        bar: Bar,
        ours: impl FnMut() -> Result<u64>,
        twin: impl FnMut() -> Result<u64>,
    ) -> Result<Outcome> {
        self.sides(name, work, bar, &mut Bare(ours), &mut Bare(twin))
    }

    /// As [`Self::pair`], for sides that have something to prepare outside the measured time.
    ///
    /// # Errors
    ///
    /// When a side fails.
    pub(super) fn sides(
        &self,
        name: &'static str,
        (work, unit): (f64, &'static str),
        bar: Bar,
        ours: &mut dyn Slice,
        twin: &mut dyn Slice,
    ) -> Result<Outcome> {
        let [ours, twin, again] = self.times(&mut [ours, twin], [0, 1, 1])?;
        let rate = |times: &[f64]| work / Quartiles::of(times.to_vec()).median;
        Ok(Outcome::new(name, unit, bar, self.rounds)
            .rates(rate(&ours), rate(&twin))
            .speed(Quartiles::of(divided(&twin, &ours)), Quartiles::of(divided(&again, &twin))))
    }

    /// Measures what two threads gain over one, ours beside the twin's: the figure is our gain as
    /// a share of the twin's. Each side is one thread, and two threads that do the same work
    /// together: `work` tells ours and the twin's.
    ///
    /// # Errors
    ///
    /// When a side fails.
    pub(super) fn scaling<'a>(
        &self,
        name: &'static str,
        (work, unit): ([f64; 2], &'static str),
        bar: Bar,
        ours: [&'a mut dyn Slice; 2],
        twin: [&'a mut dyn Slice; 2],
    ) -> Result<Outcome> {
        let ([ours_one, ours_two], [twin_one, twin_two]) = (ours, twin);
        let mut sides = [ours_one, ours_two, twin_one, twin_two];
        let [one, two, bare_one, bare_two, again_one, again_two] =
            self.times(&mut sides, [0, 1, 2, 3, 2, 3])?;
        let gain = divided(&one, &two);
        let bare_gain = divided(&bare_one, &bare_two);
        let again_gain = divided(&again_one, &again_two);
        let rate = |work: f64, times: &[f64]| work / Quartiles::of(times.to_vec()).median;
        let speed = Quartiles::of(divided(&gain, &bare_gain));
        let noise = Quartiles::of(divided(&bare_gain, &again_gain));
        Ok(Outcome::new(name, unit, bar, self.rounds)
            .rates(rate(work[0], &two), rate(work[1], &bare_two))
            .speed(speed, noise)
            .count("our gain", Quartiles::of(gain).median)
            .count("the twin's gain", Quartiles::of(bare_gain).median))
    }

    /// The seconds of each turn: in every round all of them come once, in an order that is drawn.
    /// `turns` names the side of each.
    fn times<const TURNS: usize>(
        &self,
        sides: &mut [&mut dyn Slice],
        turns: [usize; TURNS],
    ) -> Result<[Vec<f64>; TURNS]> {
        let mut times = [const { Vec::new() }; TURNS];
        let mut order: [usize; TURNS] = std::array::from_fn(|turn| turn);
        let mut random = Random::new(7);
        let warm_up = self.rounds / 10;
        for round in 0..warm_up + self.rounds {
            random.shuffle(&mut order);
            for turn in order {
                let slice = &mut *sides[turns[turn]];
                slice.prepare()?;
                let (figure, seconds) = slice.timed()?;
                black_box(figure);
                if round >= warm_up {
                    times[turn].push(seconds);
                }
            }
        }
        Ok(times)
    }
}

/// The ratio of each round.
fn divided(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}

/// One side of a pair.
pub(super) trait Slice {
    /// What must happen before a slice, not measured.
    ///
    /// # Errors
    ///
    /// When it fails.
    fn prepare(&mut self) -> Result<()>;

    /// One slice of work.
    ///
    /// # Errors
    ///
    /// When it fails.
    fn run(&mut self) -> Result<u64>;

    /// Runs a slice by the clock that counts: the one on the wall, where nothing else is said.
    ///
    /// # Errors
    ///
    /// When the slice fails.
    fn timed(&mut self) -> Result<(u64, f64)> {
        let start = Instant::now();
        let figure = self.run()?;
        Ok((figure, start.elapsed().as_secs_f64()))
    }
}

/// A side without anything to prepare.
struct Bare<F>(F);

impl<F: FnMut() -> Result<u64>> Slice for Bare<F> {
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    fn run(&mut self) -> Result<u64> {
        (self.0)()
    }
}

/// The proof that a check ran: with one byte flipped, the same call must refuse.
///
/// # Errors
///
/// When it does not.
pub(super) fn must_refuse<T>(what: &str, result: &Result<T>) -> Result<()> {
    ensure!(result.is_err(), "{what} takes a flipped byte: no check ran");
    Ok(())
}
