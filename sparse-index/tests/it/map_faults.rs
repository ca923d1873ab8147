//! FR-036: a full disk and a file that somebody shortens are errors, not signals.
//!
//! Each test does its work in a process of its own, because a fault would be a signal; where it
//! needs a file system of its own, in a mount namespace of its own.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitStatus};

use alluvium_record_format::Offset;
use alluvium_sparse_index::{IndexError, OffsetIndexFile};

use crate::support::{Dir, at};

/// Tells a process that it is the child of the test of this name.
const CHILD: &str = "ALLUVIUM_SPARSE_INDEX_TEST_CHILD";

fn is_child(test: &str) -> bool {
    std::env::var_os(CHILD).is_some_and(|name| name == test)
}

/// The test binary once more, to run `test` alone.
fn child(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("map_faults::{test}"), "--nocapture"]).env(CHILD, test);
    child
}

/// Runs `test` as a child whose temporary files lie on a small file system of type `kind`.
/// `None`, with the reason on stderr, where this machine does not let us mount.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn child_on(kind: &str, options: &str, test: &str) -> Option<ExitStatus> {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("mount -t {kind} -o {options} none \"$0\" && exec \"$@\"");
    for unshare in [&["-m"][..], &["-Urm"]] {
        let run = child(test);
        let mut command = Command::new("unshare");
        command.args(unshare).args(["sh", "-c", &script]).arg(dir.path());
        command.arg(run.get_program()).args(run.get_args());
        command.env(CHILD, test).env("TMPDIR", dir.path());
        let output = command.output();
        let mounted = output
            .as_ref()
            .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("running 1 test"));
        if let (true, Ok(output)) = (mounted, output) {
            std::io::stderr().write_all(&output.stdout).unwrap();
            std::io::stderr().write_all(&output.stderr).unwrap();
            return Some(output.status);
        }
    }
    eprintln!("skipped: cannot mount a {kind} in a namespace of its own");
    None
}

/// Fills the file system until there is no room for another page.
fn fill(path: &Path) {
    let mut file = fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
}

#[test]
fn a_full_disk_is_an_error_before_anything_is_stored() {
    let test = "a_full_disk_is_an_error_before_anything_is_stored";
    if !is_child(test) {
        let status = child_on("tmpfs", "size=256k", test);
        assert!(status.is_none_or(|status| status.success()), "{status:?}");
        return;
    }
    let dir = Dir::new();
    let index = dir.offset_index(0, 1 << 20);
    let filler = dir.path("filler");
    fill(&filler);
    let error = index.append(at(1, 1)).unwrap_err();
    assert!(matches!(error, IndexError::DiskFull { .. }), "{error}");
    assert_eq!((index.len(), index.lookup(Offset::new(9))), (0, at(0, 0)));

    // Room for the index, until it has used that up.
    fs::remove_file(&filler).unwrap();
    let mut number = 0;
    let error = loop {
        number += 1;
        match index.append(at(number, u32::try_from(number).unwrap())) {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, IndexError::DiskFull { .. }), "{error}");
    assert!(number > 10_000, "{number}");
    assert!(index.iter().map(|entry| entry.offset.get()).eq(1..number));
    index.trim_to_valid_size().unwrap();
    index.flush().unwrap();
}

#[test]
fn a_file_system_that_cannot_reserve_blocks_works_too() {
    let test = "a_file_system_that_cannot_reserve_blocks_works_too";
    if !is_child(test) {
        let status = child_on("ramfs", "mode=700", test);
        assert!(status.is_none_or(|status| status.success()), "{status:?}");
        return;
    }
    let dir = Dir::new();
    let index = dir.offset_index(0, 1 << 20);
    for round in 0..2 {
        for number in 1..=20_000 {
            index.append(at(number, u32::try_from(number).unwrap() + round)).unwrap();
        }
        assert!(index.iter().map(|entry| entry.offset.get()).eq(1..=20_000));
        index.truncate_to(Offset::new(7 - i64::from(round) * 7)).unwrap();
        index.truncate().unwrap();
    }
}

#[test]
fn a_file_that_was_shortened_is_an_error_at_the_next_check() {
    let test = "a_file_that_was_shortened_is_an_error_at_the_next_check";
    if !is_child(test) {
        let status = child(test).status().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    let dir = Dir::new();
    let index = dir.offset_index(0, 1 << 20);
    let path = dir.path("00000000000000000000.index");
    let filled = 512; // what the first page holds
    (1..=filled).for_each(|number| index.append(at(number, 1)).unwrap());
    index.check_backing().unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();

    let is_changed = |error: &IndexError| matches!(error, IndexError::Changed { found: 0, .. });
    let error = index.check_backing().unwrap_err();
    assert!(is_changed(&error));
    let text = format!("{} has 0 bytes, 1048576 were left there", path.display());
    assert_eq!(error.to_string(), text);
    assert!(is_changed(&index.append(at(filled + 1, 1)).unwrap_err()), "new blocks are needed");
    assert!(is_changed(&index.flush().unwrap_err()));
    assert!(is_changed(&index.resize(4096).unwrap_err()));
    assert!(is_changed(&index.trim_to_valid_size().unwrap_err()));
    drop(index);
    let index = OffsetIndexFile::open(&path, Offset::new(0), 1 << 20, &dir.permit).unwrap();
    assert_eq!((index.len(), index.lookup(Offset::new(9))), (0, at(0, 0)));
    index.resize(1 << 20).unwrap();
    index.append(at(1, 1)).unwrap();
}

#[test]
fn a_sealed_index_in_memory_and_a_view_outlive_their_file() {
    let test = "a_sealed_index_in_memory_and_a_view_outlive_their_file";
    if !is_child(test) {
        let status = child(test).status().unwrap();
        assert!(status.success(), "{status}");
        return;
    }
    let dir = Dir::new();
    let path = dir.file("0.index", &[0, 0, 0, 5, 0, 0, 0, 118]);
    let index = OffsetIndexFile::open_sealed(&path, Offset::new(0), &dir.permit).unwrap();
    let bytes = fs::read(&path).unwrap();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(0).unwrap();
    assert_eq!(index.lookup(Offset::new(7)), at(5, 118));
    let view = alluvium_sparse_index::OffsetIndex::new(Offset::new(0), &bytes);
    assert_eq!(view.lookup(Offset::new(7)), at(5, 118));
}
