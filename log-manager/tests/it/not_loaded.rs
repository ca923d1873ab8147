//! Logs that a start cannot load, and what becomes of the others.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use alluvium_log_manager::{ErrorCode, LogError, LogManager, ManagerError, NewLog};
use alluvium_record_format::{LeaderEpoch, Offset, Uuid};
use alluvium_recovery::LoadError;
use alluvium_segment::{Io, IoCall, IoVerdict, SegmentError};

use crate::batches::{NOW, batch, l3};
use crate::cluster::{Cluster, t};
use crate::disk::{append, read};

const MARKER: &str = ".kafka_cleanshutdown";

/// Puts something into the place of a file.
type Place = fn(&Path);

/// Three records in each, the first of which is deleted.
fn make(manager: &LogManager, number: i32) {
    let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
    append(&log, &batch(&[(None, NOW.get()); 3]));
    log.update_high_watermark(Offset::new(3)).unwrap();
    log.delete_records(Some(Offset::new(1))).unwrap();
}

/// `t-0` on `d1` with three records, and a copy without any on its way to `d2`. Both disks stopped
/// properly; the checkpoints of `d2` say 9 of the copy. Returns the directory of the copy.
fn make_with_copy(cluster: &Cluster) -> PathBuf {
    let (manager, _) = cluster.start();
    make(&manager, 0);
    let copy = manager.create_future(&t(0), cluster.path("d2")).unwrap().dir().path();
    assert!(manager.stop(None).unwrap().dirs.iter().all(|dir| dir.is_clean));
    for name in CHECKPOINTS {
        fs::write(cluster.path("d2").join(name), "0\n1\nt 0 9\n").unwrap();
    }
    copy
}

const CHECKPOINTS: [&str; 3] = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
];

/// What the checkpoints of a disk say of `t-0`.
fn checkpointed(cluster: &Cluster, dir: &str) -> [Option<i64>; 3] {
    CHECKPOINTS.map(|name| {
        let text = cluster.read(&format!("{dir}/{name}"));
        let offset = text.lines().find_map(|line| line.strip_prefix("t 0 "));
        offset.map(|offset| offset.parse().unwrap())
    })
}

/// A directory in the place of a log's first index.
fn break_log(dir: &Path) {
    let index = dir.join("00000000000000000000.index");
    fs::remove_file(&index).unwrap_or_default();
    fs::create_dir(index).unwrap();
}

#[test]
fn a_copy_that_does_not_load_is_forgotten_by_the_checkpoints_when_the_log_comes_to_its_disk() {
    let cluster = Cluster::new(2);
    let dead = make_with_copy(&cluster);
    break_log(&dead);
    let (manager, report) = cluster.start();
    assert_eq!(report.dirs[1].not_loaded[0].0, t(0));
    manager.write_checkpoints();
    assert_eq!(checkpointed(&cluster, "d2"), [Some(9); 3], "kept until then");
    let log = manager.log(&t(0)).unwrap();
    let copy = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    copy.append_as_follower(&l3()[0], LeaderEpoch::new(0)).unwrap();
    assert_eq!(copy.log_end_offset(), log.log_end_offset());
    manager.promote_future(&t(0)).unwrap();
    assert_eq!(checkpointed(&cluster, "d2"), [Some(3), None, Some(3)]);
    manager.truncate_to(&t(0), Offset::new(0)).unwrap();
    manager.write_checkpoints();
    assert_eq!(checkpointed(&cluster, "d2"), [Some(0), None, Some(0)]);
    assert!(dead.is_dir());
    let stopped = manager.stop(None).unwrap();
    let clean: Vec<_> = stopped.dirs.iter().map(|dir| dir.is_clean).collect();
    assert_eq!(clean, [true, false], "the copy that did not load may not have been recovered");
    assert_eq!(checkpointed(&cluster, "d2"), [Some(0), None, Some(0)]);
    drop((manager, log, copy));

    // The log and the dead copy in one directory.
    let (manager, report) = cluster.start();
    assert_eq!(report.dirs[1].not_loaded.len(), 1);
    append(&manager.log(&t(0)).unwrap(), &l3()[0]);
    manager.stop(None).unwrap();
    assert_eq!(checkpointed(&cluster, "d2")[0], Some(3));
}

