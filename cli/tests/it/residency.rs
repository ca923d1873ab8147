//! `alluvium residency`: what is in memory, and that asking changes nothing.

use std::fs::{self, File};
use std::path::Path;

use alluvium_segment::page_cache;
use serde_json::Value;
use tempfile::TempDir;

use crate::disk::scratch;
use crate::process::run;

const LOG: &str = "t-0/00000000000000000000.log";

/// Pages of the log, of 4 KiB.
const PAGES: u64 = 64;

/// A log of zeros on a disk, not in memory; `None` where the file system keeps all in memory.
fn cold() -> Option<TempDir> {
    let dir = scratch(&[(LOG, &vec![0; 4096 * usize::try_from(PAGES).unwrap()])]);
    let file = File::open(dir.path().join(LOG)).unwrap();
    file.sync_all().unwrap();
    page_cache::drop_pages(&file, &(0..4096 * PAGES)).unwrap();
    let left = page_cache::residency(&file, 0..4096 * PAGES).unwrap().resident_count();
    (left == 0).then_some(dir)
}

fn objects(dir: &Path, args: &[&str]) -> Vec<Value> {
    let run = run(dir, &[&["residency", "--json"][..], args].concat());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_log_that_was_just_written_is_in_memory() {
    let dir = scratch(&[(LOG, &[1; 10_000]), ("t-0/00000000000000000000.index", &[0; 8])]);
    let lines = objects(dir.path(), &["t-0"]);
    assert_eq!((&lines[0]["pages"], &lines[0]["resident_pages"]), (&3.into(), &3.into()));
    assert_eq!(lines[0]["resident"], serde_json::json!([[0, 3]]));
    let total = &lines[1]["total"];
    assert_eq!(total["segments"], 1);
    assert_eq!(total["logs"]["resident_bytes"], 10_000, "the last page counts as far as the file");
    assert_eq!(total["indexes"]["resident_pages"], 1);
    let text = run(dir.path(), &["residency", "."]);
    assert!(text.text().contains("100 %"), "{}", text.text());
    assert!(text.text().contains("[███]\n"), "{}", text.text());
    assert!(text.text().ends_with("9.7 KiB of 9.7 KiB of logs in memory, 1 segment\n"));
}

#[test]
fn the_strip_shows_where_the_pages_are_and_asking_brings_none() {
    let Some(dir) = cold() else { return };
    for _ in 0..2 {
        let lines = objects(dir.path(), &["."]);
        assert_eq!(lines[0]["resident_pages"], 0);
    }
    // Read ahead of one page may bring a few more.
    let file = File::open(dir.path().join(LOG)).unwrap();
    let mut page = [0; 4096];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut page, 4096 * (PAGES - 1)).unwrap();
    let lines = objects(dir.path(), &["."]);
    let resident = lines[0]["resident_pages"].as_u64().unwrap();
    assert!((1..PAGES).contains(&resident), "{resident}");
    let text = run(dir.path(), &["residency", "--width", "8", "t-0"]);
    let strip = text.text().split('[').nth(1).unwrap().split(']').next().unwrap();
    assert_eq!(strip.chars().count(), 8);
    assert!(strip.starts_with('·') && !strip.ends_with('·'), "{strip}");
}

#[test]
fn an_empty_log_and_what_is_no_disk_of_kafkas() {
    let dir = scratch(&[(LOG, b""), ("x/y", b"")]);
    let text = run(dir.path(), &["residency", "t-0"]);
    assert_eq!(text.code, Some(0), "{}", text.stderr);
    assert!(text.text().contains("[]\n"), "{}", text.text());
    assert_eq!(run(dir.path(), &["residency", "x"]).code, Some(2));
    assert_eq!(run(dir.path(), &["residency", "--width", "0", "t-0"]).code, Some(2));
    fs::remove_file(dir.path().join(LOG)).unwrap();
    fs::create_dir(dir.path().join(LOG)).unwrap();
    assert!(run(dir.path(), &["residency", "."]).code.is_some());
}
