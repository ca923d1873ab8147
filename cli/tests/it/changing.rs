//! What holds for every command that changes something: it keeps off a disk in use, and a dry
//! run changes no byte.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Stdio;
use std::time::SystemTime;

use alluvium_segment::{DirLock, LockError};

use crate::disk::{copy, files, scratch, state, three_batches};
use crate::process::{command, run};

const MARKER: &str = ".kafka_cleanshutdown";

/// Every command that changes something, called so that it has something to change.
const CHANGING: &[&[&str]] = &[
    &["compact", "--now", "1900000000000", "plain-0"],
    &["recover", "--all", "."],
    &["recover", "--all", "plain-0"],
    &["reindex", "--set", "index.interval.bytes=100", "."],
    &["retain", "--now", "1900000000000", "--set", "retention.ms=1", "."],
    &["retain", "--now", "1900000000000", "--set", "retention.ms=1", "plain-0"],
    &["salvage", "plain-0", "rescue-0"],
    &["truncate", "plain-0", "--to", "3"],
];

/// Those that can say what they would do.
fn dry() -> Vec<Vec<&'static str>> {
    let can = CHANGING.iter().filter(|args| args[0] != "salvage");
    can.map(|args| [args, &["--dry-run"][..]].concat()).collect()
}

/// The golden disk, one index damaged so that a start would rebuild it.
fn disk() -> tempfile::TempDir {
    let dir = copy("disk/clean");
    let index = dir.path().join("plain-0/00000000000000000000.index");
    let mut bytes = fs::read(&index).unwrap();
    bytes[7] ^= 1;
    fs::write(index, bytes).unwrap();
    fs::write(dir.path().join(".lock"), b"").unwrap();
    dir
}

#[test]
fn the_list_holds_every_command_with_a_dry_run_and_salvage() {
    let app = alluvium::command();
    let has_dry_run = |command: &&clap::Command| {
        command.get_name() == "salvage"
            || command.get_arguments().any(|arg| arg.get_id() == "dry_run")
    };
    let mut expected: Vec<_> =
        app.get_subcommands().filter(has_dry_run).map(clap::Command::get_name).collect();
    expected.sort_unstable();
    let mut listed: Vec<_> = CHANGING.iter().map(|args| args[0]).collect();
    listed.dedup();
    assert_eq!(listed, expected);
}

#[test]
fn a_disk_that_another_process_holds_is_refused_and_left_alone() {
    let dir = disk();
    let before = state(dir.path());
    // The command is another process than this one, which holds the lock as a broker does.
    // Reading the lock file here meanwhile would drop it.
    let lock = DirLock::acquire(dir.path()).unwrap();
    for args in CHANGING.iter().map(|args| args.to_vec()).chain(dry()) {
        let run = run(dir.path(), &args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("stop the broker first"), "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{args:?}: {}", run.text());
    }
    drop(lock);
    assert!(state(dir.path()) == before, "no byte changes");
}

#[test]
fn a_dry_run_changes_no_byte_where_the_run_changes_some() {
    for args in dry() {
        let dir = disk();
        fs::remove_file(dir.path().join(".lock")).unwrap();
        let before = state(dir.path());
        let dry = run(dir.path(), &args);
        assert!(state(dir.path()) == before, "{args:?}");
        assert!(!dry.stdout.is_empty() && dry.code != Some(2), "{args:?}: {}", dry.stderr);
        let wet = run(dir.path(), &args[..args.len() - 1]);
        assert_ne!(wet.code, Some(2), "{args:?}: {}", wet.stderr);
        assert!(state(dir.path()) != before, "{args:?}");
    }
}

/// A start meanwhile would cut and delete what is being copied.
#[test]
fn salvage_holds_the_lock_of_the_disk_until_it_is_done() {
    // More losses to tell than a pipe holds: it waits for us in the middle of its work.
    let sound = three_batches();
    let log: Vec<u8> = (0..2000_i64)
        .flat_map(|offset| {
            let mut batch = sound[..118].to_vec();
            batch[..8].copy_from_slice(&(3 * offset).to_be_bytes());
            batch[90] ^= 1;
            batch
        })
        .collect();
    let files: [(&str, &[u8]); 2] =
        [("disk/meta.properties", b""), ("disk/t-0/00000000000000000000.log", &log)];
    for out in ["elsewhere/t-0", "disk/t-1"] {
        let dir = scratch(&files);
        let disk = dir.path().join("disk");
        let mut salvage = command(dir.path(), &["salvage", "disk/t-0", out]);
        let mut salvage = salvage.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = salvage.stdout.take().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        let refused = DirLock::acquire(&disk);
        assert!(matches!(refused, Err(LockError::Held { .. })), "{out}: {refused:?}");
        std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
        assert_eq!(salvage.wait().unwrap().code(), Some(1));
        DirLock::acquire(&disk).unwrap();
    }
}

/// A copy of a partition that somebody put aside is in nobody's log directory.
#[test]
fn salvage_makes_no_lock_file_where_no_broker_is() {
    let dir = scratch(&[("aside/t-0/00000000000000000000.log", &three_batches())]);
    assert_eq!(run(dir.path(), &["salvage", "aside/t-0", "out/t-0"]).code, Some(0));
    assert_eq!(files(&dir.path().join("aside")).len(), 1);
}

