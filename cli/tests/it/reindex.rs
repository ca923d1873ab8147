//! `alluvium reindex`: which indexes it builds anew, and which it leaves alone.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::disk::{clean, copy, scratch, state, three_batches};
use crate::process::run;

const LOG: &str = "t-0/00000000000000000000.log";

#[test]
fn reindex_replaces_what_a_rebuild_would_not_give() {
    let dir = copy("disk/clean");
    let index = dir.path().join("transactions-0/00000000000000000004.index");
    let sound = fs::read(&index).unwrap();
    let before = fs::read(index.with_extension("timeindex")).unwrap();
    let mut bytes = sound.clone();
    bytes[7] ^= 1;
    fs::write(&index, &bytes).unwrap();
    // The interval with which the golden topic was made.
    let interval = (64..=4096).step_by(16).map(|bytes| format!("index.interval.bytes={bytes}"));
    let setting = interval.into_iter().find(|setting| {
        let dry = run(&clean(), &["reindex", "--dry-run", "--set", setting, "transactions-0"]);
        dry.text().ends_with("in order\n")
    });
    let setting = setting.expect("an interval that gives the golden indexes");
    let args = ["reindex", "--set", &setting, "transactions-0"];
    let dry = run(dir.path(), &[&args[..], &["--dry-run"]].concat());
    assert_eq!(
        dry.text(),
        "would rebuild the offset index of transactions-0/00000000000000000004.log\n"
    );
    assert_eq!(fs::read(&index).unwrap(), bytes);

    let wet = run(dir.path(), &args);
    assert_eq!(wet.code, Some(0), "{}", wet.stderr);
    assert_eq!(fs::read(&index).unwrap(), sound);
    assert_eq!(fs::read(index.with_extension("timeindex")).unwrap(), before);
    assert_eq!(run(dir.path(), &["verify", "transactions-0"]).code, Some(0));
}

/// A rebuild steps over headers, and ends where they do.
#[test]
fn reindex_leaves_the_indexes_of_a_damaged_log_alone() {
    let batch = |number: u8| {
        let mut batch = three_batches()[..118].to_vec();
        batch[7] = 3 * number;
        batch
    };
    let log: Vec<u8> = (0..50).flat_map(batch).collect();
    let dir = scratch(&[(LOG, &log), ("t-0/00000000000000000150.log", &batch(50))]);
    let args = ["reindex", "--set", "index.interval.bytes=100", "t-0"];
    assert_eq!(run(dir.path(), &args).code, Some(0));
    let whole = state(dir.path());
    let index = |dir: &TempDir| fs::read(dir.path().join(LOG).with_extension("index")).unwrap();
    assert_eq!(index(&dir).len(), 49 * 8);

    let mut damaged = log.clone();
    damaged[118 + 11] ^= 1;
    fs::write(dir.path().join(LOG), &damaged).unwrap();
    for more in [&["--dry-run"][..], &[]] {
        let left = run(dir.path(), &[&args[..], more].concat());
        assert_eq!(left.code, Some(1), "{}", left.text());
        assert_eq!(left.text(), format!("left alone: the indexes of {LOG}, a damaged log\n"));
        assert!(left.stderr.contains("00000000000000000000.log: byte "), "{}", left.stderr);
    }
    let changed = state(dir.path()).into_iter().filter(|file| !whole.contains(file));
    assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), [Path::new(LOG)]);
    let found = run(dir.path(), &["lookup", "t-0", "--offset", "149"]);
    assert_eq!(found.code, Some(0), "{}{}", found.text(), found.stderr);

    // Where there are none, some are better.
    for extension in ["index", "timeindex"] {
        fs::remove_file(dir.path().join(LOG).with_extension(extension)).unwrap();
    }
    let made = run(dir.path(), &args);
    assert_eq!(made.code, Some(1), "{}", made.text());
    assert!(made.text().starts_with("rebuilt offset and time index of "), "{}", made.text());
}
