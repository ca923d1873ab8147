//! Logs that a start cannot load, and what becomes of the others.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::symlink;
use std::path::Path;

use alluvium_log_manager::{ErrorCode, LogManager, ManagerError, NewLog};
use alluvium_record_format::{LeaderEpoch, Offset, Uuid};
use alluvium_segment::{IoCall, IoVerdict};

use crate::batches::{NOW, batch, l3};
use crate::cluster::{Cluster, t};
use crate::disk::{append, read};

const MARKER: &str = ".kafka_cleanshutdown";

/// Three records in each, the first of which is deleted.
fn make(manager: &LogManager, number: i32) {
    let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
    append(&log, &batch(&[(None, NOW.get()); 3]));
    log.update_high_watermark(Offset::new(3)).unwrap();
    log.delete_records(Some(Offset::new(1))).unwrap();
}

/// FR-071: whatever stands in the place of a file, only the log that it belongs to cannot be used.
#[test]
fn a_log_whose_files_are_none_is_out_of_service_alone() {
    let (index, log) = ("00000000000000000000.index", "00000000000000000000.log");
    let into_dir = |path: &Path| fs::create_dir(path).unwrap();
    let into_dangling = |path: &Path| symlink("/nowhere/file", path).unwrap();
    for (name, is_dir) in [(index, true), (log, false), ("leader-epoch-checkpoint", true)] {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        (0..3).for_each(|number| make(&manager, number));
        assert!(manager.stop(None).unwrap().dirs[0].is_clean);
        drop(manager);
        let broken = cluster.path("d1/t-1").join(name);
        let sound = fs::read(&broken).unwrap();
        fs::remove_file(&broken).unwrap();
        if is_dir {
            into_dir(&broken);
        } else {
            into_dangling(&broken);
        }

        let (manager, report) = cluster.start();
        assert_eq!(report.dirs[0].failure, None, "{name}");
        assert_eq!(report.dirs[0].loaded.len(), 2, "{name}");
        assert_eq!(report.dirs[0].not_loaded[0].0, t(1), "{name}");
        for number in [0, 2] {
            append(&manager.log(&t(number)).unwrap(), &batch(&[(None, NOW.get())]));
        }
        let refused = manager.get_or_create(&t(1), &NewLog::new().is_new()).unwrap_err();
        assert!(matches!(refused, ManagerError::NotLoaded { .. }), "{name}: {refused:?}");
        assert_eq!(refused.code(), ErrorCode::KafkaStorageError);
        // Not recovered perhaps, so the next start must look again.
        assert!(!manager.stop(None).unwrap().dirs[0].is_clean, "{name}");
        assert!(!cluster.list("d1").contains(&MARKER.to_owned()), "{name}");
        drop(manager);

        if is_dir { fs::remove_dir(&broken) } else { fs::remove_file(&broken) }.unwrap();
        fs::write(&broken, sound).unwrap();
        let (manager, _) = cluster.start();
        let log = manager.log(&t(1)).unwrap();
        let offsets = [log.log_start_offset(), log.high_watermark(), log.log_end_offset()];
        assert_eq!(offsets, [1, 3, 3].map(Offset::new), "{name}: the checkpoints forgot it");
    }
}

/// One of them may be on the disk, and must not be made again elsewhere.
#[test]
fn a_disk_that_fails_while_it_is_loaded_takes_all_its_logs_offline_by_name() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    (0..6).for_each(|number| make(&manager, number));
    drop(manager);
    let d2 = cluster.path("d2");
    cluster.faults.set(move |call| match call {
        IoCall::Read { path, .. } if path.starts_with(&d2) => {
            IoVerdict::Fail(io::Error::from_raw_os_error(5))
        }
        _ => IoVerdict::Proceed,
    });
    let (manager, report) = cluster.start();
    assert!(report.dirs[1].failure.is_some());
    for number in [1, 3, 5] {
        let refused = manager.log(&t(number)).unwrap_err();
        assert!(matches!(refused, ManagerError::Offline { .. }), "{number}: {refused:?}");
    }
    assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(3));
}

