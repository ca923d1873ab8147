//! FR-036: a file system without room refuses appends, and loses nothing that was acknowledged.
//!
//! A touch of a map without blocks behind it would be a signal, so the test does its work in a
//! process of its own, on a small file system in a mount namespace of its own.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, ExitStatus};

use alluvium_log_manager::{AppendError, ErrorCode, Log, LogError};
use alluvium_record_format::Offset;
use alluvium_segment::SegmentError;

use crate::batches::{NOW, batch};
use crate::disk::{Disk, append, read, try_append};

/// FR-036, second input, for a whole log: writes, index entries and rolls find no room.
#[test]
fn a_full_file_system_refuses_appends_until_there_is_room_and_loses_nothing() {
    let test = "a_full_file_system_refuses_appends_until_there_is_room_and_loses_nothing";
    if std::env::var_os(CHILD).is_none_or(|name| name != test) {
        let status = child_on_tmpfs("size=1m", test);
        assert!(status.is_none_or(|status| status.success()), "{status:?}");
        return;
    }
    let disk = Disk::with(|config| {
        config.segment_index_bytes(1 << 20).internal_segment_bytes(Some(200_000))
    });
    let log = disk.open_clean();
    let filler = disk.dir().with_file_name("filler");
    let mut end = 0;
    // From page to page of a tmpfs, so that each kind of file is the first without room once.
    for free_pages in [0, 1, 2, 3, 5, 9, 30, 60] {
        fill(&filler, free_pages * 4096);
        end = fill_log(&log, end);
        let sizes: u64 = log.segments().iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        assert_eq!(bytes_of_logs(&disk.dir()), sizes, "what was written in part was not cut");
        assert!(try_append(&log, &large()).is_err(), "there is no room yet");
        fs::remove_file(&filler).unwrap();
        let appended = append(&log, &small());
        assert_eq!(appended.first_offset, Some(Offset::new(end)), "{free_pages} pages free");
        end += 1;
        all_there(&log, end);
    }
    assert!(log.segment_count() > 1, "no segment was ever full");
    drop(log);
    all_there(&disk.open_unclean(), end);
}

/// Appends until there is no room; returns the log end.
fn fill_log(log: &Log, mut end: i64) -> i64 {
    loop {
        match try_append(log, &small()) {
            Ok(appended) => assert_eq!(appended.last_offset, Some(Offset::new(end))),
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::KafkaStorageError);
                assert!(is_full(&error), "{error:?}");
                assert_eq!(log.log_end_offset(), Offset::new(end));
                return end;
            }
        }
        end += 1;
    }
}

/// Whether the cause is named, and the directory still in service.
fn is_full(error: &AppendError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut is_full = false;
    while let Some(error) = cause {
        is_full |= error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == ErrorKind::StorageFull);
        is_full |= matches!(
            error.downcast_ref::<SegmentError>(),
            Some(SegmentError::Index {
                source: alluvium_sparse_index::IndexError::DiskFull { .. },
                ..
            })
        );
        cause = error.source();
    }
    is_full && !matches!(error, AppendError::Log { source: LogError::Offline { .. }, .. })
}

/// Every offset from 0 to `end`, once and in order.
fn all_there(log: &Log, end: i64) {
    let mut next = 0;
    while next < end {
        let batches = read(log, next).unwrap();
        assert!(!batches.is_empty(), "nothing at {next} of {end}");
        for (first, last) in batches {
            assert_eq!(first, next);
            next = last + 1;
        }
    }
    assert_eq!((next, log.log_end_offset()), (end, Offset::new(end)));
}

fn small() -> Vec<u8> {
    batch(&[(Some(b"key"), NOW.get())])
}

/// More than the few pages that may be free where the small one did not fit.
fn large() -> Vec<u8> {
    batch(&[(Some(&vec![7; 100_000]), NOW.get())])
}

/// The bytes of all `.log` files.
fn bytes_of_logs(dir: &Path) -> u64 {
    let logs = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().extension().is_some_and(|extension| extension == "log"));
    logs.map(|entry| entry.metadata().unwrap().len()).sum()
}

/// Fills the file system but for so many bytes.
fn fill(path: &Path, free: u64) {
    let mut file = fs::File::create(path).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let filled = file.metadata().unwrap().len();
    file.set_len(filled.saturating_sub(free)).unwrap();
}

/// Runs `test` as a child whose temporary files lie on a small tmpfs. `None`, with the reason on
/// stderr, where this machine does not let us mount.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn child_on_tmpfs(options: &str, test: &str) -> Option<ExitStatus> {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("mount -t tmpfs -o {options} none \"$0\" && exec \"$@\"");
    for unshare in ["-m", "-Urm"] {
        let mut command = Command::new("unshare");
        command.args([unshare, "sh", "-c", &script]).arg(dir.path());
        command.arg(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("full_disk::{test}"), "--nocapture"]);
        let output = command.env(CHILD, test).env("TMPDIR", dir.path()).output();
        let Ok(output) = output else { continue };
        if String::from_utf8_lossy(&output.stdout).contains("running 1 test") {
            std::io::stderr().write_all(&output.stdout).unwrap();
            std::io::stderr().write_all(&output.stderr).unwrap();
            return Some(output.status);
        }
    }
    eprintln!("skipped: cannot mount a tmpfs in a namespace of its own");
    None
}

/// Tells a process that it is the child of the test of this name.
const CHILD: &str = "ALLUVIUM_LOG_MANAGER_TEST_CHILD";
