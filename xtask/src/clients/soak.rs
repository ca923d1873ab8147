//! `clients --soak`: 50 clients, of which some are killed all the time, beside topics that come
//! and go. In the end everything that was acknowledged is there, and memory has not grown.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::bench::resident_kib;
use super::broker::{self, Server};
use super::install::Installed;
use crate::workspace;

const WRITERS: usize = 36;
const READERS: usize = 10;
const CHURNERS: usize = 4;
const TOPICS: usize = 6;
/// How often memory is looked at.
const SAMPLES: u64 = 12;
/// How many times the memory of the third quarter that of the last may be.
const GROWTH: f64 = 1.1;
/// What it may be more than that.
const SLACK_KIB: f64 = 512.0;

/// Runs for so many seconds.
///
/// # Errors
///
/// When a record is missing, memory grows, or the broker does not stop cleanly.
pub(super) fn run(seconds: u64) -> Result<()> {
    let scratch = workspace::scratch().join("clients-soak");
    workspace::empty_dir(&scratch)?;
    let (clients, missing) = Installed::all(&workspace::scratch().join("clients"))?;
    let go = clients.iter().find(|client| client.listed.name == "franz-go");
    let go = go.with_context(|| format!("franz-go is missing: {missing:?}"))?;
    let data = scratch.join("data");
    let server = Server::start(&broker::build("dev")?, &data, &scratch.join("broker.log"))?;
    let mut soak = Soak { go, scratch, bootstrap: server.bootstrap(), started: 0, random: 7 };
    let memory_kib = soak.run(&server, Duration::from_secs(seconds))?;
    let acknowledged = soak.check()?;
    let series: Vec<_> = memory_kib.iter().map(|kib| format!("{:.1}", kib / 1024.0)).collect();
    println!(
        "{acknowledged} acknowledged records are there, {} clients were started, {} topics deleted; \
         resident memory in MiB, every {} s: {}",
        soak.started,
        soak.deleted()?,
        seconds / SAMPLES,
        series.join(" ")
    );
    check_bounded(&memory_kib)?;
    server.stop_cleanly(&data)
}

/// That memory grows little once it is warm: the first half of the samples is left out, and the
/// mean of the last quarter is held against that of the third one.
fn check_bounded(memory_kib: &[f64]) -> Result<()> {
    let (_warm_up, rest) = memory_kib.split_at(memory_kib.len() / 2);
    let (third, last) = rest.split_at(rest.len() / 2);
    ensure!(!third.is_empty(), "too few samples of memory");
    let (third, last) = (mean(third), mean(last));
    let bound = third * GROWTH + SLACK_KIB;
    ensure!(last <= bound, "memory grows from {third:.0} KiB to {last:.0}, beyond {bound:.0}");
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    values.iter().sum::<f64>() / f64::from(count)
}

struct Soak<'a> {
    go: &'a Installed,
    scratch: PathBuf,
    bootstrap: String,
    started: usize,
    random: u64,
}

