//! The lock of a log directory excludes a JVM, and a JVM excludes us.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use alluvium_segment::DirLock;
use anyhow::{Context, Result, ensure};

use crate::kafka::Kafka;
use crate::tally::Tally;
use crate::workspace;

/// Tries both orders, and once more after each has let go.
///
/// # Errors
///
/// When the folder cannot be made.
pub(super) fn check(kafka: &Kafka, dir: &Path, tally: &mut Tally) -> Result<()> {
    workspace::empty_dir(dir)?;
    tally.check("a JVM is refused what we have locked", jvm_is_refused(kafka, dir));
    tally.check("we are refused what a JVM has locked", we_are_refused(kafka, dir));
    Ok(())
}

fn jvm_is_refused(kafka: &Kafka, dir: &Path) -> Result<()> {
    let lock = DirLock::acquire(dir)?;
    let (mut probe, answer) = probe(kafka, dir)?;
    drop(probe.stdin.take());
    probe.wait().context("cannot wait for the JVM")?;
    drop(lock);
    ensure!(answer == "refused", "the JVM says it has {answer} the directory");
    Ok(())
}

fn we_are_refused(kafka: &Kafka, dir: &Path) -> Result<()> {
    let (mut probe, answer) = probe(kafka, dir)?;
    let ours = DirLock::acquire(dir);
    // The JVM lets go when its stdin ends.
    drop(probe.stdin.take());
    probe.wait().context("cannot wait for the JVM")?;
    ensure!(answer == "locked", "the JVM was {answer} though nobody held the lock");
    ensure!(ours.is_err(), "we got a lock that a JVM holds");
    DirLock::acquire(dir).context("the JVM has let go, and we are still refused")?;
    Ok(())
}

/// Starts a JVM that tries to lock the directory, and returns what it says.
fn probe(kafka: &Kafka, dir: &Path) -> Result<(Child, String)> {
    let mut java = kafka.java("harness.LockProbe");
    java.arg(dir.join(".lock")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = java.spawn().context("cannot start a JVM")?;
    let mut answer = String::new();
    let stdout = child.stdout.take().context("stdout is piped")?;
    BufReader::new(stdout).read_line(&mut answer).context("the JVM says nothing")?;
    Ok((child, answer.trim().to_owned()))
}
