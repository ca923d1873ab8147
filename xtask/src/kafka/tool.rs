//! Kafka's dump tool in one JVM for many runs.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result};

use super::Kafka;
use crate::workspace;

/// What one run printed.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

/// A JVM that runs the dump tool whenever asked, with `dir` as its working directory.
#[derive(Debug)]
pub(crate) struct DumpTool {
    child: Child,
    runs: Option<ChildStdin>,
    codes: BufReader<ChildStdout>,
    out: PathBuf,
    err: PathBuf,
}

impl DumpTool {
    /// Starts the JVM.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(crate) fn start(kafka: &Kafka, dir: &Path) -> Result<Self> {
        let mut java = kafka.java("harness.Dump");
        java.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = java.spawn().context("cannot start the dump tool")?;
        let runs = child.stdin.take();
        let codes = BufReader::new(child.stdout.take().context("stdout is piped")?);
        let scratch = workspace::scratch();
        let (out, err) = (scratch.join("dump.out"), scratch.join("dump.err"));
        Ok(Self { child, runs, codes, out, err })
    }

    /// Runs the tool with these flags over these files.
    ///
    /// # Errors
    ///
    /// When the JVM is gone.
    pub(crate) fn run(&mut self, flags: &[&str], files: &str) -> Result<Printed> {
        let (out, err) = (self.out.to_string_lossy(), self.err.to_string_lossy());
        let words = [&*out, &*err].into_iter().chain(flags.iter().copied());
        let words: Vec<&str> = words.chain(["--files", files]).collect();
        let line = format!("{}\n", words.join("\t"));
        let runs = self.runs.as_mut().context("stdin is piped")?;
        runs.write_all(line.as_bytes()).context("the dump tool is gone")?;
        let mut code = String::new();
        self.codes.read_line(&mut code).context("the dump tool is gone")?;
        let code = code.trim().parse().context("the dump tool ended")?;
        let stdout = fs::read(&self.out).context("cannot read what the dump tool printed")?;
        let stderr = fs::read(&self.err).context("cannot read what the dump tool printed")?;
        Ok(Printed { code, stdout, stderr: String::from_utf8_lossy(&stderr).into_owned() })
    }
}

impl Drop for DumpTool {
    fn drop(&mut self) {
        // The end of its stdin ends it.
        drop(self.runs.take());
        let _status = self.child.wait();
    }
}
