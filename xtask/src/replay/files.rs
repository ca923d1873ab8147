//! Compares the directory that a replay left with the one that Kafka left.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use alluvium_record_format::{Batch, Decompressor, Entries, Entry, Offset, Position, Timestamp};
use anyhow::{Context, Result, bail, ensure};

use crate::tally::Tally;

/// The most that a batch may inflate to.
const LIMIT: usize = 64 << 20;

/// What may differ in a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowed {
    /// The bytes of batches, and with them where segments end.
    pub(super) recompressed: bool,
    /// The largest time of a segment: see [`FORGOTTEN`].
    pub(super) forgotten: bool,
}

/// Why a difference is no fault of ours, where a truncation follows a start. `SHORTCOMINGS.md`
/// has it.
pub(super) const FORGOTTEN: &str =
    "Kafka forgets the largest time of a segment whose time index a truncation empties";

/// Checks that both hold the same files with the same content.
pub(super) fn compare(
    name: &str,
    ours: &Path,
    theirs: &Path,
    allowed: Allowed,
    tally: &mut Tally,
) -> Result<()> {
    if allowed.recompressed {
        let at = format!("{name} records of all segments");
        tally.check(&at, same_records(ours, theirs));
        return Ok(());
    }
    let (our_names, their_names) = (names(ours)?, names(theirs)?);
    for file in our_names.union(&their_names) {
        let at = format!("{name} file {file}");
        if allowed.forgotten && is_forgotten(&ours.join(file), &theirs.join(file)) {
            tally.skip(&at, FORGOTTEN);
            continue;
        }
        let result = if !our_names.contains(file) {
            Err(anyhow::anyhow!("Kafka has it, we do not"))
        } else if !their_names.contains(file) {
            Err(anyhow::anyhow!("we have it, Kafka does not"))
        } else {
            same_file(&ours.join(file), &theirs.join(file))
        };
        tally.check(&at, result);
    }
    Ok(())
}

/// Puts copies of other files in the place of all that are in `dir`.
pub(super) fn replace(dir: &Path, with: &Path) -> Result<()> {
    for name in names(dir)? {
        fs::remove_file(dir.join(&name)).with_context(|| format!("cannot remove {name}"))?;
    }
    for name in names(with)? {
        fs::copy(with.join(&name), dir.join(&name))
            .with_context(|| format!("cannot copy {name}"))?;
    }
    Ok(())
}

fn names(dir: &Path) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))? {
        names.insert(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Whether ours is a time index with its final entry, and Kafka's the same without any.
fn is_forgotten(ours: &Path, theirs: &Path) -> bool {
    const ENTRY: u64 = 12;
    let is_index = ours.extension().is_some_and(|it| it == "timeindex");
    let bytes = |path: &Path| fs::metadata(path).map_or(u64::MAX, |file| file.len());
    is_index && bytes(ours) == ENTRY && bytes(theirs) == 0
}

fn same_file(ours: &Path, theirs: &Path) -> Result<()> {
    let (our_bytes, their_bytes) = (read(ours)?, read(theirs)?);
    let extension = ours.extension().unwrap_or_default();
    if extension == "snapshot" {
        ensure!(our_bytes.len() == their_bytes.len(), "snapshots of different sizes");
        ensure!(
            snapshot_entries(&our_bytes) == snapshot_entries(&their_bytes),
            "snapshots with different entries"
        );
        return Ok(());
    }
    if extension.is_empty() {
        let lines = |bytes: &[u8]| -> BTreeSet<String> {
            String::from_utf8_lossy(bytes).lines().map(str::to_owned).collect()
        };
        ensure!(
            lines(&our_bytes) == lines(&their_bytes),
            "ours is {:?}, Kafka's {:?}",
            String::from_utf8_lossy(&our_bytes),
            String::from_utf8_lossy(&their_bytes)
        );
        return Ok(());
    }
    if our_bytes != their_bytes {
        let differs = our_bytes.iter().zip(&their_bytes).position(|(our, their)| our != their);
        let at = differs.unwrap_or(our_bytes.len().min(their_bytes.len()));
        bail!("differs at byte {at}; {} bytes, Kafka's {}", our_bytes.len(), their_bytes.len());
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The entries of a producer snapshot, whose order is not defined.
fn snapshot_entries(bytes: &[u8]) -> BTreeSet<&[u8]> {
    const HEADER: usize = 10;
    const ENTRY: usize = 46;
    bytes.get(HEADER..).unwrap_or_default().chunks(ENTRY).collect()
}

fn same_records(ours: &Path, theirs: &Path) -> Result<()> {
    let (our_records, their_records) = (records(ours)?, records(theirs)?);
    // Segments end elsewhere where batches have other sizes, so each may have dropped another
    // number of old ones: what both still have is compared.
    let from = our_records.first().map(|(offset, _)| *offset);
    let from = from.max(their_records.first().map(|(offset, _)| *offset));
    let kept = |records: Vec<(i64, String)>| {
        records.into_iter().filter(|(offset, _)| Some(*offset) >= from).collect::<Vec<_>>()
    };
    let (our_records, their_records) = (kept(our_records), kept(their_records));
    ensure!(!our_records.is_empty(), "no record is left to compare");
    for (our, their) in our_records.iter().zip(&their_records) {
        ensure!(our == their, "ours {our:?}, Kafka's {their:?}");
    }
    ensure!(
        our_records.len() == their_records.len(),
        "{} records, Kafka's {}",
        our_records.len(),
        their_records.len()
    );
    Ok(())
}

/// Offset and content of every record, with what its batch says of the producer and the codec.
fn records(dir: &Path) -> Result<Vec<(i64, String)>> {
    let mut records = Vec::new();
    let is_log = |name: &String| Path::new(name).extension().is_some_and(|it| it == "log");
    for name in names(dir)?.into_iter().filter(is_log) {
        let bytes = read(&dir.join(name))?;
        for entry in Entries::new(&bytes, Position::new(0)) {
            let Entry::Batch(batch) = entry? else { bail!("a message of an old format") };
            batch.verify_crc()?;
            batch_records(&batch, &mut records)?;
        }
    }
    Ok(records)
}

fn batch_records(batch: &Batch<'_>, records: &mut Vec<(i64, String)>) -> Result<()> {
    let header = batch.header();
    let about = format!(
        "{:?} {:?} {:?} {:?} {:?}",
        header.attributes(),
        header.leader_epoch(),
        header.max_timestamp(),
        header.producer_id(),
        header.base_sequence()
    );
    let mut buffer = Vec::new();
    for record in Decompressor::new().inflate(batch, LIMIT, &mut buffer)? {
        let record = record?;
        let headers: Vec<_> = record.headers().collect();
        let (key, value) = (record.key(), record.value());
        let text = format!("{about} {:?} {key:?} {value:?} {headers:?}", record.timestamp());
        records.push((record.offset().get(), text));
    }
    Ok(())
}

/// Offset and time of every record of some batches, and the offset behind them.
pub(super) fn times(bytes: &[u8]) -> Result<(Vec<(Offset, Timestamp)>, Offset)> {
    let (mut times, mut end) = (Vec::new(), Offset::new(0));
    for entry in Entries::new(bytes, Position::new(0)) {
        let Entry::Batch(batch) = entry? else { bail!("a message of an old format") };
        end = Offset::new(batch.header().last_offset().get() + 1);
        let mut buffer = Vec::new();
        for record in Decompressor::new().inflate(&batch, LIMIT, &mut buffer)? {
            let record = record?;
            times.push((record.offset(), record.timestamp().unwrap_or(Timestamp::new(-1))));
        }
    }
    Ok((times, end))
}
