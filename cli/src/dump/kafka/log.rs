//! `.log` and `.checkpoint` files: a line a batch, and in depth a line a record.

use alluvium_record_format::{
    Batch, BatchHeader, Codec, CorruptKind, Corruption, LegacyEntry, Position, Prefix, Sequence,
    TimestampType,
};

use super::record::{RecordLine, increment_sequence};
use super::report::Report;
use super::{NO_LIMIT, Options};
use crate::console::Console;
use crate::dump::control;
use crate::error::CliError;
use crate::inflate::Inflater;
use crate::log_file::{LogFile, Window};
use crate::resync::{self, Rest};

/// Bytes up to and including the magic byte. A tail that is no longer is not looked at.
const PREFIX_BYTES: u64 = 17;

/// Dumps one log.
pub(super) fn dump(
    file: &LogFile,
    options: &Options,
    report: &mut Report,
    console: &mut Console,
) -> Result<(), CliError> {
    heading(file, console)?;
    let window = Window::new(file, 0, u64::from(options.max_bytes()));
    let lines = Lines { file, options, report, console, last_offset: -1 };
    let mut dump = LogDump { window, inflater: Inflater::default(), lines };
    while dump.step()? {
        dump.lines.console.spill()?;
    }
    dump.trailing_bytes()
}

/// The line that says where the log or snapshot stands.
fn heading(file: &LogFile, console: &mut Console) -> Result<(), CliError> {
    let path = file.path();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = name.split('.').next().unwrap_or_default();
    if name == "bootstrap.checkpoint" {
        console.print(format_args!("KRaft bootstrap snapshot\n"));
    } else if name.ends_with(".checkpoint") {
        let id = number.split_once('-').and_then(|(offset, epoch)| {
            Some((offset.parse::<i64>().ok()?, epoch.parse::<i32>().ok()?))
        });
        let Some((offset, epoch)) = id else {
            return console.damage(path, None, "the name is not that of a snapshot: OFFSET-EPOCH");
        };
        console.print(format_args!("Snapshot end offset: {offset}, epoch: {epoch}\n"));
    } else {
        let Some(offset) = file.base_offset() else {
            return console.damage(path, None, "the name does not begin with an offset");
        };
        console.print(format_args!("Log starting offset: {offset}\n"));
    }
    Ok(())
}

/// A walk over one log by the rules of Kafka's file reader.
struct LogDump<'a, 'f> {
    window: Window<'f>,
    inflater: Inflater,
    lines: Lines<'a, 'f>,
}

impl LogDump<'_, '_> {
    /// Dumps one batch; says whether there may be another.
    fn step(&mut self) -> Result<bool, CliError> {
        if self.window.left() <= PREFIX_BYTES {
            return Ok(false);
        }
        let at = self.window.position();
        let Some(prefix) = self.window.peek(Prefix::LEN)?.first_chunk::<{ Prefix::LEN }>() else {
            return Ok(false);
        };
        let length = i32::from_be_bytes([prefix[8], prefix[9], prefix[10], prefix[11]]);
        if length < Prefix::MIN_LENGTH {
            let damage = Prefix::parse(prefix, position(at)).err();
            return self.skip_damage(damage);
        }
        let size = u64::from(length.unsigned_abs()) + 12;
        let magic = prefix[16].cast_signed();
        if size > self.window.left() {
            return Ok(false);
        }
        let seen = Seen { at, size, magic };
        // Kafka shows the header of a batch that is shorter than its header.
        let need = usize::try_from(size).unwrap_or(usize::MAX).max(BatchHeader::LEN);
        let bytes = self.window.peek(need)?;
        match magic {
            2.. => self.lines.batch(bytes, seen, &mut self.inflater)?,
            _ => self.lines.legacy(bytes, seen, &mut self.inflater)?,
        }
        if size < BatchHeader::LEN as u64 && magic >= 2 && self.lines.options.deep() {
            // Here Kafka's tool dies, so the next batch need not be where this length says.
            let damage = Prefix::parse(self.window.peek(Prefix::LEN)?, position(at)).err();
            return self.skip_damage(damage);
        }
        self.window.advance(size);
        Ok(true)
    }

