//! The tables of indexes and snapshots.

use alluvium_record_format::Offset;
use alluvium_recovery::ProducerSnapshot;
use alluvium_sparse_index::{OffsetIndex, TimeIndex, TransactionIndex};

use crate::console::Console;
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::readable::Time;

/// An offset index: where batches lie.
pub(super) fn offsets(file: &LogFile, console: &mut Console) -> Result<(), CliError> {
    let bytes = file.read_index()?;
    let index = OffsetIndex::new(base_offset(file), &bytes);
    let real = index.without_padding();
    title(file, real.len(), index.len() - real.len(), console);
    console.print(format_args!("{:>20}  {:>12}\n", "last offset", "byte of batch"));
    for entry in &real {
        console.print(format_args!("{:>20}  {:>12}\n", entry.offset, entry.position));
        console.spill()?;
    }
    spare(file, index.spare_bytes(), console)
}

/// A time index: the largest time so far, and where it was reached.
pub(super) fn times(file: &LogFile, console: &mut Console) -> Result<(), CliError> {
    let bytes = file.read_index()?;
    let index = TimeIndex::new(base_offset(file), &bytes);
    let real = index.without_padding();
    title(file, real.len(), index.len() - real.len(), console);
    console.print(format_args!("{:<24}  {:>20}\n", "largest time so far", "last offset of batch"));
    for entry in &real {
        console.print(format_args!("{}  {:>20}\n", Time(entry.timestamp.get()), entry.offset));
        console.spill()?;
    }
    spare(file, index.spare_bytes(), console)
}

/// A transaction index: aborted transactions.
pub(super) fn transactions(file: &LogFile, console: &mut Console) -> Result<(), CliError> {
    let bytes = file.read_index()?;
    let index = TransactionIndex::new(base_offset(file), &bytes);
    title(file, index.len(), 0, console);
    let columns = ["producer", "first offset", "abort marker", "last stable offset"];
    let [producer, first, last, stable] = columns;
    console.print(format_args!("{producer:>12}  {first:>20}  {last:>20}  {stable:>20}\n"));
    for txn in &index {
        match txn {
            Ok(txn) => console.print(format_args!(
                "{:>12}  {:>20}  {:>20}  {:>20}\n",
                txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset
            )),
            Err(corruption) => console.corruption(file.path(), corruption)?,
        }
        console.spill()?;
    }
    spare(file, index.spare_bytes(), console)
}

/// A producer snapshot.
pub(super) fn producers(file: &LogFile, console: &mut Console) -> Result<(), CliError> {
    let bytes = file.read_index()?;
    let snapshot = ProducerSnapshot::parse(&bytes);
    let snapshot = match snapshot.and_then(|found| found.verify_crc().map(|()| found)) {
        Ok(snapshot) => snapshot,
        Err(damage) => {
            let at = u64::from(damage.position().get());
            return console.damage(file.path(), at, damage.kind());
        }
    };
    title(file, snapshot.entries().len(), 0, console);
    console.print(format_args!(
        "{:>12}  {:>5}  {:<24}  {:>12}  {:>20}  open since offset\n",
        "producer", "epoch", "last time", "sequence", "last offset"
    ));
    for entry in snapshot.entries() {
        let last = entry.last_batch();
        let text = |number: Option<i64>| number.map_or_else(|| "-".into(), |n| n.to_string());
        console.print(format_args!(
            "{:>12}  {:>5}  {:<24}  {:>12}  {:>20}  {}\n",
            entry.producer_id(),
            entry.producer_epoch(),
            Time(entry.last_timestamp().get()),
            text(last.map(|batch| batch.last_sequence.get().into())),
            text(last.map(|batch| batch.last_offset.get())),
            text(entry.current_txn_first_offset().map(Offset::get)),
        ));
        console.spill()?;
    }
    Ok(())
}

fn title(file: &LogFile, entries: usize, padding: usize, console: &mut Console) {
    let bold = console.style(anstyle::Style::new().bold());
    console.print(format_args!("{bold}{}{bold:#}  {entries} entries", file.path().display()));
    if padding > 0 {
        console.print(format_args!(", {padding} slots of zero padding"));
    }
    console.buffer().push(b'\n');
}

fn spare(file: &LogFile, count: usize, console: &mut Console) -> Result<(), CliError> {
    if count == 0 {
        return Ok(());
    }
    let at = file.len().saturating_sub(count as u64);
    let what = format_args!("{count} spare bytes behind the last whole entry");
    console.damage(file.path(), at, what)
}

/// The base offset of the segment, 0 where the name has none.
fn base_offset(file: &LogFile) -> Offset {
    file.base_offset().unwrap_or_default()
}
