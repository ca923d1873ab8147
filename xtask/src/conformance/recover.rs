//! A disk after a kill: opened, recovered and closed by our log, it holds what Kafka left when it
//! did the same, and a consumer sees the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use alluvium_log_manager::{Inline, Log, LogConfig, ManualClock};
use alluvium_record_format::{Entries, Entry, Offset, Position, Timestamp};
use alluvium_recovery::{CheckpointKind, OffsetCheckpoint, TopicPartition};
use alluvium_segment::{DirLock, FilePool, Io};
use anyhow::{Context, Result, anyhow, ensure};

use super::binary::Alluvium;
use super::coordinator;
use super::topics::Topics;
use super::view;
use crate::kafka::copy_tree;
use crate::tally::{Tally, same_bytes};
use crate::workspace::{self, entries, name};

/// Recovers a copy of `unclean/` and compares it with `recovered/` and `view-recovered/`.
pub(super) fn check(
    alluvium: &Alluvium,
    dir: &Path,
    topics: &Topics,
    tally: &mut Tally,
) -> Result<()> {
    let copy = workspace::scratch().join("recovering");
    workspace::empty_dir(&copy)?;
    copy_tree(&dir.join("unclean"), &copy)?;
    let theirs = dir.join("recovered");
    recover_all(&copy, &dir.join("unclean"), &theirs, topics, tally)?;
    for partition in entries(&theirs)?.into_iter().filter(|path| path.is_dir()) {
        let ours = copy.join(name(&partition));
        compare_files(&ours, &partition, tally)?;
        let epochs = format!("recovered {}/leader-epoch-checkpoint", name(&partition));
        tally.check(&epochs, compare_epochs(&ours, &partition));
    }
    let views = dir.join("view-recovered");
    if views.is_dir() {
        view::check(alluvium, &copy, &views, tally)?;
    }
    Ok(())
}

/// Opens every partition of a copy of `unclean` as after a crash, appends what a coordinator of
/// Kafka's did then, and closes it cleanly. The clock stands where the last record was written:
/// producers whose last record is older than a day are forgotten.
fn recover_all(
    disk: &Path,
    unclean: &Path,
    theirs: &Path,
    topics: &Topics,
    tally: &mut Tally,
) -> Result<()> {
    let lock = DirLock::acquire(disk).context("cannot lock the copy")?;
    let pool = FilePool::new(100);
    let clock = Arc::new(ManualClock::new(last_written(disk)?));
    let recovery_points = OffsetCheckpoint::read(&Io::new(), CheckpointKind::RecoveryPoint, disk)?;
    let starts = OffsetCheckpoint::read(&Io::new(), CheckpointKind::LogStart, disk)?;
    for partition in entries(disk)?.into_iter().filter(|path| path.is_dir()) {
        let text = name(&partition);
        let Some((topic, number)) = text.rsplit_once('-') else { continue };
        let key = TopicPartition::new(topic, number.parse().context("a partition is a number")?);
        let start = Offset::new(0);
        let options = Log::options()
            .config(LogConfig::from_properties(topics.of(&text))?)
            .clean(false)
            .recovery_point(recovery_points.offset(&key).unwrap_or(start))
            .log_start_offset(starts.offset(&key).unwrap_or(start))
            .clock(Arc::clone(&clock) as Arc<_>)
            .background(Arc::new(Inline::default()))
            .lock(lock.clone())
            .pool(Arc::clone(&pool));
        let recovered = options.open(&partition).map_err(anyhow::Error::from).and_then(|log| {
            go_on(&log, &partition, &theirs.join(&text), &unclean.join(&text))?;
            Ok(log.close()?)
        });
        tally.check(&format!("recovery of {text}"), recovered.map(drop));
    }
    Ok(())
}