#[test]
fn a_log_and_its_copy_that_both_do_not_load_are_kept_in_the_checkpoints_of_both_disks() {
    let cluster = Cluster::new(2);
    break_log(&make_with_copy(&cluster));
    break_log(&cluster.path("d1/t-0"));
    let before = checkpointed(&cluster, "d1");
    assert_eq!(before, [Some(3), Some(1), Some(3)]);
    let (manager, report) = cluster.start();
    assert!(report.dirs.iter().all(|dir| dir.not_loaded.len() == 1), "{report:?}");
    assert!(matches!(manager.log(&t(0)), Err(ManagerError::NotLoaded { .. })));
    assert!(manager.stop(None).unwrap().dirs.iter().all(|dir| !dir.is_clean));
    assert_eq!(
        [checkpointed(&cluster, "d1"), checkpointed(&cluster, "d2")],
        [before, [Some(9); 3]]
    );
}

#[test]
fn a_disk_that_fails_under_a_copy_leaves_the_partition_in_service_and_free_to_be_made_again() {
    for is_running in [false, true] {
        let cluster = Cluster::new(2);
        drop(make_with_copy(&cluster));
        fs::create_dir(cluster.path("d2/__cluster_metadata-0")).unwrap();
        let d2 = cluster.path("d2");
        let fail = || {
            cluster.faults.set(move |call| match call {
                IoCall::Open { path, .. } | IoCall::Write { path, .. }
                    if path.starts_with(&d2) && (is_running || path.parent() != Some(&d2)) =>
                {
                    IoVerdict::Fail(io::Error::from_raw_os_error(5))
                }
                _ => IoVerdict::Proceed,
            });
        };
        let manager = if is_running {
            let (manager, _) = cluster.start();
            fail();
            manager.write_checkpoints();
            manager
        } else {
            fail();
            cluster.start().0
        };
        assert_eq!(manager.live_dirs(), [cluster.path("d1")]);
        assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(3));
        manager.delete(&t(0)).unwrap();
        manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
        let metadata = alluvium_recovery::TopicPartition::new("__cluster_metadata", 0);
        let unknown = manager.log(&metadata);
        assert!(matches!(unknown, Err(ManagerError::Unknown { .. })), "{unknown:?}");
    }
}

/// FR-071: whatever stands in the place of a file, only the log that it belongs to cannot be used.
#[test]
fn a_log_whose_files_are_none_is_out_of_service_alone() {
    let (index, log) = ("00000000000000000000.index", "00000000000000000000.log");
    let time_index = "00000000000000000000.timeindex";
    let epochs = "leader-epoch-checkpoint";
    let directory: Place = |path| fs::create_dir(path).unwrap();
    let dangling: Place = |path| symlink("/nowhere/file", path).unwrap();
    let socket: Place = |path| drop(UnixListener::bind(path).unwrap());
    let cases = [
        (index, directory),
        (log, directory),
        (log, dangling),
        (log, socket),
        (time_index, directory),
        (time_index, socket),
        (epochs, directory),
    ];
    for (name, place) in cases {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        (0..3).for_each(|number| make(&manager, number));
        assert!(manager.stop(None).unwrap().dirs[0].is_clean);
        drop(manager);
        let broken = cluster.path("d1/t-1").join(name);
        let sound = fs::read(&broken).unwrap();
        fs::remove_file(&broken).unwrap();
        place(&broken);

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

        fs::remove_dir(&broken).or_else(|_| fs::remove_file(&broken)).unwrap();
        fs::write(&broken, sound).unwrap();
        let (manager, _) = cluster.start();
        let log = manager.log(&t(1)).unwrap();
        let offsets = [log.log_start_offset(), log.high_watermark(), log.log_end_offset()];
        assert_eq!(offsets, [1, 3, 3].map(Offset::new), "{name}: the checkpoints forgot it");
    }
}

