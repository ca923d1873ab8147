//! `dump --format kafka` against the text of Kafka's own tool.

use std::fs;
use std::path::Path;

use crate::disk::{clean, files, golden};
use crate::process::run;

#[test]
fn every_file_of_the_clean_disk_gives_the_text_of_kafkas_tool() {
    let dumps = golden("disk/dump");
    let mut compared = 0;
    for file in files(&clean()).iter().filter(|file| file.components().count() == 2) {
        let name = file.display().to_string();
        let Ok(expected) = fs::read(dumps.join(format!("{}.txt", name.replace('/', ".")))) else {
            continue;
        };
        let run = run(&clean(), &["dump", "--format", "kafka", "--deep-iteration", &name]);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        assert!(run.stdout == expected, "{name}:\n{}", run.text());
        compared += 1;
    }
    assert!(compared >= 40, "{compared} files compared");
}

/// FR-105: a dump only looks.
#[test]
fn a_dump_of_a_read_only_directory_works_and_changes_nothing() {
    let log = crate::disk::three_batches();
    let dir = crate::disk::scratch(&[
        ("hexl3-0/00000000000000000000.log", &log),
        (
            "hexl3-0/00000000000000000000.index",
            &crate::disk::hex("0000000500000076 00000008000000ec"),
        ),
        ("hexl3-0/00000000000000000000.timeindex", &crate::disk::hex("00000000000003ed00000005")),
    ]);
    let partition = dir.path().join("hexl3-0");
    set_read_only(&partition, true);
    let before = state(&partition);
    for file in files(&partition) {
        let run = run(&partition, &["dump", "--format", "kafka", file.to_str().unwrap()]);
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", file.display());
    }
    assert_eq!(state(&partition), before);
    set_read_only(&partition, false);
}

/// FR-105: a missing file is an error, an unknown one is said to be unknown.
#[test]
fn what_cannot_be_dumped_is_named_and_the_rest_is_dumped() {
    let log = crate::disk::three_batches();
    let index = crate::disk::hex("0000000500000076");
    let dir = crate::disk::scratch(&[
        ("good/00000000000000000000.log", &log),
        ("alone/00000000000000000000.index", &index),
        ("good/notes.txt", b"x"),
    ]);
    let dump = |file: &str| {
        run(dir.path(), &["dump", "--format", "kafka", file, "good/00000000000000000000.log"])
    };

    let missing = dump("good/00000000000000000007.log");
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("cannot open good/00000000000000000007.log"));
    assert!(missing.text().contains("baseOffset: 6 lastOffset: 8"), "the next file is dumped");

    let alone = dump("alone/00000000000000000000.index");
    assert_eq!(alone.code, Some(1));
    assert!(alone.stderr.contains("no .log file beside it"), "{}", alone.stderr);
    assert!(alone.text().contains("offset: 5 position: 118"));
    assert_eq!(files(&dir.path().join("alone")).len(), 1, "nothing is created");

    let unknown = dump("good/notes.txt");
    assert_eq!(unknown.code, Some(0));
    assert_eq!(unknown.stderr, "Ignoring unknown file good/notes.txt\n");
}

#[test]
fn the_sanity_check_of_an_index_says_passed_or_names_the_byte() {
    let index = "transactions-0/00000000000000000004.index";
    let args = ["dump", "--format", "kafka", "--index-sanity-check"];
    let passed = run(&clean(), &[&args[..], &[index]].concat());
    assert_eq!(passed.code, Some(0));
    assert_eq!(passed.text(), format!("Dumping {index}\n{index} passed sanity check.\n"));

    let dir = crate::disk::scratch(&[
        ("00000000000000000000.index", &[0, 0, 0, 5, 0, 0, 0, 118, 0]),
        ("00000000000000000000.log", &crate::disk::three_batches()),
    ]);
    let failed = run(dir.path(), &[&args[..], &["00000000000000000000.index"]].concat());
    assert_eq!(failed.code, Some(1));
    assert!(failed.stderr.contains("00000000000000000000.index: byte 8:"), "{}", failed.stderr);
}

fn set_read_only(dir: &Path, read_only: bool) {
    use std::os::unix::fs::PermissionsExt;
    for file in files(dir) {
        let mode = if read_only { 0o444 } else { 0o644 };
        fs::set_permissions(dir.join(file), fs::Permissions::from_mode(mode)).unwrap();
    }
    let mode = if read_only { 0o555 } else { 0o755 };
    fs::set_permissions(dir, fs::Permissions::from_mode(mode)).unwrap();
}

/// Names, bytes and times of change of all files.
fn state(dir: &Path) -> Vec<(String, Vec<u8>, std::time::SystemTime)> {
    files(dir)
        .iter()
        .map(|file| {
            let path = dir.join(file);
            let changed = fs::metadata(&path).unwrap().modified().unwrap();
            (file.display().to_string(), fs::read(&path).unwrap(), changed)
        })
        .collect()
}

#[test]
fn logs_of_magic_0_and_1_give_the_text_of_kafkas_tool() {
    for topic in ["magic0-0", "magic1-0"] {
        let expected = fs::read(golden("legacy").join(format!("{topic}.dump.txt"))).unwrap();
        let file = format!("{topic}/00000000000000000000.log");
        let args = ["dump", "--format", "kafka", "--deep-iteration", "--print-data-log", &file];
        let run = run(&golden("legacy"), &args);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stdout == expected, "{topic}:\n{}", run.text());
    }
}