/// FR-072, second input: the start ends with a fatal error while logs are still recovered.
#[test]
fn a_start_that_fails_leaves_no_marker() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    (0..2).for_each(|number| make(&manager, number));
    manager.stop(None).unwrap();
    drop(manager);
    let copy = cluster.path("d2/t-0");
    fs::create_dir(&copy).unwrap();
    assert!(matches!(cluster.try_start(), Err(ManagerError::SamePartition { .. })));
    for name in ["d1", "d2"] {
        assert!(!cluster.list(name).contains(&MARKER.to_owned()), "{name}");
    }
    fs::remove_dir_all(copy).unwrap();
    let (manager, report) = cluster.start();
    assert!(report.dirs.iter().all(|dir| !dir.was_clean));
    assert_eq!(read(&manager.log(&t(1)).unwrap(), 1).unwrap(), [(0, 2)]);
}

/// FR-076: the same for what a stop writes beside the segments.
#[test]
fn a_failed_sync_of_what_a_stop_writes_leaves_no_marker() {
    for wanted in ["log", "index", "timeindex", "snapshot", "tmp", "the directory"] {
        let cluster = Cluster::new(2);
        let (manager, _) = cluster.start();
        make(&manager, 0);
        append(&manager.log(&t(0)).unwrap(), &batch(&[(None, NOW.get())]));
        make(&manager, 1);
        let (d1, has_failed) = (cluster.path("d1"), std::sync::atomic::AtomicBool::new(false));
        cluster.faults.set(move |call| {
            let is_wanted = match call {
                IoCall::Sync { path, .. } => {
                    path.starts_with(&d1) && path.extension().is_some_and(|it| it == wanted)
                }
                IoCall::SyncDir { path, .. } => path.starts_with(&d1) && wanted == "the directory",
                _ => false,
            };
            // Once: a later sync would succeed.
            if is_wanted && !has_failed.swap(true, std::sync::atomic::Ordering::Relaxed) {
                return IoVerdict::Fail(io::Error::from(ErrorKind::Other));
            }
            IoVerdict::Proceed
        });
        let stopped = manager.stop(None).unwrap();
        let clean: Vec<_> = stopped.dirs.iter().map(|dir| dir.is_clean).collect();
        assert_eq!(clean, [false, true], "{wanted}");
        assert!(!cluster.list("d1").contains(&MARKER.to_owned()), "{wanted}");
        assert!(cluster.list("d2").contains(&MARKER.to_owned()), "{wanted}");
        drop(manager);
        cluster.faults.clear();
        let (manager, _) = cluster.start();
        assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(4), "{wanted}");
    }
}

/// Put there by hand while the broker runs, or left by a creation that failed.
#[test]
fn a_directory_that_is_there_already_is_taken_with_what_it_holds() {
    let id = Uuid::from_bytes([7; 16]);
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let dir = cluster.path("d1/t-0");
    fs::create_dir(&dir).unwrap();
    let torn = [&l3()[0][..], &l3()[1][..50]].concat();
    fs::write(dir.join("00000000000000000000.log"), torn).unwrap();
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new().topic_id(id)).unwrap();
    assert_eq!(log.log_end_offset(), Offset::new(3));
    log.append_as_follower(&l3()[1], LeaderEpoch::new(0)).unwrap();
    assert!(manager.offline_dirs().is_empty());

    let other = cluster.path("d1/t-1");
    fs::create_dir(&other).unwrap();
    fs::copy(dir.join("partition.metadata"), other.join("partition.metadata")).unwrap();
    let new = NewLog::new().is_new().topic_id(Uuid::from_bytes([8; 16]));
    let refused = manager.get_or_create(&t(1), &new).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InconsistentTopicId);
}
