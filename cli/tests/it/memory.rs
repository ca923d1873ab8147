//! Lengths and payloads that lie take no memory: the command runs under a limit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use alluvium_record_format::{
    BatchBuilder, BatchSettings, Codec, Decompressor, Entries, Entry, Offset, Position,
    SimpleRecord,
};
use tempfile::TempDir;

use crate::disk::{scratch, three_batches};

const LOG: &str = "t-0/00000000000000000000.log";

/// Runs the command with at most 160 MiB of memory for data; returns its exit code and output.
fn limited(dir: &Path, args: &str) -> (Option<i32>, String) {
    limited_to(160, dir, args)
}

fn limited_to(mib: u32, dir: &Path, args: &str) -> (Option<i32>, String) {
    let alluvium = env!("CARGO_BIN_EXE_alluvium");
    let script = format!("ulimit -d {}; exec '{alluvium}' {args} 2>&1", mib * 1024);
    let output = Command::new("sh").current_dir(dir).args(["-c", &script]).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A log of 400 MiB, nearly all of it a hole, whose second batch claims most of it.
fn lying_length() -> TempDir {
    let mut log = three_batches();
    log[126..130].copy_from_slice(&0x1800_0000_u32.to_be_bytes());
    let dir = scratch(&[(LOG, &log)]);
    let file = File::options().write(true).open(dir.path().join(LOG)).unwrap();
    file.set_len(400 << 20).unwrap();
    file.write_at(&three_batches()[236..], (400 << 20) - 118).unwrap();
    dir
}

#[test]
fn a_length_that_claims_the_whole_file_takes_no_memory() {
    let dir = lying_length();
    let (code, text) = limited(dir.path(), "verify t-0");
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("damage batch-crc"), "{text}");
}

/// FR-018: 512 MiB of zeros in a few KiB.
#[test]
fn a_bomb_takes_no_memory() {
    let zeros = vec![0; 512 << 20];
    let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)).codec(Codec::Zstd));
    builder.append(&SimpleRecord::new().value(&zeros)).unwrap();
    let bomb = builder.finish().unwrap();
    assert!(bomb.len() < 100_000);
    let dir = scratch(&[(LOG, bomb)]);
    let (code, text) = limited(dir.path(), "verify t-0");
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = limited(dir.path(), "stat t-0");
    assert_eq!(code, Some(0), "{text}");
}

/// A batch of two records: a huge one, and one with the key `lost`. A few KiB that inflate to
/// 300 MiB, in the value of the first record or in its key.
fn huge(base: i64, codec: Codec, in_key: bool) -> Vec<u8> {
    let settings = BatchSettings::new(Offset::new(base)).codec(codec);
    let mut builder = BatchBuilder::new(settings);
    let zeros = vec![0; HUGE];
    let (key, value) = if in_key { (&*zeros, &b"v"[..]) } else { (&b"huge"[..], &*zeros) };
    builder.append(&SimpleRecord::new().key(key).value(value)).unwrap();
    builder.append(&SimpleRecord::new().key(b"lost").value(b"1")).unwrap();
    builder.finish().unwrap().to_vec()
}

const HUGE: usize = 300 << 20;

#[test]
fn a_record_that_is_too_large_to_show_is_named_and_what_follows_is_shown() {
    let mut log = huge(0, Codec::Zstd, true);
    let at = log.len();
    let mut next = BatchBuilder::new(BatchSettings::new(Offset::new(2)));
    next.append(&SimpleRecord::new().key(b"behind").value(b"v")).unwrap();
    log.extend_from_slice(next.finish().unwrap());
    let dir = scratch(&[(LOG, &log)]);
    let name = "00000000000000000000.log: byte 61: ";
    for args in ["dump", "dump --format kafka --print-data-log", "dump --format jsonl"] {
        let of = if args.ends_with("jsonl") { "t-0" } else { LOG };
        let (code, text) = limited(dir.path(), &format!("{args} {of}"));
        assert_eq!(code, Some(1), "{args}: {text}");
        assert!(text.contains(name) && text.contains("limit of 268435456"), "{args}: {text}");
        let shown = if args.ends_with("jsonl") { "YmVoaW5k" } else { "behind" };
        assert!(text.contains(shown), "{args}, the batch at byte {at}: {text}");
    }
    let (code, text) = limited(dir.path(), "lookup t-0 --offset 1");
    assert!(matches!(code, Some(1 | 2)) && text.contains(name), "{code:?} {text}");
}

/// The map, three times the largest batch, 16 MiB, and what the program itself takes.
#[test]
fn compaction_takes_no_memory_for_what_a_record_inflates_to() {
    let last = SimpleRecord::new().key(b"lost").value(b"2");
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
        let (value, key) = (huge(0, codec, false), huge(2, codec, true));
        let largest = value.len().max(key.len());
        let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(4)));
        builder.append(&last).unwrap();
        let log = [&value, &key, builder.finish().unwrap()].concat();
        let active = "t-0/00000000000000000005.log";
        let dir = scratch(&[(LOG, &log), (active, b"")]);
        let mib = 1 + 3 * u32::try_from(largest >> 20).unwrap() + 3 + 16 + 4;
        let args = "compact --set cleanup.policy=compact --map-bytes 1048576 t-0";
        let (code, text) = limited_to(mib, dir.path(), args);
        assert_eq!(code, Some(0), "{codec}, {mib} MiB: {text}");
        assert!(text.contains("3 kept"), "{text}");

        let bytes = std::fs::read(dir.path().join(LOG)).unwrap();
        let records: Vec<u32> = Entries::new(&bytes, Position::new(0))
            .map(|entry| {
                let Entry::Batch(batch) = entry.unwrap() else { panic!("magic 2") };
                batch.verify_crc().unwrap();
                let mut decompressor = Decompressor::new();
                let stream = decompressor.records(&batch, usize::MAX).unwrap();
                stream.check().unwrap().record_count
            })
            .collect();
        assert_eq!(records, [1, 1, 1], "{codec}");
    }
}

#[test]
fn a_huge_index_of_padding_takes_no_memory() {
    let dir = scratch(&[(LOG, &three_batches())]);
    for extension in ["index", "timeindex"] {
        let path = dir.path().join(LOG).with_extension(extension);
        File::create(path).unwrap().set_len(12 * (20 << 20)).unwrap();
    }
    let (code, text) = limited(dir.path(), "verify t-0");
    assert_eq!(code, Some(0), "{text}");
}
