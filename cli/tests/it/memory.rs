//! Lengths and payloads that lie take no memory: the command runs under a limit.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use alluvium_record_format::{BatchBuilder, BatchSettings, Codec, Offset, SimpleRecord};
use tempfile::TempDir;

use crate::disk::{scratch, three_batches};

const LOG: &str = "t-0/00000000000000000000.log";

/// Runs the command with at most 160 MiB of memory for data; returns its exit code and output.
fn limited(dir: &Path, args: &str) -> (Option<i32>, String) {
    let alluvium = env!("CARGO_BIN_EXE_alluvium");
    let script = format!("ulimit -d 163840; exec '{alluvium}' {args} 2>&1");
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
