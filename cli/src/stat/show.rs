//! Prints what was measured.

use alluvium_record_format::Timestamp;
use anstyle::Style;
use serde_json::{Map, Value, json};

use super::StatArgs;
use super::measure::PartitionStat;
use crate::console::Console;
use crate::readable::{Bytes, Count, Time};

/// One partition.
pub(super) fn partition(name: &str, stat: &PartitionStat, args: &StatArgs, console: &mut Console) {
    if args.json {
        let mut object = object(stat, args.quick);
        object.insert("partition".into(), name.into());
        object.insert("log_start_offset".into(), stat.log_start.get().into());
        object.insert("log_end_offset".into(), stat.log_end.get().into());
        let open = stat.open_txns.iter();
        let open = open.map(|(id, first)| json!({"producer": id.get(), "since": first.get()}));
        object.insert("open_transactions".into(), open.collect());
        if let Some(range) = &stat.cleaning {
            object.insert("first_dirty_offset".into(), range.first_dirty.get().into());
            object.insert("cleanable_bytes".into(), range.cleanable_bytes.into());
            object.insert("dirty_ratio".into(), range.dirty_ratio().into());
        }
        return console.print(format_args!("{}\n", Value::Object(object)));
    }
    title(name, console);
    console.print(format_args!("  offsets     {} to {}\n", stat.log_start, stat.log_end));
    numbers(stat, args.quick, console);
    if let Some(range) = &stat.cleaning {
        let (from, to) = (range.first_dirty, range.first_uncleanable);
        match range.dirty_ratio().filter(|_| from < to) {
            Some(ratio) => console.print(format_args!(
                "  dirty       {ratio:.2} of what can be cleaned, from {from} to {to}\n"
            )),
            None => console.print(format_args!("  dirty       nothing, clean up to {from}\n")),
        }
    }
    for (producer, first) in &stat.open_txns {
        console.print(format_args!(
            "  open        a transaction of producer {producer}, since offset {first}\n"
        ));
    }
}

/// All partitions.
pub(super) fn total(count: usize, stat: &PartitionStat, args: &StatArgs, console: &mut Console) {
    if args.json {
        let mut object = object(stat, args.quick);
        object.insert("partitions".into(), count.into());
        object.insert("open_transactions".into(), stat.open_txns.len().into());
        return console.print(format_args!("{}\n", json!({ "total": object })));
    }
    title(&Count(count as u64, "partition").to_string(), console);
    numbers(stat, args.quick, console);
}

fn title(name: &str, console: &mut Console) {
    let bold = console.style(Style::new().bold());
    console.print(format_args!("{bold}{name}{bold:#}\n"));
}

fn numbers(stat: &PartitionStat, is_quick: bool, console: &mut Console) {
    console.print(format_args!(
        "  segments    {}: {} of logs, {} of indexes and snapshots\n",
        stat.segments,
        Bytes(stat.log_bytes),
        Bytes(stat.other_bytes)
    ));
    let batches = Count(stat.batches, "batch");
    console.print(format_args!("  records     {} in {batches}\n", stat.records));
    if !is_quick && stat.tombstones > 0 {
        console.print(format_args!("  tombstones  {}\n", stat.tombstones));
    }
    if let (Some(earliest), Some(latest)) = (stat.earliest, stat.latest) {
        let (earliest, latest) = (Time(earliest.get()), Time(latest.get()));
        console.print(format_args!("  times       {earliest} to {latest}\n"));
    }
    for (name, codec) in &stat.codecs {
        console.print(format_args!(
            "  codec       {name}: {}, {} of payload",
            Count(codec.batches, "batch"),
            Bytes(codec.stored)
        ));
        if let Some(ratio) = ratio(name, codec.stored, codec.inflated) {
            console.print(format_args!(", {ratio:.2} times that inflated"));
        }
        console.buffer().push(b'\n');
    }
    console.print(format_args!("  producers   {}\n", stat.producers.len()));
    if let Some(spacing) = stat.log_bytes.checked_div(stat.index_entries) {
        console.print(format_args!("  index       an entry for each {}\n", Bytes(spacing)));
    }
    if stat.damage > 0 {
        let places = Count(stat.damage, "place");
        console.print(format_args!("  damage      {places}: see alluvium verify\n"));
    }
}

fn object(stat: &PartitionStat, is_quick: bool) -> Map<String, Value> {
    let time = |time: Option<Timestamp>| time.map(Timestamp::get);
    let codecs: Map<String, Value> = stat
        .codecs
        .iter()
        .map(|(name, codec)| {
            let ratio = ratio(name, codec.stored, codec.inflated);
            let value = json!({
                "batches": codec.batches, "payload_bytes": codec.stored,
                "inflated_bytes": ratio.map(|_| codec.inflated), "ratio": ratio,
            });
            ((*name).to_owned(), value)
        })
        .collect();
    let object = json!({
        "segments": stat.segments, "bytes": stat.log_bytes, "other_bytes": stat.other_bytes,
        "batches": stat.batches, "records": stat.records,
        "tombstones": (!is_quick).then_some(stat.tombstones),
        "earliest": time(stat.earliest), "latest": time(stat.latest), "codecs": codecs,
        "producers": stat.producers.len(), "index_entries": stat.index_entries,
        "bytes_per_index_entry": stat.log_bytes.checked_div(stat.index_entries),
        "damage": stat.damage,
    });
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// How much larger payloads are once inflated; `None` where they were not inflated.
#[expect(clippy::cast_precision_loss, reason = "shown with two decimals")]
fn ratio(codec: &str, stored: u64, inflated: u64) -> Option<f64> {
    let is_known = codec != "none" && stored > 0 && inflated > 0;
    is_known.then(|| inflated as f64 / stored as f64)
}
