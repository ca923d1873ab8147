//! Kafka's own log in one warm JVM, timed on demand.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use anyhow::{Context, Result, ensure};

use super::Kafka;

/// A JVM that times what Kafka's log does: see `Storage.java` for the commands.
#[derive(Debug)]
pub(crate) struct Storage {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Storage {
    /// Starts the JVM.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(crate) fn start(kafka: &Kafka) -> Result<Self> {
        Self::start_as(kafka, "harness.Storage")
    }

    /// Starts a JVM that answers other commands: see the class.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(crate) fn start_as(kafka: &Kafka, main: &str) -> Result<Self> {
        let mut java = kafka.java(main);
        java.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = java.spawn().context("cannot start Kafka's log")?;
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("stdout is piped")?);
        Ok(Self { child, commands, answers })
    }

    /// Runs a command and returns the figure that it answers with.
    ///
    /// # Errors
    ///
    /// When the JVM is gone: what went wrong is on stderr.
    pub(crate) fn run(&mut self, command: &str) -> Result<f64> {
        let figure = self.ask(command)?;
        figure.parse().with_context(|| format!("`{command}` answered {figure:?}"))
    }

    /// Runs a command and returns the line that it answers with.
    ///
    /// # Errors
    ///
    /// As [`run`](Self::run).
    pub(crate) fn ask(&mut self, command: &str) -> Result<String> {
        let commands = self.commands.as_mut().context("stdin is piped")?;
        writeln!(commands, "{command}").context("Kafka's log is gone")?;
        let mut line = String::new();
        self.answers.read_line(&mut line).context("Kafka's log is gone")?;
        ensure!(!line.is_empty(), "Kafka's log ended at `{command}`");
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        // The end of its stdin ends it.
        drop(self.commands.take());
        let _status = self.child.wait();
    }
}
