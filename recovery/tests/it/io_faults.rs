//! A disk that fails, and the order in which files are made durable.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::{
    CheckpointKind, CleanShutdown, FileAction, FileError, LeaderEpochCache, LoadError,
    OffsetCheckpoint, TopicPartition, load, replace_file,
};
use alluvium_segment::{Io, IoCall, IoHook, IoVerdict};

use crate::directory::Disk;
use crate::logs::{all_l3, unclean};

/// Fails the calls that `fails` picks, and keeps a record of those that change something.
struct Faulty {
    fails: fn(&IoCall<'_>) -> bool,
    made: Mutex<Vec<String>>,
}

impl Faulty {
    fn new(fails: fn(&IoCall<'_>) -> bool) -> Arc<Self> {
        Arc::new(Self { fails, made: Mutex::default() })
    }

    fn io(self: &Arc<Self>) -> Io {
        Io::with_hook(Arc::clone(self) as Arc<dyn IoHook>)
    }
}

impl IoHook for Faulty {
    fn before(&self, call: &IoCall<'_>) -> IoVerdict {
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let made = match call {
            IoCall::Write { path, .. } => format!("write {}", name(path)),
            IoCall::Sync { path, .. } => format!("sync {}", name(path)),
            IoCall::Rename { from, to, .. } => format!("rename {} {}", name(from), name(to)),
            IoCall::SyncDir { .. } => "sync the directory".to_owned(),
            _ => String::new(),
        };
        if (self.fails)(call) {
            return IoVerdict::Fail(std::io::ErrorKind::StorageFull.into());
        }
        self.made.lock().unwrap().push(made);
        IoVerdict::Proceed
    }
}

fn checkpoint(offset: i64) -> OffsetCheckpoint {
    [(TopicPartition::new("t", 0), Offset::new(offset))].into_iter().collect()
}

/// FR-077.
#[test]
fn a_replaced_file_is_synced_renamed_and_its_directory_synced_in_that_order() {
    let dir = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(|_| false);
    checkpoint(5).write(&faulty.io(), CheckpointKind::RecoveryPoint, dir.path()).unwrap();
    let made = faulty.made.lock().unwrap();
    let made: Vec<_> = made.iter().filter(|call| !call.is_empty()).map(String::as_str).collect();
    assert_eq!(
        made,
        [
            "write recovery-point-offset-checkpoint.tmp",
            "sync recovery-point-offset-checkpoint.tmp",
            "rename recovery-point-offset-checkpoint.tmp recovery-point-offset-checkpoint",
            "sync the directory",
        ]
    );
}

/// FR-076.
#[test]
fn a_failed_sync_of_a_checkpoint_is_an_error_and_the_old_one_stands() {
    let dir = tempfile::tempdir().unwrap();
    let kind = CheckpointKind::RecoveryPoint;
    checkpoint(5).write(&Io::new(), kind, dir.path()).unwrap();
    let faulty = Faulty::new(|call| matches!(call, IoCall::Sync { .. }));
    let error = checkpoint(9).write(&faulty.io(), kind, dir.path()).unwrap_err();
    assert!(matches!(error, FileError::Io { action: FileAction::Sync, .. }), "{error:?}");
    let stands = OffsetCheckpoint::read(&Io::new(), kind, dir.path()).unwrap();
    assert_eq!(stands, checkpoint(5));
}

/// FR-076: nothing that was not made durable counts as written.
#[test]
fn a_failed_sync_of_the_directory_is_an_error_too() {
    let dir = tempfile::tempdir().unwrap();
    let faulty = Faulty::new(|call| matches!(call, IoCall::SyncDir { .. }));
    let path = dir.path().join("file");
    let error = replace_file(&faulty.io(), &path, b"bytes").unwrap_err();
    assert_eq!(error.path(), dir.path());
    assert!(CleanShutdown::new(None).write(&faulty.io(), dir.path()).is_err());

    let mut epochs = LeaderEpochCache::default();
    epochs.assign(LeaderEpoch::new(1), Offset::new(0));
    assert!(epochs.flush(&faulty.io(), dir.path()).is_err());
    assert!(epochs.is_dirty(), "to be written again");
}

/// FR-059: a full disk fails this load, in so many words, and costs nothing.
#[test]
fn a_disk_that_is_full_fails_the_load_and_a_later_one_succeeds() {
    let faulty = Faulty::new(|call| matches!(call, IoCall::Write { .. }));
    let disk = Disk::with_io(faulty.io());
    disk.segment_with_indexes(0, &all_l3()[..340]);
    let before = disk.files()["00000000000000000000.log"].clone();
    let error = load(disk.dir(), &unclean(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    let LoadError::File { source, .. } = error else { panic!("a file could not be written") };
    assert!(matches!(source, FileError::Io { action: FileAction::Write, .. }), "{source:?}");
    assert_eq!(disk.files()["00000000000000000000.log"], before);

    let healthy = Disk::new();
    for (name, bytes) in disk.files() {
        healthy.write(&name, &bytes);
    }
    assert_eq!(healthy.load(&unclean()).log_end_offset.get(), 6);
    assert!(healthy.names().iter().all(|name| !name.contains(".tmp")));
}

/// FR-072: any file of the name counts, and a full disk takes a name without its bytes.
#[test]
fn a_marker_that_cannot_be_written_leaves_no_file_that_counts_as_one() {
    let failures: [fn(&IoCall<'_>) -> bool; 5] = [
        |call| matches!(call, IoCall::Open { create: true, .. }),
        |call| matches!(call, IoCall::Write { .. }),
        |call| matches!(call, IoCall::Sync { .. }),
        |call| matches!(call, IoCall::Rename { .. }),
        |call| matches!(call, IoCall::SyncDir { .. }),
    ];
    for (number, fails) in failures.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let error = CleanShutdown::new(Some(7)).write(&Faulty::new(fails).io(), dir.path());
        assert!(matches!(error, Err(FileError::Io { .. })), "failure {number}: {error:?}");
        assert_eq!(CleanShutdown::read(&Io::new(), dir.path()).unwrap(), None, "{number}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "failure {number}");
    }
}

#[test]
fn a_left_over_file_that_cannot_be_removed_fails_the_load_by_its_name() {
    fn removes_temporary(call: &IoCall<'_>) -> bool {
        let IoCall::Remove { path, .. } = call else { return false };
        path.extension().is_some_and(|extension| extension == "tmp")
    }
    let faulty = Faulty::new(removes_temporary);
    let disk = Disk::with_io(faulty.io());
    disk.segment_with_indexes(0, &all_l3());
    disk.write("00000000000000000000.timeindex.tmp", b"0\n");
    let error = load(disk.dir(), &unclean(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    let LoadError::File { source, .. } = error else { panic!("{error}") };
    assert!(matches!(source, FileError::Io { action: FileAction::Remove, .. }), "{source:?}");
    assert!(source.path().ends_with("00000000000000000000.timeindex.tmp"));
}

/// The disk that it leads to is not mounted: what stands beside it is no orphan.
#[cfg(unix)]
#[test]
fn a_log_that_is_a_link_to_nothing_fails_the_load_and_loses_no_file() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &all_l3());
    for extension in ["index", "timeindex", "snapshot"] {
        disk.write(&format!("{:020}.{extension}", 9), b"");
    }
    let names = disk.names();
    let link = disk.path().join(format!("{:020}.log", 9));
    std::os::unix::fs::symlink("/nowhere/9.log", &link).unwrap();
    let error = load(disk.dir(), &unclean(), &mut |_| ControlFlow::Continue(())).unwrap_err();
    let LoadError::File { source, .. } = error else { panic!("{error}") };
    assert_eq!((source.path(), source.is_not_found()), (link.as_path(), true));
    std::fs::remove_file(&link).unwrap();
    assert_eq!(disk.names(), names);
}