#[test]
fn a_lock_that_cannot_be_opened_is_not_blamed_on_a_broker() {
    let dir = disk();
    let lock = dir.path().join(".lock");
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    for args in CHANGING.iter().filter(|args| args[0] != "salvage") {
        let run = run(dir.path(), args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("cannot be locked"), "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("broker"), "{args:?}: {}", run.stderr);
    }
}

/// A broker that stops meanwhile replaces checkpoints and marker: those from before must not count.
#[test]
fn nothing_is_read_before_the_lock_is_taken() {
    let dir = disk();
    for name in ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"] {
        fs::write(dir.path().join(name), "0\n9\nplain 0 3\n").unwrap();
    }
    let lock = DirLock::acquire(dir.path()).unwrap();
    for args in CHANGING.iter().map(|args| args.to_vec()).chain(dry()) {
        let run = run(dir.path(), &args);
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("-offset-checkpoint"), "{args:?}: {}", run.stderr);
    }
    drop(lock);
}

/// An operator of another account than the broker's.
#[test]
fn who_may_only_read_the_lock_is_kept_off_a_disk_in_use() {
    let dir = disk();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(dir.path(), 0o755);
    let lock = DirLock::acquire(dir.path()).unwrap();
    mode(&dir.path().join(".lock"), 0o444);
    let output = |args: &[&str]| {
        let mut command = command(dir.path(), args);
        if rustix::process::geteuid().is_root() {
            // Permissions hold nobody off who is root.
            command.uid(65534).gid(65534);
        }
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for args in dry() {
        let (code, stderr) = output(&args);
        assert_eq!(code, Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains("stop the broker first"), "{args:?}: {stderr}");
    }
    drop(lock);
    for args in dry() {
        let (code, stderr) = output(&args);
        assert_ne!(code, Some(2), "{args:?}: {stderr}");
        assert!(!stderr.contains("broker"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_dry_run_says_where_it_cannot_tell_who_uses_the_disk_and_salvage_is_refused() {
    let dir = disk();
    let lock = dir.path().join(".lock");
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(".lock", &lock).unwrap();
    for args in dry() {
        let run = run(dir.path(), &args);
        assert_ne!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("cannot tell whether a broker"), "{args:?}: {}", run.stderr);
    }
    let refused = run(dir.path(), &["salvage", "plain-0", "elsewhere/rescue-0"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("cannot be locked"), "{}", refused.stderr);
    assert!(!dir.path().join("elsewhere").exists());
}

/// What makes each command fail after it has begun to change the disk: a file that cannot be
/// written, or read. It is as good as a crash at that moment.
const OBSTACLES: &[(&[&str], &str)] = &[
    (&["compact", "--now", "1900000000000", "plain-0"], "cleaner-offset-checkpoint.tmp"),
    (&["recover", "--all", "plain-0"], "recovery-point-offset-checkpoint.tmp"),
    (
        &["reindex", "--set", "index.interval.bytes=100", "."],
        "transactions-0/00000000000000000004.index",
    ),
    (
        &["retain", "--now", "1900000000000", "--set", "retention.ms=1", "plain-0"],
        "recovery-point-offset-checkpoint.tmp",
    ),
    (&["truncate", "plain-0", "--to", "3"], "replication-offset-checkpoint.tmp"),
];

#[test]
fn a_command_that_stops_half_way_leaves_no_marker_of_a_clean_stop() {
    for (args, obstacle) in OBSTACLES {
        let dir = disk();
        let marker = dir.path().join(MARKER);
        let kept = fs::read(&marker).unwrap();
        let obstacle = dir.path().join(obstacle);
        if obstacle.exists() {
            fs::remove_file(&obstacle).unwrap();
        }
        fs::create_dir(&obstacle).unwrap();
        let before = state(dir.path());
        let failed = run(dir.path(), args);
        assert_eq!(failed.code, Some(2), "{args:?}: {}", failed.text());
        assert!(!marker.exists(), "{args:?}: {}", failed.stderr);
        let without_marker: Vec<_> =
            before.into_iter().filter(|(name, _)| name.as_os_str() != MARKER).collect();
        assert!(state(dir.path()) != without_marker, "{args:?}: it had changed something");

        fs::remove_dir(obstacle).unwrap();
        fs::write(&marker, &kept).unwrap();
        let done = run(dir.path(), args);
        assert_ne!(done.code, Some(2), "{args:?}: {}", done.stderr);
        assert_eq!(fs::read(&marker).unwrap(), kept, "{args:?}: it comes back when all is done");
    }
}

#[test]
fn every_command_that_changes_a_partition_is_stopped_half_way() {
    let mut stopped: Vec<_> = OBSTACLES.iter().map(|(args, _)| args[0]).collect();
    let mut changing: Vec<_> = CHANGING.iter().map(|args| args[0]).collect();
    changing.retain(|name| *name != "salvage");
    stopped.dedup();
    changing.dedup();
    assert_eq!(stopped, changing);
}

#[test]
fn a_copy_of_what_is_sound_is_made_in_a_log_directory_without_a_marker() {
    let dir = disk();
    let marker = dir.path().join(MARKER);
    let kept = fs::read(&marker).unwrap();
    fs::File::open(&marker).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let done = run(dir.path(), &["salvage", "plain-0", "rescue-0"]);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(fs::read(&marker).unwrap(), kept);
    let written = fs::metadata(&marker).unwrap().modified().unwrap();
    assert_ne!(written, SystemTime::UNIX_EPOCH, "it was away, and is written anew");
}
