//! `dump` without a format: the table for people.

use crate::disk::{clean, hex, scratch, three_batches};
use crate::process::run;

#[test]
fn a_log_is_a_line_a_batch_with_its_records_indented() {
    let dir = scratch(&[("00000000000000000000.log", &three_batches())]);
    let run = run(dir.path(), &["dump", "00000000000000000000.log"]);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    let lines: Vec<_> = run.text().lines().collect();
    assert_eq!(lines.len(), 2 + 3 * 4);
    assert!(lines[0].starts_with("00000000000000000000.log  354 B"), "{}", lines[0]);
    assert!(lines[6].starts_with("       118                   3..5        3  none"));
    assert!(lines[7].ends_with(r#"  1970-01-01T00:00:01.003Z  "k3" = "vvvvvvvvvv""#));
}

#[test]
fn output_that_is_no_terminal_has_no_colour() {
    let run = run(&clean(), &["dump", "transactions-0"]);
    assert!(!run.stdout.contains(&0x1b));
    assert!(run.text().contains("endTxnMarker: ABORT"), "control records are read");
}

#[test]
fn batches_alone_are_shown_on_demand() {
    let run = run(&clean(), &["dump", "--batches", "codec-zstd-0"]);
    assert_eq!(run.code, Some(0));
    assert!(run.text().contains("  zstd  ") && !run.text().contains(" = "), "{}", run.text());
}

#[test]
fn a_wrong_checksum_is_marked_in_its_line() {
    let mut log = three_batches();
    log[110] ^= 1;
    let dir = scratch(&[("00000000000000000000.log", &log)]);
    let run = run(dir.path(), &["dump", "--batches", "00000000000000000000.log"]);
    assert_eq!(run.code, Some(1));
    let marked: Vec<_> = run.text().lines().map(|line| line.contains("WRONG CHECKSUM")).collect();
    assert_eq!(marked, [false, false, true, false, false]);
}

#[test]
fn indexes_and_snapshots_have_tables_of_their_own() {
    let dir = clean().join("transactions-0");
    for (file, column) in [
        ("00000000000000000004.index", "byte of batch"),
        ("00000000000000000004.timeindex", "largest time so far"),
        ("00000000000000000004.txnindex", "abort marker"),
        ("00000000000000000083.snapshot", "open since offset"),
    ] {
        let run = run(&dir, &["dump", file]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{file}");
        assert!(run.text().lines().nth(1).unwrap().contains(column), "{}", run.text());
        assert!(run.text().lines().count() > 2, "{}", run.text());
    }
}

#[test]
fn a_value_is_cut_and_shown_as_text_or_hexadecimal() {
    let binary = hex("00000000000000000000003a0000000002716a618900000000000000000000000003e8
         00000000000003e8ffffffffffffffffffffffffffff0000000110000000026b02ff00");
    let dir = scratch(&[("00000000000000000000.log", &binary)]);
    let run = run(dir.path(), &["dump", "00000000000000000000.log"]);
    assert!(run.text().contains(r#""k" = 0xff"#), "{}", run.text());
    let run = crate::process::run(&clean(), &["dump", "--width", "3", "plain-0"]);
    assert!(run.text().contains(r#""... ("#), "{}", run.text());
}