/// Appends the markers that a coordinator of Kafka's appended after its recovery, where that is all
/// that its active segment holds more than ours.
fn go_on(log: &Log, ours: &Path, theirs: &Path, unclean: &Path) -> Result<()> {
    let Some((base, _)) = log.segments().last().copied() else { return Ok(()) };
    let read = |dir: &Path| fs::read(dir.join(format!("{base:020}.log", base = base.get())));
    let (Ok(our), Ok(their)) = (read(ours), read(theirs)) else { return Ok(()) };
    // The segment may be new.
    let before = read(unclean).unwrap_or_default();
    let (latest, end) = (log.latest_epoch(), log.log_end_offset());
    let markers = coordinator::appended(&our, &their, &before, latest, end);
    for entry in Entries::new(markers, Position::new(0)) {
        let Entry::Batch(batch) = entry? else { continue };
        let epoch = batch.header().leader_epoch().context("a marker has an epoch")?;
        log.append_as_follower(batch.bytes(), epoch)?;
    }
    Ok(())
}

/// The largest timestamp of any batch.
fn last_written(disk: &Path) -> Result<Timestamp> {
    let mut last = Timestamp::new(0);
    for partition in entries(disk)?.into_iter().filter(|path| path.is_dir()) {
        for log in entries(&partition)?.iter().filter(|path| kind(path) == "log") {
            let bytes = fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
            // A torn tail ends the walk.
            for entry in Entries::new(&bytes, Position::new(0)).map_while(Result::ok) {
                if let Entry::Batch(batch) = entry {
                    last = last.max(batch.header().max_timestamp().unwrap_or(last));
                }
            }
        }
    }
    Ok(last)
}

/// Logs and indexes are the same bytes, and so is the newest snapshot, whose entries may stand in
/// another order.
fn compare_files(ours: &Path, theirs: &Path, tally: &mut Tally) -> Result<()> {
    let (our_files, their_files) = (kept(ours)?, kept(theirs)?);
    let names: BTreeSet<&String> = our_files.keys().chain(their_files.keys()).collect();
    for file in names {
        let what = format!("recovered {}/{file}", name(theirs));
        let result = match (our_files.get(file), their_files.get(file)) {
            (Some(our), Some(their)) => compare_file(our, their),
            (Some(_), None) => Err(anyhow!("ours alone")),
            (None, _) => Err(anyhow!("Kafka's alone")),
        };
        tally.check(&what, result);
    }
    Ok(())
}

/// The files to compare, by name: logs, indexes, and of the snapshots the newest.
fn kept(dir: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut newest = None;
    for path in entries(dir)? {
        match kind(&path).as_str() {
            "log" | "index" | "timeindex" | "txnindex" => {
                files.insert(name(&path), path);
            }
            // In order of name, which is the order of offsets.
            "snapshot" => newest = Some(path),
            _ => {}
        }
    }
    files.extend(newest.map(|path| (name(&path), path)));
    Ok(files)
}

fn kind(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().into_owned()
}

fn compare_file(ours: &Path, theirs: &Path) -> Result<()> {
    let read = |path: &Path| fs::read(path).with_context(|| format!("no {}", path.display()));
    let (our, their) = (read(ours)?, read(theirs)?);
    if kind(ours) != "snapshot" {
        return same_bytes(&our, &their);
    }
    let entries = |path: &Path| -> Result<BTreeSet<String>> {
        let entries = alluvium_recovery::read_snapshot(&Io::new(), path)?;
        Ok(entries.iter().map(|entry| format!("{entry:?}")).collect())
    };
    let (our, their) = (entries(ours)?, entries(theirs)?);
    let differ = our.symmetric_difference(&their).next();
    ensure!(
        differ.is_none(),
        "{} and {} entries, {}",
        our.len(),
        their.len(),
        differ.cloned().unwrap_or_default()
    );
    Ok(())
}

/// Kafka's file may have one line more: the broker became leader again.
fn compare_epochs(ours: &Path, theirs: &Path) -> Result<()> {
    let (our, their) = (
        alluvium_recovery::read_epochs(&Io::new(), ours)?,
        alluvium_recovery::read_epochs(&Io::new(), theirs)?,
    );
    ensure!(their.starts_with(&our), "ours {our:?}, Kafka's {their:?}");
    ensure!(their.len() <= our.len() + 1, "ours {our:?}, Kafka's {their:?}");
    Ok(())
}
