//! What was done, at what rate.

use std::time::Duration;

/// Lines of work.
#[derive(Debug, Default)]
pub(super) struct Table {
    lines: Vec<String>,
}

impl Table {
    /// Adds work that took time: so many of a unit.
    pub(super) fn timed(&mut self, what: &str, unit: &str, count: u64, time: Duration) {
        #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
        let rate = count as f64 / time.as_secs_f64();
        let shown = if unit == "bytes" {
            format!("{:.0} MiB/s", rate / f64::from(1 << 20))
        } else {
            format!("{rate:.0} {unit}/s")
        };
        let seconds = time.as_secs_f64();
        self.lines.push(format!("{what:<44} {count:>12} {unit:<9} {seconds:>7.3} s  {shown:>20}"));
    }

    /// Adds a fact.
    pub(super) fn fact(&mut self, what: &str, count: u64, unit: &str) {
        self.lines.push(format!("{what:<44} {count:>12} {unit}"));
    }

    /// The table.
    pub(super) fn text(&self) -> String {
        self.lines.join("\n")
    }
}
