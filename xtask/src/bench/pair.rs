//! Two ways to do the same work, measured in turns.
//!
//! A slice is about a millisecond of work. In each round ours, the twin, and the twin once more
//! run one slice each, in an order that turns; the figure is the median of the ratios of the
//! rounds. The twin against itself shows what is noise.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, ensure};

/// The fewest rounds whose median counts.
pub(super) const LEAST_SLICES: usize = 501;

/// Runs pairs.
#[derive(Debug)]
pub(super) struct Bench {
    rounds: usize,
}

/// What a bar asks for: our speed as a share of the twin's, at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar(pub(super) f64);

/// What came of one bench.
#[derive(Debug)]
pub(super) struct Outcome {
    name: &'static str,
    unit: &'static str,
    ours: f64,
    twin: f64,
    speed: Quartiles,
    noise: Quartiles,
    bar: Bar,
    rounds: usize,
}

/// The middle of many figures, and what half of them lie between.
#[derive(Clone, Copy, Debug)]
struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
}

impl Bench {
    /// At least [`LEAST_SLICES`] rounds.
    pub(super) fn new(rounds: usize) -> Self {
        Self { rounds: rounds.max(LEAST_SLICES) }
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
        let mut times: [Vec<f64>; 3] = Default::default();
        let warm_up = self.rounds / 10;
        for round in 0..warm_up + self.rounds {
            for turn in 0..3 {
                let side = (turn + round) % 3;
                let slice: &mut dyn Slice = if side == 0 { ours } else { twin };
                slice.prepare()?;
                let (figure, seconds) = slice.timed()?;
                black_box(figure);
                if round >= warm_up {
                    times[side].push(seconds);
                }
            }
        }
        let [ours, twin, again] = times;
        let ratios = |over: &[f64], under: &[f64]| {
            Quartiles::of(over.iter().zip(under).map(|(over, under)| over / under).collect())
        };
        let rate = |times: &[f64]| work / Quartiles::of(times.to_vec()).median;
        Ok(Outcome {
            name,
            unit,
            ours: rate(&ours),
            twin: rate(&twin),
            speed: ratios(&twin, &ours),
            noise: ratios(&again, &twin),
            bar,
            rounds: self.rounds,
        })
    }
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

impl Outcome {
    /// The head of the table that [`Self::line`] fills.
    pub(super) const HEAD: &'static str = "bench                       ours       twin  unit       \
        speed (quartiles)      twin/twin (quartiles)  bar";

    /// Whether the bar is met.
    pub(super) fn reached(&self) -> bool {
        self.speed.median >= self.bar.0
    }

    /// A line for people.
    pub(super) fn line(&self) -> String {
        let Self { name, unit, ours, twin, speed, noise, bar, .. } = self;
        let verdict = if self.reached() { "reached" } else { "BELOW" };
        format!(
            "{name:<22} {ours:>9.1}  {twin:>9.1}  {unit:<9} {}   {}   {:.2} {verdict}",
            speed.shown(),
            noise.shown(),
            bar.0,
        )
    }

    /// A line for programs.
    pub(super) fn json(&self) -> String {
        serde_json::json!({
            "bench": self.name,
            "unit": self.unit,
            "ours": self.ours,
            "twin": self.twin,
            "speed": self.speed.median,
            "speed_quartiles": [self.speed.low, self.speed.high],
            "twin_against_itself": self.noise.median,
            "twin_quartiles": [self.noise.low, self.noise.high],
            "bar": self.bar.0,
            "reached": self.reached(),
            "rounds": self.rounds,
        })
        .to_string()
    }
}

impl Quartiles {
    fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |quarter: usize| figures[(figures.len() - 1) * quarter / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }

    fn shown(&self) -> String {
        format!("{:.3} ({:.3}..{:.3})", self.median, self.low, self.high)
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
