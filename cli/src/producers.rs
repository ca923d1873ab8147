//! `alluvium producers`: who wrote to a partition, and which transactions are open.

use std::ops::ControlFlow;
use std::path::PathBuf;

use alluvium_log_manager::{Clock, SystemClock};
use alluvium_record_format::Offset;
use alluvium_recovery::{LoadConfig, ProducerEntry, plan};
use alluvium_segment::{FilePool, PartitionDir};
use clap::Args;
use serde_json::json;

use crate::console::Console;
use crate::data_dir::partition_paths;
use crate::each::each;
use crate::error::CliError;
use crate::readable::Time;

/// List the producers of partitions as the broker knows them after a start
///
/// From the newest producer snapshot and the batches behind it: epoch, last sequence, last
/// offset, and where an open transaction began. An open transaction holds back
/// `read_committed` consumers, and the cleaner.
#[derive(Args, Debug)]
pub(crate) struct ProducersArgs {
    /// Partition or log directory
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Only producers with an open transaction
    #[arg(long)]
    open: bool,

    /// Print a JSON object a line
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ProducersArgs, console: &mut Console) -> Result<(), CliError> {
    let mut is_empty = true;
    each(&partition_paths(&args.dir)?, console, |partition, console| {
        let dir = PartitionDir::read_only(&partition.path, &FilePool::for_this_process());
        let log_start = partition.log_start(console)?;
        let config = LoadConfig::new(SystemClock::default().now())
            .clean_shutdown(true)
            .log_start_offset(log_start)
            .recovery_point(Offset::MAX);
        let loaded = plan(&dir, &config, &mut |_| ControlFlow::Continue(()));
        let loaded = loaded.map_err(|source| CliError::Load { source })?;
        let mut producers: Vec<_> = loaded.producers().producers().collect();
        producers.retain(|entry| !args.open || entry.current_txn_first_offset.is_some());
        producers.sort_by_key(|entry| entry.producer_id);
        let name = partition.path.display().to_string();
        if !args.json && !producers.is_empty() {
            console.print(format_args!(
                "{name}\n  {:>12}  {:>5}  {:<24}  {:>12}  {:>20}  transaction open since\n",
                "producer", "epoch", "last time", "sequence", "last offset"
            ));
        }
        is_empty &= producers.is_empty();
        for entry in producers {
            if args.json {
                json(&name, entry, console);
            } else {
                text(entry, console);
            }
            console.spill()?;
        }
        Ok(())
    })?;
    if is_empty && !args.json {
        let what = if args.open { "no open transaction" } else { "no producers" };
        console.print(format_args!("{what}\n"));
    }
    Ok(())
}

fn json(partition: &str, entry: &ProducerEntry, console: &mut Console) {
    let last = entry.last_batch();
    let object = json!({
        "partition": partition,
        "producer": entry.producer_id.get(),
        "epoch": entry.producer_epoch.get(),
        "coordinator_epoch": entry.coordinator_epoch,
        "last_timestamp": entry.last_timestamp.get(),
        "last_sequence": last.map(|batch| batch.last_sequence.get()),
        "last_offset": last.map(|batch| batch.last_offset.get()),
        "open_since": entry.current_txn_first_offset.map(Offset::get),
    });
    console.print(format_args!("{object}\n"));
}

fn text(entry: &ProducerEntry, console: &mut Console) {
    let last = entry.last_batch();
    let number = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    console.print(format_args!(
        "  {:>12}  {:>5}  {:<24}  {:>12}  {:>20}  {}\n",
        entry.producer_id,
        entry.producer_epoch,
        Time(entry.last_timestamp.get()),
        number(last.map(|batch| batch.last_sequence.get().into())),
        number(last.map(|batch| batch.last_offset.get())),
        number(entry.current_txn_first_offset.map(Offset::get)),
    ));
}
