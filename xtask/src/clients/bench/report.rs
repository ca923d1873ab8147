//! What the rounds came to, beside the bars.

use anyhow::{Result, bail};

/// What a round measured.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) start_ms: f64,
    pub(super) small_mib_s: f64,
    pub(super) large_mib_s: f64,
    pub(super) consumed_mib_s: f64,
    pub(super) cpu_s_per_gib: f64,
    pub(super) small_cpu_s_per_gib: f64,
    pub(super) large_cpu_s_per_gib: f64,
    pub(super) consumed_cpu_s_per_gib: f64,
    pub(super) resident_mib: f64,
    pub(super) half_load_p99_ms: f64,
    pub(super) idle_kib: f64,
}

/// A figure, what it is called, and its bar.
type Row = (&'static str, fn(&Figures) -> f64, Bar);

/// What is asked of ours over Kafka's.
#[derive(Clone, Copy, Debug)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
    /// Ours alone.
    OursAtMost(f64),
    /// Told, not judged.
    None,
}

const ROWS: [Row; 11] = [
    ("producer, 100-byte records, MiB/s", |f| f.small_mib_s, Bar::AtLeast(1.3)),
    ("producer, 1-KiB records, MiB/s", |f| f.large_mib_s, Bar::AtLeast(1.3)),
    ("consumer (librdkafka), MiB/s", |f| f.consumed_mib_s, Bar::AtLeast(1.3)),
    ("CPU seconds of the broker per GiB", |f| f.cpu_s_per_gib, Bar::AtMost(1.0 / 3.0)),
    ("  100-byte records produced", |f| f.small_cpu_s_per_gib, Bar::None),
    ("  1-KiB records produced", |f| f.large_cpu_s_per_gib, Bar::None),
    ("  1-KiB records consumed", |f| f.consumed_cpu_s_per_gib, Bar::None),
    ("resident memory, MiB", |f| f.resident_mib, Bar::AtMost(1.0 / 8.0)),
    ("start to first answer, ms", |f| f.start_ms, Bar::AtMost(0.1)),
    ("p99 of produce at half load, ms", |f| f.half_load_p99_ms, Bar::AtMost(1.0)),
    ("an idle connection, KiB", |f| f.idle_kib, Bar::OursAtMost(64.0)),
];

/// Prints the medians of the rounds.
///
/// # Errors
///
/// When a bar is missed.
pub(super) fn print(ours: &[Figures], theirs: &[Figures]) -> Result<()> {
    println!("{:<36} {:>10} {:>10} {:>8}  bar", "median", "ours", "Kafka", "ratio");
    let mut missed = 0;
    for (name, figure, bar) in ROWS {
        let (our, their) = (median(ours, figure), median(theirs, figure));
        let ratio = our / their;
        let (is_reached, bar) = bar.judge(our, ratio);
        let mark = if is_reached { "" } else { "  MISSED" };
        missed += usize::from(!is_reached);
        println!("{name:<36} {our:>10.2} {their:>10.2} {ratio:>8.3}  {bar}{mark}");
    }
    if missed > 0 {
        bail!("{missed} bars are missed");
    }
    Ok(())
}

impl Bar {
    /// Whether it is reached, and how it is shown.
    fn judge(self, our: f64, ratio: f64) -> (bool, String) {
        match self {
            Self::AtLeast(least) => (ratio >= least, format!(">= {least:.3}")),
            Self::AtMost(most) => (ratio <= most, format!("<= {most:.3}")),
            Self::OursAtMost(most) => (our <= most, format!("ours <= {most:.0}")),
            Self::None => (true, String::new()),
        }
    }
}

fn median(rounds: &[Figures], figure: fn(&Figures) -> f64) -> f64 {
    let mut all: Vec<_> = rounds.iter().map(figure).collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or_default()
}