impl Soak<'_> {
    /// Returns the resident memory of the broker over time.
    fn run(&mut self, server: &Server, lasts: Duration) -> Result<Vec<f64>> {
        let mut running = Vec::new();
        for seat in 0..WRITERS + READERS + CHURNERS {
            running.push(self.start(seat)?);
        }
        let (began, mut memory_kib) = (Instant::now(), Vec::new());
        while began.elapsed() < lasts {
            thread::sleep(Duration::from_millis(100));
            let seat = self.random_below(running.len());
            if let Some(client) = running.get_mut(seat) {
                end(client)?;
                *client = self.start(seat)?;
            }
            let samples = u32::try_from(memory_kib.len())? + 1;
            if began.elapsed() * u32::try_from(SAMPLES)? >= lasts * samples {
                memory_kib.push(resident_kib(server.pid())?);
            }
        }
        for client in &mut running {
            end(client)?;
        }
        memory_kib.push(resident_kib(server.pid())?);
        Ok(memory_kib)
    }

    /// Starts the client of a seat anew, under a name of its own.
    fn start(&mut self, seat: usize) -> Result<Child> {
        self.started += 1;
        let name = format!("c{}", self.started);
        let topic = format!("soak-{}", seat % TOPICS);
        let notes = self.scratch.join(format!("{topic}.{name}.acks")).display().to_string();
        // What a killed one leaves behind is deleted by the next on its seat.
        let churned = format!("churn-{seat}");
        let deleted = self.scratch.join(format!("{name}.deleted")).display().to_string();
        let args: Vec<&str> = match seat {
            ..WRITERS => vec![&self.bootstrap, "stream", &topic, &name, &notes],
            seat if seat < WRITERS + READERS => vec![&self.bootstrap, "follow", &topic],
            _ => vec![&self.bootstrap, "churn", &churned, &deleted],
        };
        let mut command = self.go.program(&args);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().context("cannot start a client")
    }

    /// Compares what the clients noted with what the topics hold; returns how much that is.
    fn check(&self) -> Result<usize> {
        let mut noted: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for path in workspace::entries(&self.scratch)? {
            let name = workspace::name(&path);
            if let (Some((topic, _)), true) = (name.split_once('.'), has_ending(&path, "acks")) {
                noted.entry(topic.to_owned()).or_default().push(path);
            }
        }
        let mut count = 0;
        for (topic, paths) in noted {
            let out = workspace::output(&mut self.go.command(&[&self.bootstrap, "dump", &topic]))?;
            let out = String::from_utf8_lossy(&out);
            let held: BTreeSet<_> = out.lines().collect();
            for path in paths {
                let notes = fs::read_to_string(&path).context("cannot read notes")?;
                // A killed client may have written half of its last line.
                let whole = notes.rsplit_once('\n').map_or("", |(whole, _)| whole);
                for value in whole.lines() {
                    ensure!(held.contains(value), "{value} of {topic} is lost");
                    count += 1;
                }
            }
        }
        ensure!(count > 0, "nothing was acknowledged");
        Ok(count)
    }

    /// How many topics the clients know to be deleted.
    fn deleted(&self) -> Result<usize> {
        let mut count = 0;
        for path in workspace::entries(&self.scratch)? {
            if has_ending(&path, "deleted") {
                count += fs::read_to_string(&path).context("cannot read notes")?.lines().count();
            }
        }
        Ok(count)
    }

    /// xorshift64.
    fn random_below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random % u64::try_from(bound).unwrap_or(1)).unwrap_or(0)
    }
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

fn end(client: &mut Child) -> Result<()> {
    client.kill().context("cannot kill a client")?;
    client.wait().context("cannot wait for a client").map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_bounded(samples: impl IntoIterator<Item = f64>) -> bool {
        let kib: Vec<_> = samples.into_iter().map(|mib| mib * 1024.0).collect();
        check_bounded(&kib).is_ok()
    }

    #[test]
    fn memory_that_grows_as_fast_at_the_end_as_before_is_found() {
        let leak = |mib_a_sample: f64| (0..13).map(move |at| 11.0 + mib_a_sample * f64::from(at));
        assert!(!is_bounded(leak(1.0)));
        assert!(!is_bounded(leak(50.0)));
    }

    #[test]
    fn memory_that_stays_is_bounded() {
        assert!(is_bounded((0..13).map(|at| 13.0 + 0.2 * f64::from(at % 3))));
    }

    #[test]
    fn memory_that_grows_while_it_is_warmed_up_is_not_blamed() {
        assert!(is_bounded((0..13).map(|at| f64::from(11 * (1 + at.min(6))))));
        assert!(!is_bounded((0..13).map(|at| if at < 10 { 13.0 } else { 20.0 })));
    }

    #[test]
    fn too_few_samples_prove_nothing() {
        assert!(!is_bounded([]));
        assert!(!is_bounded([11.0, 11.0]));
    }
}
