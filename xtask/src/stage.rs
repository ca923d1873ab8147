//! A list of named stages that all run, each with its time and the command that repeats it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

/// Runs stages one after the other and keeps count.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    lines: Vec<String>,
    names: BTreeSet<String>,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Stages {
    /// Runs one stage. A failure is kept, and the next stage runs all the same.
    pub(crate) fn run(&mut self, name: &str, repeat: &str, stage: impl FnOnce() -> Result<()>) {
        println!("== {name}: {repeat}");
        self.names.insert(name.to_owned());
        let start = Instant::now();
        let result = stage();
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                self.passed += 1;
                self.lines.push(format!("ok      {name:<12} {seconds:>6.1} s  {repeat}"));
            }
            Err(error) => {
                self.failed += 1;
                println!("{name} failed: {error:#}\nrepeat with: {repeat}");
                self.lines.push(format!("FAILED  {name:<12} {seconds:>6.1} s  {repeat}"));
            }
        }
    }

    /// Notes a stage that cannot run here, and why.
    pub(crate) fn skip(&mut self, name: &str, reason: &str) {
        println!("== {name}: skipped, {reason}");
        self.names.insert(name.to_owned());
        self.skipped += 1;
        self.lines.push(format!("skipped {name:<12} {:>6}    {reason}", "-"));
    }

    /// Is itself a stage: a table of that file says what each stage so far proves.
    pub(crate) fn check_rows_in(&mut self, file: &Path) {
        let names = std::mem::take(&mut self.names);
        self.run("stages", "cargo xtask ci", || {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let told: BTreeSet<&str> = text.lines().flat_map(first_cell).collect();
            let untold: Vec<_> =
                names.iter().filter(|name| !told.contains(name.as_str())).collect();
            ensure!(untold.is_empty(), "{} does not say what {untold:?} prove", file.display());
            Ok(())
        });
    }

    /// Prints the table and the closing line.
    ///
    /// # Errors
    ///
    /// When a stage failed.
    pub(crate) fn finish(self) -> Result<()> {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        println!("\n{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped);
        if self.failed > 0 {
            bail!("{} of {} stages failed", self.failed, self.lines.len());
        }
        Ok(())
    }
}

/// The names in the first cell of a row: `| one, two (remark) | ...`.
fn first_cell(row: &str) -> impl Iterator<Item = &str> {
    let cell = row.strip_prefix("| ").and_then(|row| row.split('|').next()).unwrap_or_default();
    cell.split('(').next().unwrap_or_default().split(',').map(str::trim)
}