/// At every call of a load, the time index may become a file that cannot be opened: what the load
/// reads itself, and what the segment opens behind it.
#[test]
fn a_time_index_that_cannot_be_opened_takes_its_log_alone_out_of_service() {
    let mut by_index = 0;
    for place in 0.. {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        (0..2).for_each(|number| make(&manager, number));
        manager.stop(None).unwrap();
        drop(manager);
        let dir = cluster.path("d1/t-1");
        let broken = dir.join("00000000000000000000.timeindex");
        let (mut left, index) = (place, broken.clone());
        cluster.faults.set(move |call| {
            if let IoCall::Open { path, .. } | IoCall::Read { path, .. } = call
                && path.starts_with(&dir)
            {
                if left == 0 {
                    fs::remove_file(&index).unwrap();
                    drop(UnixListener::bind(&index).unwrap());
                }
                left -= 1;
            }
            IoVerdict::Proceed
        });
        let (manager, report) = cluster.start();
        assert!(manager.offline_dirs().is_empty(), "{place}: {:?}", manager.offline_dirs());
        append(&manager.log(&t(0)).unwrap(), &batch(&[(None, NOW.get())]));
        if let [(partition, reason)] = &report.dirs[0].not_loaded[..] {
            assert_eq!(*partition, t(1));
            let segment = match &**reason {
                LogError::Segment { source, .. }
                | LogError::Load { source: LoadError::Segment { source, .. }, .. } => Some(source),
                _ => None,
            };
            by_index += usize::from(matches!(segment, Some(SegmentError::Index { .. })));
        }
        cluster.faults.clear();
        if !fs::symlink_metadata(&broken).unwrap().file_type().is_socket() {
            break;
        }
    }
    assert!(by_index > 0, "no place lies behind the load");
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

/// It was passed over without a word: its log start went with the next checkpoint.
#[test]
fn a_link_in_the_place_of_a_partition_is_not_loaded_and_its_checkpoints_stay() {
    for leads_somewhere in [true, false] {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        make(&manager, 0);
        make(&manager, 1);
        manager.stop(None).unwrap();
        drop(manager);
        let (dir, elsewhere) = (cluster.path("d1/t-0"), cluster.path("elsewhere"));
        Io::new().rename(&dir, &elsewhere).unwrap();
        // Within its own log directory it would be another log.
        let links = [("t-0", &elsewhere), ("t-2", &cluster.path("d1/t-1"))];
        let other = cluster.path("nowhere");
        for (name, to) in links {
            symlink(if leads_somewhere { to } else { &other }, cluster.path("d1").join(name))
                .unwrap();
        }
        symlink(&elsewhere, cluster.path("d1/t-3.00000000000000000000000000000000-delete"))
            .unwrap();

        let (manager, report) = cluster.start();
        let failed: Vec<_> = report.dirs[0].not_loaded.iter().map(|(name, _)| name).collect();
        assert_eq!(failed, [&t(0), &t(2)], "{leads_somewhere}");
        let new = NewLog::new().is_new();
        let refused = manager.get_or_create(&t(0), &new).unwrap_err();
        assert!(matches!(refused, ManagerError::NotLoaded { .. }), "{refused:?}");
        assert_eq!(read(&manager.log(&t(1)).unwrap(), 1).unwrap(), [(0, 2)]);
        cluster.clock.advance_ms(10_000);
        manager.tick();
        manager.write_checkpoints();
        assert_eq!(checkpointed(&cluster, "d1"), [Some(3), Some(1), Some(3)]);
        manager.stop(None).unwrap();
        drop(manager);

        fs::remove_file(&dir).unwrap();
        Io::new().rename(&elsewhere, &dir).unwrap();
        let (manager, _) = cluster.start();
        assert_eq!(manager.log(&t(0)).unwrap().log_start_offset(), Offset::new(1));
    }
}
