//! What comes of a bench: a figure beside its bar, and what was counted on the way.

/// What a bar asks for: our speed as a share of the twin's, at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bar(pub(super) f64);

impl Bar {
    /// For what is measured and has no bar.
    pub(super) const NONE: Self = Self(0.0);
}

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
    counts: Vec<Count>,
}

/// A figure beside the speed.
#[derive(Debug)]
struct Count {
    what: &'static str,
    figure: f64,
    limit: Limit,
}

/// What a count must keep.
#[derive(Clone, Copy, Debug)]
enum Limit {
    None,
    Least(f64),
    Most(f64),
}

/// The middle of many figures, and what half of them lie between.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quartiles {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Outcome {
    /// The head of the table that [`Self::line`] fills.
    pub(super) const HEAD: &'static str = "bench                            ours       twin  unit       \
        speed (quartiles)      twin/twin (quartiles)  bar";

    /// Nothing measured yet.
    pub(super) const fn new(
        name: &'static str,
        unit: &'static str,
        bar: Bar,
        rounds: usize,
    ) -> Self {
        let none = Quartiles { low: 0.0, median: 0.0, high: 0.0 };
        Self {
            name,
            unit,
            ours: 0.0,
            twin: 0.0,
            speed: none,
            noise: none,
            bar,
            rounds,
            counts: Vec::new(),
        }
    }

    /// What each side does in a second.
    pub(super) const fn rates(mut self, ours: f64, twin: f64) -> Self {
        (self.ours, self.twin) = (ours, twin);
        self
    }

    /// Our speed as a share of the twin's, and the twin's as a share of itself.
    pub(super) const fn speed(mut self, speed: Quartiles, noise: Quartiles) -> Self {
        (self.speed, self.noise) = (speed, noise);
        self
    }

    /// A figure that is only told.
    pub(super) fn count(self, what: &'static str, figure: f64) -> Self {
        self.counted(what, figure, Limit::None)
    }

    /// A figure that must not be below `least`.
    pub(super) fn at_least(self, what: &'static str, figure: f64, least: f64) -> Self {
        self.counted(what, figure, Limit::Least(least))
    }

    /// A figure that must not be above `most`.
    pub(super) fn at_most(self, what: &'static str, figure: f64, most: f64) -> Self {
        self.counted(what, figure, Limit::Most(most))
    }

    fn counted(mut self, what: &'static str, figure: f64, limit: Limit) -> Self {
        self.counts.push(Count { what, figure, limit });
        self
    }

    /// Whether the bar is met, and every count within its limit.
    pub(super) fn reached(&self) -> bool {
        self.speed.median >= self.bar.0 && self.counts.iter().all(Count::is_kept)
    }

    /// A line for people, and one for each count.
    pub(super) fn line(&self) -> String {
        let Self { name, unit, ours, twin, speed, noise, bar, .. } = self;
        let verdict = match bar.0 {
            0.0 => "-".to_owned(),
            least => format!("{least:.2} {}", verdict(speed.median >= least)),
        };
        let (speed, noise) = (speed.shown(), noise.shown());
        let mut line =
            format!("{name:<27} {ours:>9.1}  {twin:>9.1}  {unit:<9} {speed}   {noise}   {verdict}");
        for count in &self.counts {
            line.push_str(&count.line());
        }
        line
    }

    /// A line for programs.
    pub(super) fn json(&self) -> String {
        let counts = self.counts.iter().map(|count| (count.what.to_owned(), count.figure.into()));
        let counts: serde_json::Map<String, serde_json::Value> = counts.collect();
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
            "counts": counts,
            "reached": self.reached(),
            "rounds": self.rounds,
        })
        .to_string()
    }
}

impl Count {
    fn is_kept(&self) -> bool {
        match self.limit {
            Limit::None => true,
            Limit::Least(least) => self.figure >= least,
            Limit::Most(most) => self.figure <= most,
        }
    }

    fn line(&self) -> String {
        let Self { what, figure, .. } = self;
        let verdict = verdict(self.is_kept());
        match self.limit {
            Limit::None => format!("\n    {figure:>10.2} {what}"),
            Limit::Least(least) => {
                format!("\n    {figure:>10.2} {what}, at least {least:.2} {verdict}")
            }
            Limit::Most(most) => {
                format!("\n    {figure:>10.2} {what}, at most {most:.2} {verdict}")
            }
        }
    }
}

const fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "BELOW" }
}

impl Quartiles {
    /// Of at least one figure.
    pub(super) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |quarter: usize| figures[(figures.len() - 1) * quarter / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }

    fn shown(&self) -> String {
        format!("{:.3} ({:.3}..{:.3})", self.median, self.low, self.high)
    }
}
