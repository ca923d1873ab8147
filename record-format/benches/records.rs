//! Reading records against the least that could be done, in turns within one process.
//!
//! Each line is the median of the ratios of many rounds; the twin against itself shows the
//! noise. Run: `cargo bench -p alluvium-record-format --bench records`.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::hint::black_box;
use std::time::Instant;

use alluvium_record_format::{
    Batch, BatchBuilder, BatchSettings, Header, Offset, Position, SimpleRecord, Timestamp, crc32c,
};
use integer_encoding::VarInt;

/// Rounds whose median counts.
const ROUNDS: usize = 1001;
/// Batches that one slice reads: about 1 MiB.
const BATCHES: usize = 64;
/// Records in a batch of about 16 KiB.
const RECORDS: usize = 150;

fn main() {
    let plain = Batches::build(false);
    let full = Batches::build(true);
    for (name, batches) in [("100-byte value", &plain), ("key, value, 2 headers", &full)] {
        println!("{name}: {} bytes, {} records", batches.bytes.len(), BATCHES * RECORDS);
        let views = batches.views();
        let payloads: Vec<_> = views.iter().map(Batch::payload).collect();
        let mut twin = || skip(&payloads);
        compare("iterate / skip", || iterate(&views), &mut twin);
        compare("keys / skip", || keys(&views), &mut twin);
        compare("check / skip", || check(&views), &mut twin);
        compare("skip / skip", || skip(&payloads), &mut twin);
        compare("integer-encoding / skip", || with_integer_encoding(&payloads), &mut twin);
    }
    let views = plain.views();
    compare("headers and crc / crc", || walk(&plain.bytes), &mut || {
        u64::from(crc32c(&plain.bytes))
    });
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
    let mut copy = Vec::new();
    compare("build / copy", || build(&mut builder, &views), &mut || {
        copy.clear();
        copy.extend_from_slice(&plain.bytes);
        copy.len() as u64
    });
}

/// Batches in one buffer.
struct Batches {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Batches {
    fn build(full: bool) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let value = [b'v'; 100];
        let headers = [Header::new(b"trace", Some(b"0123456789abcdef")), Header::new(b"n", None)];
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
        for batch in 0..BATCHES {
            let first = i64::try_from(batch * RECORDS).unwrap();
            builder.reset(BatchSettings::new(Offset::new(first)));
            for index in 0..RECORDS {
                let time = 1_750_000_000_000 + first + i64::try_from(index * 7 % 40).unwrap();
                let key = format!("key-{:06}", index * 31);
                let mut record = SimpleRecord::new().timestamp(Timestamp::new(time));
                if full {
                    record = record.key(key.as_bytes()).value(&value[..60]).headers(&headers);
                } else {
                    record = record.value(&value);
                }
                builder.append(&record).unwrap();
            }
            bytes.extend_from_slice(builder.finish().unwrap());
            ends.push(bytes.len());
        }
        Self { bytes, ends }
    }

    fn views(&self) -> Vec<Batch<'_>> {
        let mut start = 0;
        let view = |end: &usize| {
            let batch = Batch::parse(&self.bytes[start..*end], Position::new(0)).unwrap();
            start = *end;
            batch
        };
        self.ends.iter().map(view).collect()
    }
}

fn iterate(batches: &[Batch<'_>]) -> u64 {
    let mut sum = 0_u64;
    for batch in batches {
        for record in batch.records().unwrap() {
            let record = record.unwrap();
            let bytes = record.value().map_or(0, <[u8]>::len);
            sum = sum.wrapping_add(record.offset().get().unsigned_abs() + bytes as u64);
        }
    }
    sum
}

fn keys(batches: &[Batch<'_>]) -> u64 {
    let mut sum = 0_u64;
    for batch in batches {
        for key in batch.records().unwrap().keys() {
            let key = key.unwrap();
            let bytes = key.key().map_or(0, <[u8]>::len);
            sum = sum.wrapping_add(key.offset().get().unsigned_abs() + bytes as u64);
        }
    }
    sum
}

fn check(batches: &[Batch<'_>]) -> u64 {
    batches
        .iter()
        .map(|batch| u64::from(batch.records().unwrap().check().unwrap().record_count))
        .sum()
}

fn walk(mut bytes: &[u8]) -> u64 {
    let mut count = 0;
    while !bytes.is_empty() {
        let batch = Batch::parse(bytes, Position::new(0)).unwrap();
        batch.verify_crc().unwrap();
        bytes = &bytes[batch.bytes().len()..];
        count += 1;
    }
    count
}

fn build(builder: &mut BatchBuilder, batches: &[Batch<'_>]) -> u64 {
    let mut sum = 0;
    for batch in batches {
        builder.reset(BatchSettings::of(batch.header()));
        for record in batch.records().unwrap() {
            builder.append_record(&record.unwrap()).unwrap();
        }
        sum += builder.finish().unwrap().len() as u64;
    }
    sum
}

/// The least that finds every record: reads each length and jumps.
fn skip(payloads: &[&[u8]]) -> u64 {
    let mut count = 0;
    for payload in payloads {
        let mut at = 0;
        while at < payload.len() {
            let (mut value, mut shift) = (0_usize, 0);
            loop {
                let Some(byte) = payload.get(at) else { panic!("a varint is cut") };
                at += 1;
                value |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            at += value >> 1;
            count += 1;
        }
    }
    count
}

/// All fields of all records by the integer-encoding crate, which accepts other forms than Kafka.
fn with_integer_encoding(payloads: &[&[u8]]) -> u64 {
    fn varint(bytes: &mut &[u8]) -> i64 {
        let (value, len) = i64::decode_var(bytes).unwrap();
        *bytes = &bytes[len..];
        value
    }
    fn field<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
        let len = usize::try_from(varint(bytes)).unwrap_or(0);
        let (field, rest) = bytes.split_at(len);
        *bytes = rest;
        field
    }
    let mut sum = 0;
    for mut payload in payloads.iter().copied() {
        while !payload.is_empty() {
            let mut record = &field(&mut payload)[1..];
            let (_timestamp, offset) = (varint(&mut record), varint(&mut record));
            let (_key, value) = (field(&mut record), field(&mut record));
            for _ in 0..varint(&mut record) {
                black_box((field(&mut record), field(&mut record)));
            }
            assert!(record.is_empty());
            sum += offset.unsigned_abs() + value.len() as u64;
        }
    }
    sum
}

/// Prints how long ours takes as a multiple of the twin, and nanoseconds per record.
fn compare(name: &str, mut ours: impl FnMut() -> u64, twin: &mut dyn FnMut() -> u64) {
    let mut time = |side: bool| {
        let start = Instant::now();
        black_box(if side { ours() } else { twin() });
        start.elapsed().as_secs_f64()
    };
    let (mut ratios, mut times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS + ROUNDS / 10 {
        let first = time(round % 2 == 0);
        let second = time(round % 2 != 0);
        let (ours, twin) = if round % 2 == 0 { (first, second) } else { (second, first) };
        if round >= ROUNDS / 10 {
            ratios.push(ours / twin);
            times.push(ours);
        }
    }
    let (ratio, seconds) = (median(ratios), median(times));
    let nanos = seconds * 1e9 / f64::from(u32::try_from(BATCHES * RECORDS).unwrap());
    println!("  {name:<24} {ratio:>7.3}   {nanos:>7.2} ns per record");
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
