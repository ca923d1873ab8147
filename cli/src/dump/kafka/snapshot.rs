//! `.snapshot` files: a line a producer.

use alluvium_recovery::{DamageKind, ProducerSnapshot, SnapshotEntry};

use super::index::IndexDump;
use crate::console::Console;
use crate::error::CliError;

impl IndexDump<'_, '_> {
    /// Dumps a producer snapshot. Of a damaged one nothing is shown, as in Kafka.
    pub(super) fn snapshot(&mut self) -> Result<(), CliError> {
        let bytes = self.file.read_index()?;
        let checked = ProducerSnapshot::parse(&bytes)
            .and_then(|snapshot| snapshot.verify_crc().map(|()| snapshot));
        let snapshot = match checked {
            Ok(snapshot) => snapshot,
            Err(damage) => {
                let at = u64::from(damage.position().get());
                return match damage.kind() {
                    DamageKind::Crc { stored, computed, .. } => {
                        let what = format_args!(
                            "Snapshot is corrupt (CRC is no longer valid). \
                             Stored crc: {stored}. Computed crc: {computed}"
                        );
                        self.console.damage(self.file.path(), at, what)
                    }
                    kind => self.console.damage(self.file.path(), at, kind),
                };
            }
        };
        for entry in snapshot.entries() {
            print_entry(entry, self.console);
            self.console.spill()?;
        }
        Ok(())
    }
}

fn print_entry(entry: &SnapshotEntry, console: &mut Console) {
    console.print(format_args!(
        "producerId: {} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: ",
        entry.producer_id(),
        entry.producer_epoch(),
        entry.coordinator_epoch().unwrap_or(-1),
    ));
    match entry.current_txn_first_offset() {
        Some(offset) => console.print(format_args!("OptionalLong[{offset}]")),
        None => console.print(format_args!("OptionalLong.empty")),
    }
    console.print(format_args!(" lastTimestamp: {}", entry.last_timestamp()));
    if let Some(batch) = entry.last_batch() {
        console.print(format_args!(
            " firstSequence: {} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {}",
            batch.first_sequence(),
            batch.last_sequence,
            batch.last_offset,
            batch.offset_delta,
            batch.timestamp,
        ));
    }
    console.buffer().push(b'\n');
}
