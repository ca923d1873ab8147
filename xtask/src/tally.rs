//! Counts checks, names those that fail, and prints the closing line.

use anyhow::{Result, bail};

/// The count of one run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    /// Counts one check; a failure is printed at once, on one line.
    pub(crate) fn check(&mut self, name: &str, result: Result<()>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(error) => {
                self.failed += 1;
                println!("FAILED {name}: {error:#}");
            }
        }
    }

    /// Counts a check that cannot be made, and says why.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        self.skipped += 1;
        println!("skipped {name}: {reason}");
    }

    /// How many checks were made so far, whatever came of them.
    pub(crate) const fn checks(&self) -> usize {
        self.passed + self.failed
    }

    /// How many checks passed so far.
    pub(crate) const fn passed(&self) -> usize {
        self.passed
    }

    /// Prints `N passed, M failed`.
    ///
    /// # Errors
    ///
    /// When a check failed, or none was made.
    pub(crate) fn finish(self) -> Result<()> {
        let Self { passed, failed, skipped } = self;
        let tail = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        println!("{passed} passed, {failed} failed{tail}");
        if failed > 0 {
            bail!("{failed} of {} checks failed", passed + failed);
        }
        if passed == 0 {
            bail!("nothing was checked");
        }
        Ok(())
    }
}

/// Compares two texts.
///
/// # Errors
///
/// Names the first line that differs.
pub(crate) fn same_text(ours: &[u8], theirs: &[u8]) -> Result<()> {
    if ours == theirs {
        return Ok(());
    }
    let mut ours = ours.split(|&byte| byte == b'\n');
    let mut theirs = theirs.split(|&byte| byte == b'\n');
    for number in 1.. {
        let (our, their) = (ours.next(), theirs.next());
        if our != their {
            bail!("line {number}: ours {}, Kafka's {}", shown(our, their), shown(their, our));
        }
        if our.is_none() {
            break;
        }
    }
    bail!("texts differ")
}

/// Compares two files.
///
/// # Errors
///
/// Names the first byte that differs.
pub(crate) fn same_bytes(ours: &[u8], theirs: &[u8]) -> Result<()> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).take_while(|(our, their)| our == their).count();
    bail!("differs from byte {at}; ours {} bytes, Kafka's {}", ours.len(), theirs.len())
}

/// A line, cut to what lies around the first difference.
fn shown(line: Option<&[u8]>, other: Option<&[u8]>) -> String {
    let Some(line) = line else { return "ends".to_owned() };
    let other = other.unwrap_or_default();
    let same = line.iter().zip(other).take_while(|(left, right)| left == right).count();
    let from = same.saturating_sub(40);
    let until = line.len().min(same + 60);
    let head = if from > 0 { "…" } else { "" };
    format!("{head}`{}`", String::from_utf8_lossy(&line[from..until]))
}
