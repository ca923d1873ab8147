//! A whole log directory: written through real clients, stopped, killed, recovered.

use std::fs::{self, File};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::kafka::{Broker, DumpTool, Kafka, copy_tree};
use crate::workspace::{self, entries, name};

/// The partitions that are written to once more before the broker is killed.
const KILLED: [&str; 5] =
    ["append-time-0", "by-time-0", "codec-zstd-0", "plain-0", "transactions-0"];

/// What a crash in the middle of a write takes off the last log of these.
const TORN: [&str; 2] = ["plain-0", "transactions-0"];
const TORN_BYTES: u64 = 17;

/// Makes a disk under `work/disk`: `clean/`, `dump/`, `view/`, `unclean/`, `recovered/`,
/// `view-recovered/`.
///
/// # Errors
///
/// When a broker or a client fails.
pub(crate) fn make(kafka: &Kafka, seed: u64, work: &Path) -> Result<()> {
    let (data, disk) = (work.join("data"), work.join("disk"));
    fs::create_dir_all(&disk).with_context(|| format!("cannot make {}", disk.display()))?;

    let broker = Broker::start(kafka, &data, &work.join("broker-1.log"), "")?;
    write(kafka, &broker, seed, "first")?;
    wait_for_the_cleaner(&data)?;
    view(kafka, &broker, &disk.join("view"))?;
    broker.stop()?;
    copy_tree(&data, &disk.join("clean"))?;

    let broker = Broker::start(kafka, &data, &work.join("broker-2.log"), "")?;
    write(kafka, &broker, seed, "second")?;
    broker.kill()?;
    for partition in TORN {
        tear(&data.join(partition))?;
    }
    keep_some(&data, &disk.join("unclean"))?;

    let broker = Broker::start(kafka, &data, &work.join("broker-3.log"), "")?;
    let all = work.join("view-3");
    view(kafka, &broker, &all)?;
    broker.stop()?;
    keep_some(&data, &disk.join("recovered"))?;
    keep_views(&all, &disk.join("view-recovered"))?;
    dump(kafka, &disk)
}

fn write(kafka: &Kafka, broker: &Broker, seed: u64, phase: &str) -> Result<()> {
    let mut java = kafka.java("harness.Topics");
    workspace::run(java.args([&broker.bootstrap(), &seed.to_string(), phase]))
}

fn view(kafka: &Kafka, broker: &Broker, out: &Path) -> Result<()> {
    workspace::run(kafka.java("harness.View").arg(broker.bootstrap()).arg(out))
}

/// The cleaner works in the background; it has been there once its checkpoint names the topic.
fn wait_for_the_cleaner(data: &Path) -> Result<()> {
    let checkpoint = data.join("cleaner-offset-checkpoint");
    let start = Instant::now();
    loop {
        let text = fs::read_to_string(&checkpoint).unwrap_or_default();
        let cleaned = |line: &str| line.strip_prefix("compacted 0 ").is_some_and(|end| end != "0");
        if text.lines().any(cleaned) {
            return Ok(());
        }
        ensure!(start.elapsed() < Duration::from_mins(1), "the cleaner has not come by");
        thread::sleep(Duration::from_millis(200));
    }
}

/// Cuts the last log of a partition short.
fn tear(partition: &Path) -> Result<()> {
    let mut logs = entries(partition)?.into_iter().filter(|path| has_extension(path, &["log"]));
    let last = logs.next_back().context("the partition has a log")?;
    let file = File::options().write(true).open(&last);
    let file = file.with_context(|| format!("cannot open {}", last.display()))?;
    let bytes = file.metadata().context("cannot see the size of a log")?.len();
    file.set_len(bytes.saturating_sub(TORN_BYTES)).context("cannot cut a log")
}

fn keep_some(data: &Path, to: &Path) -> Result<()> {
    for partition in KILLED {
        copy_tree(&data.join(partition), &to.join(partition))?;
    }
    for path in entries(data)? {
        let file = name(&path);
        if file.ends_with("checkpoint") || file == "meta.properties" {
            fs::copy(&path, to.join(&file)).with_context(|| format!("cannot copy {file}"))?;
        }
    }
    Ok(())
}

fn keep_views(all: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for path in entries(all)? {
        let file = name(&path);
        if KILLED.iter().any(|partition| file.starts_with(&format!("{partition}."))) {
            fs::copy(&path, to.join(&file)).with_context(|| format!("cannot copy {file}"))?;
        }
    }
    Ok(())
}

/// Writes what Kafka's dump tool prints for every file of `clean/`.
fn dump(kafka: &Kafka, disk: &Path) -> Result<()> {
    let (clean, texts) = (disk.join("clean"), disk.join("dump"));
    fs::create_dir_all(&texts).with_context(|| format!("cannot make {}", texts.display()))?;
    let mut tool = DumpTool::start(kafka, &clean)?;
    for partition in entries(&clean)?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&partition)? {
            if !has_extension(&path, &["log", "index", "timeindex", "txnindex", "snapshot"]) {
                continue;
            }
            let (partition, file) = (name(&partition), name(&path));
            let printed = tool.run(&["--deep-iteration"], &format!("{partition}/{file}"))?;
            let text = texts.join(format!("{partition}.{file}.txt"));
            fs::write(&text, printed.stdout)
                .with_context(|| format!("cannot write {}", text.display()))?;
        }
    }
    Ok(())
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().unwrap_or_default();
    extensions.iter().any(|known| extension == *known)
}
