//! Prints what was found.

use std::path::Path;

use alluvium_record_format::Timestamp;
use anstyle::Style;
use serde_json::{Value, json};

use super::Target;
use super::find::Found;
use crate::console::Console;
use crate::preview::Preview;
use crate::readable::{Bytes, Time};

/// One JSON object a line. `offset` and `found_timestamp` are null where there is no record.
pub(super) fn json(target: Target, found: Option<&Found>, console: &mut Console) {
    let (key, raw) = match target {
        Target::Offset(offset) => ("target_offset", offset.get()),
        Target::Timestamp(timestamp) => ("timestamp", timestamp.get()),
    };
    let mut object = json!({ key: raw, "offset": Value::Null, "found_timestamp": Value::Null });
    if let Some(found) = found {
        object["offset"] = found.record.offset.get().into();
        object["found_timestamp"] = found.record.timestamp.map_or(-1, Timestamp::get).into();
        object["log"] = found.log.display().to_string().into();
        object["time_index_entry"] = found.time_entry.map_or(
            Value::Null,
            |entry| json!({ "timestamp": entry.timestamp.get(), "offset": entry.offset.get() }),
        );
        object["index_entry"] = found.index_entry.map_or(
            Value::Null,
            |entry| json!({ "offset": entry.offset.get(), "position": entry.position.get() }),
        );
        object["scan_start"] = found.start.into();
        object["scanned_bytes"] = found.scanned.into();
        object["batch_position"] = found.batch.into();
        object["key_bytes"] = found.record.key.as_ref().map_or(Value::Null, |key| key.len().into());
        object["value_bytes"] =
            found.record.value.as_ref().map_or(Value::Null, |value| value.len().into());
    }
    console.print(format_args!("{object}\n"));
}

/// A few lines for people.
pub(super) fn text(
    target: Target,
    found: Option<&Found>,
    stopped_at: Option<&Path>,
    console: &mut Console,
) {
    let bold = console.style(Style::new().bold());
    match target {
        Target::Offset(offset) => console.print(format_args!("{bold}offset {offset}{bold:#}\n")),
        Target::Timestamp(timestamp) => {
            let time = Time(timestamp.get());
            console.print(format_args!("{bold}time {time} ({timestamp}){bold:#}\n"));
        }
    }
    let Some(found) = found else {
        if let Some(log) = stopped_at {
            return console.print(format_args!(
                "  no record: {} has no timestamps and a later file time,\n  \
                 and there a broker's search ends, too\n",
                log.display()
            ));
        }
        return console.print(format_args!("  no record there or later\n"));
    };
    let record = &found.record;
    let time = Time(record.timestamp.map_or(-1, Timestamp::get));
    console.print(format_args!("  record       offset {}, {time}\n", record.offset));
    let preview = |bytes: &'_ Option<Vec<u8>>| Preview::new(bytes.as_deref(), 60).to_string();
    let (key, value) = (preview(&record.key), preview(&record.value));
    console.print(format_args!("               {key} = {value}\n"));
    console.print(format_args!("  log          {}\n", found.log.display()));
    if let Some(entry) = found.time_entry {
        let time = Time(entry.timestamp.get());
        console.print(format_args!("  time index   {time} reached at offset {}\n", entry.offset));
    }
    match found.index_entry {
        Some(entry) => console.print(format_args!(
            "  index        offset {} is in the batch at byte {}\n",
            entry.offset, entry.position
        )),
        None => console.print(format_args!("  index        no entry below it\n")),
    }
    console.print(format_args!(
        "  scanned      {} from byte {}; its batch begins at byte {}\n",
        Bytes(found.scanned),
        found.start,
        found.batch
    ));
}
