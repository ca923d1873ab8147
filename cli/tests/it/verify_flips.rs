//! `verify` sees every flipped bit and every cut, but for what the format leaves unprotected.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use crate::disk::{copy, hex, scratch, three_batches};

/// Whether the check of `path` finds damage or something to note.
fn is_reported(path: &Path) -> bool {
    let summary = alluvium::verify(&[path.to_path_buf()], NonZeroUsize::MIN);
    assert_eq!(summary.failures, 0);
    summary.damage + summary.notes > 0
}

/// The bytes of which at least one flipped bit is not reported.
fn unseen(partition: &Path, file: &str) -> BTreeSet<usize> {
    let path = partition.join(file);
    let sound = fs::read(&path).unwrap();
    let mut unseen = BTreeSet::new();
    for byte in 0..sound.len() {
        for bit in 0..8 {
            let mut flipped = sound.clone();
            flipped[byte] ^= 1 << bit;
            fs::write(&path, &flipped).unwrap();
            if !is_reported(partition) {
                unseen.insert(byte);
            }
        }
    }
    fs::write(&path, &sound).unwrap();
    assert!(!is_reported(partition), "the file is whole again");
    unseen
}

/// A partition with all its files: nothing is left to chance.
fn whole() -> tempfile::TempDir {
    scratch(&[
        ("t-0/00000000000000000000.log", &three_batches()),
        ("t-0/00000000000000000000.index", &hex("00000005 00000076 00000008 000000ec")),
        (
            "t-0/00000000000000000000.timeindex",
            &hex("00000000000003ed 00000005 00000000000003f0 00000008"),
        ),
        ("t-0/leader-epoch-checkpoint", b"0\n2\n0 0\n1 6\n"),
    ])
}

#[test]
fn every_bit_of_a_log_is_protected_by_its_neighbours() {
    let dir = whole();
    let partition = dir.path().join("t-0");
    assert_eq!(unseen(&partition, "00000000000000000000.log"), BTreeSet::new());
}

/// Without indexes and epochs to compare with, these bytes have no protection: no checksum
/// covers the base offset (bytes 0 to 7) and leader epoch (12 to 15) of a batch.
#[test]
fn a_log_alone_leaves_offsets_and_epochs_unprotected() {
    let dir = scratch(&[("t-0/00000000000000000000.log", &three_batches())]);
    let log = "00000000000000000000.log";
    let path = dir.path().join("t-0");
    // Missing indexes are noted; an empty pair of them is not.
    fs::write(path.join("00000000000000000000.index"), b"").unwrap();
    fs::write(path.join("00000000000000000000.timeindex"), b"").unwrap();
    let mut expected = BTreeSet::new();
    expected.extend(236..244); // base offset of the last batch: the others would overlap
    expected.extend(118 + 12..118 + 16); // a later epoch may begin here
    expected.extend(236 + 12..236 + 16);
    let found = unseen(&path, log);
    assert!(found.is_subset(&expected), "{:?}", found.difference(&expected));
    assert!(found.contains(&243) && found.contains(&133), "{found:?}");
}

#[test]
fn every_bit_of_an_index_is_checked_against_the_log() {
    let dir = whole();
    let partition = dir.path().join("t-0");
    assert_eq!(unseen(&partition, "00000000000000000000.index"), BTreeSet::new());
    assert_eq!(unseen(&partition, "00000000000000000000.timeindex"), BTreeSet::new());
}

#[test]
fn every_bit_of_a_snapshot_is_protected() {
    let dir = copy("disk/clean/codec-zstd-0");
    assert_eq!(unseen(dir.path(), "00000000000000000120.snapshot"), BTreeSet::new());
}

/// One bit of each byte, for time's sake: a compressed log with its indexes beside it. Its first
/// batch is in no index, and nothing else names its offsets.
#[test]
fn flips_in_a_compressed_log_are_seen() {
    let dir = copy("disk/clean/codec-zstd-0");
    let path = dir.path().join("00000000000000000000.log");
    let sound = fs::read(&path).unwrap();
    for byte in 0..sound.len() {
        let mut flipped = sound.clone();
        flipped[byte] ^= 1 << (byte % 8);
        fs::write(&path, &flipped).unwrap();
        assert!(is_reported(dir.path()), "byte {byte}");
    }
}

#[test]
fn every_cut_that_is_not_between_batches_is_seen() {
    let dir = scratch(&[("t-0/00000000000000000000.log", &three_batches())]);
    let path = dir.path().join("t-0/00000000000000000000.log");
    for name in ["index", "timeindex"] {
        fs::write(path.with_extension(name), b"").unwrap();
    }
    let sound = three_batches();
    for len in 0..=sound.len() {
        fs::write(&path, &sound[..len]).unwrap();
        assert_eq!(is_reported(&path), len % 118 != 0, "file of {len} bytes");
        assert_eq!(is_reported(path.parent().unwrap()), len % 118 != 0, "{len} bytes");
    }
}