    /// Names the damage at the window and moves on to the next sound batch, if there is one.
    fn skip_damage(&mut self, damage: Option<Corruption>) -> Result<bool, CliError> {
        let Some(damage) = damage else { return Ok(false) };
        let (kind, byte) = (damage.kind(), u64::from(damage.position().get()));
        let (file, at) = (self.window.file(), self.window.position());
        let left = self.window.left();
        let console = &mut *self.lines.console;
        match resync::next_batch(file, at, self.window.end())? {
            Rest::Batch(next) => {
                let lost = next - at;
                let what = format_args!("{kind}; {lost} bytes are skipped, byte {next} is sound");
                console.damage(file.path(), byte, what)?;
                self.window.advance(lost);
                return Ok(true);
            }
            Rest::Zeros if matches!(kind, CorruptKind::BatchLength { found: 0, .. }) => {
                let what = format_args!("{left} zero bytes up to the end, no batches");
                console.damage(file.path(), at, what)?;
            }
            Rest::Zeros | Rest::Noise => console.damage(file.path(), byte, kind)?,
        }
        Ok(false)
    }

    /// Says how much is left behind the last batch.
    fn trailing_bytes(self) -> Result<(), CliError> {
        let (file, at, left) = (self.window.file(), self.window.position(), self.window.left());
        if left == 0 || self.lines.options.max_bytes() != NO_LIMIT {
            return Ok(());
        }
        let name = file.path().file_name().unwrap_or_default().to_string_lossy();
        let console = self.lines.console;
        console.print(format_args!("Found {left} invalid bytes at the end of {name}\n"));
        console.damage(file.path(), at, format_args!("the last {left} bytes are no whole batch"))
    }
}

/// What the prefix of an entry says.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// First byte in the file.
    at: u64,
    /// Bytes of the entry.
    size: u64,
    magic: i8,
}

fn position(at: u64) -> Position {
    Position::new(u32::try_from(at).unwrap_or(u32::MAX))
}

/// Prints the lines of batches and records.
struct Lines<'a, 'f> {
    file: &'f LogFile,
    options: &'a Options,
    report: &'a mut Report,
    console: &'a mut Console,
    /// Offset of the record before.
    last_offset: i64,
}

impl Lines<'_, '_> {
    /// `bytes` is the entry, or the 61 bytes of a header where the entry is shorter.
    fn batch(&mut self, bytes: &[u8], seen: Seen, inflater: &mut Inflater) -> Result<(), CliError> {
        let at = position(seen.at);
        // Kafka's file reader takes any magic above 1 for 2 and shows headers of impossible
        // lengths, so this one has to see past both. What is wrong is named below.
        let is_short = seen.size < BatchHeader::LEN as u64;
        let mut patched = Vec::new();
        if is_short || seen.magic != 2 {
            patched.extend_from_slice(bytes);
            patched[16] = 2;
        }
        if is_short {
            patched[8..12].copy_from_slice(&BatchHeader::MIN_BATCH_LENGTH.to_be_bytes());
        }
        let readable = if patched.is_empty() { bytes } else { &patched };
        let batch = match Batch::parse(readable, at) {
            Ok(batch) => batch,
            Err(corruption) => return self.damage(corruption),
        };
        let crc = batch.verify_crc();
        print_header(self.console, batch.header(), seen, crc.is_ok() && !is_short);
        if is_short && self.options.deep() {
            return Ok(());
        }
        if let Err(corruption) = Prefix::parse(bytes, at) {
            self.damage(corruption)?;
        }
        if is_short {
            return Ok(());
        }
        if let Err(corruption) = crc {
            self.damage(corruption)?;
        }
        if self.options.deep() { self.records(&batch, inflater) } else { Ok(()) }
    }

