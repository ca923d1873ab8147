//! `dump --format kafka` on damaged files: it prints what it can and goes on. FR-106.

use crate::disk::{hex, scratch, three_batches};
use crate::process::{Run, run};

fn dump(file: &str, bytes: &[u8]) -> Run {
    let dir = scratch(&[(file, bytes)]);
    run(dir.path(), &["dump", "--format", "kafka", "--deep-iteration", file])
}

const LOG: &str = "00000000000000000000.log";

fn batch_lines(run: &Run) -> usize {
    run.text().lines().filter(|line| line.starts_with("baseOffset: ")).count()
}

/// FR-106 (a).
#[test]
fn zeros_behind_the_last_batch_are_counted() {
    let run = dump(LOG, &[three_batches(), vec![0; 64]].concat());
    assert_eq!((run.code, batch_lines(&run)), (Some(1), 3));
    assert!(run.text().ends_with(&format!("Found 64 invalid bytes at the end of {LOG}\n")));
    assert!(run.stderr.contains("byte 354: 64 zero bytes"), "{}", run.stderr);
}

/// FR-106 (b).
#[test]
fn a_cut_batch_is_counted_as_invalid_bytes() {
    let run = dump(LOG, &three_batches()[..178]);
    assert_eq!((run.code, batch_lines(&run)), (Some(1), 1));
    assert!(run.text().ends_with(&format!("Found 60 invalid bytes at the end of {LOG}\n")));
    assert!(run.stderr.contains("byte 118:"), "{}", run.stderr);
}

/// FR-106 (c), FR-079.
#[test]
fn a_batch_with_a_wrong_checksum_is_shown_and_so_are_those_behind_it() {
    let mut log = three_batches();
    log[118 + 116] ^= 1;
    let run = dump(LOG, &log);
    assert_eq!((run.code, batch_lines(&run)), (Some(1), 3));
    let valid: Vec<_> =
        run.text().lines().filter_map(|line| line.split_once("isvalid: ")).collect();
    assert_eq!(valid.iter().map(|split| split.1).collect::<Vec<_>>(), ["true", "false", "true"]);
    assert!(run.text().contains("| offset: 8 "));
    assert!(run.stderr.contains("byte 135: stored checksum 0x359cfb75"), "{}", run.stderr);
}

/// FR-106 (d).
#[test]
fn a_gap_is_reported_once_and_is_no_damage() {
    let log = three_batches();
    let run = dump(LOG, &[&log[..118], &log[236..]].concat());
    assert_eq!(run.code, Some(0));
    assert_eq!(run.stderr.matches("2 is followed by 6").count(), 1);
    assert!(run.stderr.starts_with("Non-consecutive offsets in /"), "{}", run.stderr);
}

/// FR-106 (e), FR-019.
#[test]
fn an_empty_batch_is_a_line_with_count_0() {
    let empty = hex("0000000000000000000000310000000002c53ffb6b00000000000900000000000003e8
         00000000000003e8ffffffffffffffffffffffffffff00000000");
    let run = dump(LOG, &empty);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    assert!(run.text().contains("baseOffset: 0 lastOffset: 9 count: 0 "));
    assert!(run.text().ends_with("isvalid: true\n"));
}

/// FR-106 (f).
#[test]
fn spare_bytes_of_a_transaction_index_are_named() {
    let run = dump("00000000000000000000.txnindex", &[0; 40]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.text().lines().count(), 2);
    assert!(run.text().ends_with("lastOffset: 0 lastStableOffset: 0\n"));
    assert!(run.stderr.contains("byte 34: 6 spare bytes"), "{}", run.stderr);
}

/// FR-106 (g).
#[test]
fn an_empty_snapshot_is_damage() {
    let run = dump("00000000000000000009.snapshot", &[]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("snapshot: byte 0: the file ends early"), "{}", run.stderr);
}

/// FR-106 (h).
#[test]
fn zero_entries_are_named_as_padding() {
    let log = "00000000000000000800.log";
    let index = "00000000000000000800.index";
    let dir = scratch(&[(index, &[0; 16]), (log, &[])]);
    let run = run(dir.path(), &["dump", "--format", "kafka", index]);
    assert_eq!(run.code, Some(0));
    assert_eq!(run.text(), format!("Dumping {index}\noffset: 800 position: 0\n"));
    assert!(run.stderr.contains("byte 0: 2 slots of zero padding"), "{}", run.stderr);
}

/// FR-067: Kafka's file reader takes any magic above 1 for 2; shown as Kafka does, and named.
#[test]
fn an_unknown_magic_is_shown_and_named() {
    let mut log = three_batches();
    log[118 + 16] = 3;
    let run = dump(LOG, &log);
    assert_eq!((run.code, batch_lines(&run)), (Some(1), 3));
    assert!(run.text().contains("size: 118 magic: 3 compresscodec: none"));
    assert!(run.stderr.contains("byte 134: magic 3"), "{}", run.stderr);
}

/// FR-008: the length field lies; the batch behind it is found by its checksum.
#[test]
fn the_dump_goes_on_behind_a_length_that_cannot_be() {
    for length in [0_i32, 13, -1, 14, 48] {
        let mut log = three_batches();
        log[126..130].copy_from_slice(&length.to_be_bytes());
        let run = dump(LOG, &log);
        assert_eq!(run.code, Some(1), "{length}");
        assert!(run.text().contains("baseOffset: 6 lastOffset: 8"), "{length}: {}", run.text());
        assert!(run.stderr.contains("byte 126: batch length"), "{length}: {}", run.stderr);
    }
}

#[test]
fn an_index_entry_that_points_nowhere_is_named_and_the_rest_is_listed() {
    let index = "00000000000000000000.index";
    let bytes = hex("00000005 00000010  00000008 000000ec  00000009 7fffffff");
    let dir = scratch(&[(index, &bytes), (LOG, &three_batches())]);
    let run = run(dir.path(), &["dump", "--format", "kafka", index]);
    assert_eq!(run.code, Some(1));
    assert_eq!(run.text().lines().count(), 4);
    assert!(run.stderr.contains("index: byte 0: points to byte 16 of the log"), "{}", run.stderr);
    assert!(run.stderr.contains("index: byte 16: points to byte 2147483647"), "{}", run.stderr);
}

#[test]
fn an_entry_that_names_another_offset_is_a_mismatch_in_kafkas_words() {
    let index = "00000000000000000000.index";
    let dir = scratch(&[(index, &hex("00000004 00000076")), (LOG, &three_batches())]);
    let run = run(dir.path(), &["dump", "--format", "kafka", index]);
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.starts_with("Mismatches in :/"), "{}", run.stderr);
    assert!(run.stderr.ends_with("\n  Index offset: 4, log offset: 5\n"), "{}", run.stderr);
}
