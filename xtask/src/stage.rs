//! A list of named stages that all run, each with its time and the command that repeats it.

use std::time::Instant;

use anyhow::{Result, bail};

/// Runs stages one after the other and keeps count.
#[derive(Debug, Default)]
pub(crate) struct Stages {
    lines: Vec<String>,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Stages {
    /// Runs one stage. A failure is kept, and the next stage runs all the same.
    pub(crate) fn run(&mut self, name: &str, repeat: &str, stage: impl FnOnce() -> Result<()>) {
        println!("== {name}: {repeat}");
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
        self.skipped += 1;
        self.lines.push(format!("skipped {name:<12} {:>6}    {reason}", "-"));
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