    fn legacy(
        &mut self,
        bytes: &[u8],
        seen: Seen,
        inflater: &mut Inflater,
    ) -> Result<(), CliError> {
        let entry = match LegacyEntry::parse(bytes, position(seen.at)) {
            Ok(entry) => entry,
            Err(corruption) => return self.damage(corruption),
        };
        let crc = entry.verify_crc();
        let label = entry.timestamp_type().map_or("NoTimestampType", TimestampType::name);
        let tail = Tail {
            label,
            max_timestamp: entry.timestamp_raw(),
            codec: entry.codec().map_or("unknown", Codec::name),
            crc: entry.crc(),
            is_valid: crc.is_ok(),
        };
        self.console.print(format_args!("offset: {}", entry.offset()));
        print_tail(self.console, seen, &tail);
        if let Err(corruption) = crc {
            self.damage(corruption)?;
        }
        if !self.options.deep() {
            return Ok(());
        }
        let records = match inflater.legacy_records(&entry) {
            Ok(records) => records,
            Err(corruption) => return self.damage(corruption),
        };
        for record in records {
            match record {
                Ok(record) => self.record(&RecordLine::legacy(label, &record), None)?,
                Err(corruption) => return self.damage(corruption),
            }
        }
        Ok(())
    }

    fn records(&mut self, batch: &Batch<'_>, inflater: &mut Inflater) -> Result<(), CliError> {
        let mut records = match inflater.records(batch) {
            Ok(records) => records,
            Err(corruption) => return self.damage(corruption),
        };
        while let Some(record) = records.next_record() {
            match record {
                Ok(record) => {
                    self.record(&RecordLine::new(batch.header(), &record), Some(batch))?;
                }
                Err(corruption) => return self.damage(corruption),
            }
        }
        Ok(())
    }

    fn record(&mut self, line: &RecordLine<'_>, batch: Option<&Batch<'_>>) -> Result<(), CliError> {
        if line.offset != self.last_offset.wrapping_add(1) {
            self.report.gap(self.file.path(), self.last_offset, line.offset);
        }
        self.last_offset = line.offset;
        let control = batch.filter(|batch| batch.header().attributes().is_control());
        if !self.options.skip_record_metadata {
            line.print_metadata(self.console);
            if let Some(batch) = control
                && let Err(kind) = control::print(line.key, line.value, self.console)
            {
                self.console.damage(self.file.path(), u64::from(batch.position().get()), kind)?;
            }
        }
        if self.options.print_data_log && control.is_none() {
            let prefix = if self.options.skip_record_metadata { "| " } else { " " };
            line.print_contents(prefix, self.console);
        }
        self.console.buffer().push(b'\n');
        self.console.spill()
    }

    fn damage(&mut self, corruption: Corruption) -> Result<(), CliError> {
        let at = u64::from(corruption.position().get());
        self.console.damage(self.file.path(), at, corruption.kind())
    }
}

fn print_header(console: &mut Console, header: &BatchHeader, seen: Seen, is_valid: bool) {
    let attributes = header.attributes();
    let base_sequence = header.base_sequence().map_or(-1, Sequence::get);
    let last_sequence = match base_sequence {
        -1 => -1,
        base => increment_sequence(base, header.last_offset_delta()),
    };
    console.print(format_args!(
        "baseOffset: {} lastOffset: {} count: {} baseSequence: {base_sequence} \
         lastSequence: {last_sequence} producerId: {} producerEpoch: {} \
         partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: ",
        header.base_offset(),
        header.last_offset(),
        header.record_count(),
        header.producer_id_raw(),
        header.producer_epoch(),
        header.leader_epoch_raw(),
        attributes.is_transactional(),
        attributes.is_control(),
    ));
    match header.delete_horizon() {
        Some(horizon) => console.print(format_args!("OptionalLong[{horizon}]")),
        None => console.print(format_args!("OptionalLong.empty")),
    }
    let label = attributes.timestamp_type().name();
    let codec = attributes.codec().map_or("unknown", Codec::name);
    print_tail(
        console,
        seen,
        &Tail {
            label,
            max_timestamp: header.max_timestamp_raw(),
            codec,
            crc: header.crc(),
            is_valid,
        },
    );
}

/// What ends the line of a batch, whatever its magic.
struct Tail {
    label: &'static str,
    max_timestamp: i64,
    codec: &'static str,
    crc: u32,
    is_valid: bool,
}

fn print_tail(console: &mut Console, seen: Seen, tail: &Tail) {
    console.print(format_args!(
        " position: {} {}: {} size: {} magic: {} compresscodec: {} crc: {} isvalid: {}\n",
        seen.at,
        tail.label,
        tail.max_timestamp,
        seen.size,
        seen.magic,
        tail.codec,
        tail.crc,
        tail.is_valid,
    ));
}
