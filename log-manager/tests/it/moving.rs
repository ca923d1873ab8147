//! Logs that move to another disk, and moves that fail half way.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use alluvium_log_manager::{
    CleaningGate, ErrorCode, Isolation, Log, LogManager, ManagerError, NewLog,
};
use alluvium_record_format::{LeaderEpoch, Offset, Uuid};
use alluvium_recovery::TopicPartition;
use alluvium_segment::{IoCall, IoVerdict};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::{Disk, append, read};

const OURS: Uuid = Uuid::from_bytes([7; 16]);

/// A log on `d1` with two records, of which readers see one, and a complete copy on `d2`.
pub(crate) fn with_copy(cluster: &Cluster) -> (LogManager, Log, Log) {
    let (manager, _) = cluster.start();
    let new = NewLog::new().is_new().topic_id(OURS).dir(cluster.path("d1"));
    let log = manager.get_or_create(&t(0), &new).unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    append(&log, &batch(&[(None, NOW.get())]));
    log.update_high_watermark(Offset::new(1)).unwrap();
    let copy = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    copy_all(&log, &copy);
    (manager, log, copy)
}

fn copy_all(log: &Log, copy: &Log) {
    let mut bytes = Vec::new();
    let fetched = log.read(Offset::new(0), 10_000, Isolation::LogEnd, true).unwrap();
    fetched.slice.unwrap().read_to(&mut bytes).unwrap();
    copy.append_as_follower(&bytes, LeaderEpoch::new(0)).unwrap();
}

/// The directories of a disk that hold a partition, whatever their name.
fn partitions(cluster: &Cluster, disk: &str) -> Vec<String> {
    cluster.list(disk).into_iter().filter(|name| name.starts_with("t-0")).collect()
}

/// Fails the rename of every directory below `disk`.
fn refuse_renames(cluster: &Cluster, disk: &str) {
    let disk = cluster.path(disk);
    cluster.faults.set(move |call| match call {
        IoCall::Rename { from, .. } if from.starts_with(&disk) && is_partition(from) => {
            IoVerdict::Fail(io::Error::from(ErrorKind::Other))
        }
        _ => IoVerdict::Proceed,
    });
}

fn is_partition(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("t-0"))
}

/// The copy was in no map then: a second one was made beside it, and the next start was refused.
#[test]
fn a_copy_whose_name_is_taken_stays_a_copy_and_takes_the_place_later() {
    let cluster = Cluster::new(2);
    let (manager, log, copy) = with_copy(&cluster);
    let stale = cluster.path("d2/t-0");
    fs::create_dir(&stale).unwrap();
    fs::write(stale.join("00000000000000000000.log"), b"stale").unwrap();
    let refused = manager.promote_future(&t(0)).unwrap_err();
    assert!(matches!(refused, ManagerError::Directory { .. }), "{refused:?}");
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d1"));
    append(&log, &batch(&[(None, NOW.get())]));

    let again = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    assert_eq!(again.dir().path(), copy.dir().path());
    manager.write_checkpoints();
    assert_eq!(cluster.read("d2/recovery-point-offset-checkpoint"), "0\n1\nt 0 2\n");
    fs::remove_dir_all(&stale).unwrap();
    let request = alluvium_log_manager::LeaderRequest::new(LeaderEpoch::new(0));
    let mut third = batch(&[(None, NOW.get())]);
    again.append_as_leader(&mut third, request).unwrap();
    let moved = manager.promote_future(&t(0)).unwrap();
    assert_eq!((moved.log_end_offset(), moved.high_watermark()), (Offset::new(3), Offset::new(1)));
    manager.stop(None).unwrap();
    drop((manager, log, copy, again, moved));
    let (manager, _) = cluster.start();
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d2"));
    assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(3));
}

/// With the name taken before its checkpoints were written, two directories of one name stood in
/// the way of the next start.
#[test]
fn a_copy_whose_checkpoints_cannot_be_written_keeps_its_name() {
    let cluster = Cluster::new(2);
    let (manager, log, copy) = with_copy(&cluster);
    let disk = cluster.path("d2");
    cluster.faults.set(move |call| match call {
        IoCall::Rename { to, .. }
            if to.starts_with(&disk) && to.to_string_lossy().ends_with("-offset-checkpoint") =>
        {
            IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull))
        }
        _ => IoVerdict::Proceed,
    });
    let refused = manager.promote_future(&t(0));
    assert!(matches!(refused, Err(ManagerError::Offline { .. })), "{refused:?}");
    assert_eq!(partitions(&cluster, "d1"), ["t-0"]);
    assert!(partitions(&cluster, "d2")[0].ends_with("-future"));
    cluster.faults.clear();
    drop(manager.stop(None));
    drop((manager, log, copy));
    let (manager, _) = cluster.start();
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d1"));
}

/// A disk that cannot be listed may hold the log, with records that the copy lacks.
#[test]
fn a_copy_takes_no_place_while_a_disk_is_offline() {
    let cluster = Cluster::new(2);
    let (manager, log, copy) = with_copy(&cluster);
    manager.stop(None).unwrap();
    drop((manager, log, copy));
    fs::remove_dir_all(cluster.path("d1")).unwrap();
    fs::write(cluster.path("d1"), b"").unwrap();
    let (manager, _) = cluster.start();
    assert!(matches!(manager.promote_future(&t(0)), Err(ManagerError::Offline { .. })));
}

/// The log was in no map then, with its directory still there: neither the checkpoints nor the
/// stop knew of it, and the marker vouched for it.
#[test]
fn a_log_goes_although_its_copy_cannot_be_renamed() {
    for is_deleted in [true, false] {
        let cluster = Cluster::new(2);
        let (manager, _log, copy) = with_copy(&cluster);
        refuse_renames(&cluster, "d2");
        if is_deleted {
            manager.delete(&t(0)).unwrap();
        } else {
            manager.set_aside(&t(0)).unwrap();
        }
        let left = partitions(&cluster, "d1");
        let ending = if is_deleted { "-delete" } else { "-stray" };
        assert!(left.len() == 1 && left[0].ends_with(ending), "{left:?}");
        assert!(matches!(manager.log(&t(0)), Err(ManagerError::Unknown { .. })));
        let offline: Vec<_> = manager.offline_dirs().into_iter().map(|(dir, _)| dir).collect();
        assert_eq!(offline, [cluster.path("d2")]);
        assert!(copy.flush(true).is_err());
        let clean: Vec<_> =
            manager.stop(None).unwrap().dirs.iter().map(|dir| dir.is_clean).collect();
        assert_eq!(clean, [true, false]);
    }
}

#[test]
fn a_log_that_cannot_be_renamed_is_offline_and_not_unknown() {
    for is_deleted in [true, false] {
        let cluster = Cluster::new(2);
        let (manager, _log, _copy) = with_copy(&cluster);
        manager.write_checkpoints();
        refuse_renames(&cluster, "d1");
        let failed = if is_deleted {
            manager.delete(&t(0)).unwrap_err()
        } else {
            manager.set_aside(&t(0)).unwrap_err()
        };
        assert!(matches!(failed, ManagerError::Offline { .. }), "{failed:?}");
        assert!(matches!(manager.log(&t(0)), Err(ManagerError::Offline { .. })));
        assert_eq!(partitions(&cluster, "d1"), ["t-0"]);
        let new = NewLog::new().is_new().topic_id(OURS);
        let again = manager.get_or_create(&t(0), &new).unwrap_err();
        assert!(matches!(again, ManagerError::Offline { .. }), "{again:?}");
    }
}

/// A power cut brought the copy back then, and with it the old records.
#[test]
fn a_copy_that_goes_with_its_log_is_gone_durably_and_from_the_checkpoints_of_its_disk() {
    let cluster = Cluster::new(2);
    let (manager, _log, _copy) = with_copy(&cluster);
    manager.write_checkpoints();
    assert_eq!(cluster.read("d2/replication-offset-checkpoint"), "0\n1\nt 0 0\n");
    let (d2, calls) = (cluster.path("d2"), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&calls);
    cluster.faults.watch(move |call| match call {
        IoCall::Rename { from, .. } if from.starts_with(&d2) && is_partition(from) => {
            seen.lock().unwrap().push("rename");
        }
        IoCall::SyncDir { path, .. } if *path == d2 => seen.lock().unwrap().push("sync"),
        _ => {}
    });
    manager.delete(&t(0)).unwrap();
    let calls = calls.lock().unwrap();
    assert!(calls.starts_with(&["rename", "sync"]), "{calls:?}");
    for name in ["recovery-point", "replication", "log-start"] {
        let name = format!("d2/{name}-offset-checkpoint");
        assert_eq!(cluster.read(&name), "0\n0\n", "{name}");
    }
}

/// A directory that came back, or that another process has put there.
#[test]
fn a_copy_of_another_topic_of_the_same_name_takes_no_place() {
    let cluster = Cluster::new(2);
    let (manager, log, copy) = with_copy(&cluster);
    manager.stop(None).unwrap();
    drop((manager, log, copy));
    let copy = partitions(&cluster, "d2").remove(0);
    let file = cluster.path("d2").join(copy).join("partition.metadata");
    let other = Uuid::from_bytes([8; 16]);
    fs::write(&file, format!("version: 0\ntopic_id: {other}")).unwrap();

    let (manager, _) = cluster.start();
    let refused = manager.create_future(&t(0), cluster.path("d2")).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InconsistentTopicId);
    let refused = manager.promote_future(&t(0)).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InconsistentTopicId);
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d1"));

    assert!(manager.delete_future(&t(0)).unwrap());
    assert!(!manager.delete_future(&t(0)).unwrap());
    let copy = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    assert_eq!(copy.log_end_offset(), Offset::new(0));
    copy_all(&manager.log(&t(0)).unwrap(), &copy);
    manager.promote_future(&t(0)).unwrap();
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d2"));
}

#[test]
fn a_copy_whose_log_is_lost_takes_its_place_at_the_next_start() {
    let cluster = Cluster::new(2);
    let (manager, log, copy) = with_copy(&cluster);
    copy.update_high_watermark(Offset::new(2)).unwrap();
    manager.stop(None).unwrap();
    drop((manager, log, copy));
    fs::remove_dir_all(cluster.path("d1/t-0")).unwrap();

    let (manager, _) = cluster.start();
    assert!(matches!(manager.log(&t(0)), Err(ManagerError::Unknown { .. })));
    let moved = manager.promote_future(&t(0)).unwrap();
    assert_eq!(moved.high_watermark(), Offset::new(2), "that of the copy");
    assert_eq!(partitions(&cluster, "d2"), ["t-0"]);
    manager.stop(None).unwrap();
    drop((manager, moved));
    let (manager, _) = cluster.start();
    assert_eq!(read(&manager.log(&t(0)).unwrap(), 0).unwrap(), [(0, 0), (1, 1)]);
}

#[test]
fn a_log_has_moved_although_the_old_directory_cannot_be_renamed() {
    let cluster = Cluster::new(2);
    let (manager, _log, _copy) = with_copy(&cluster);
    refuse_renames(&cluster, "d1");
    let moved = manager.promote_future(&t(0)).unwrap();
    append(&moved, &batch(&[(None, NOW.get())]));
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d2"));
    assert_eq!(cluster.read("d2/replication-offset-checkpoint"), "0\n1\nt 0 1\n");
    let offline: Vec<_> = manager.offline_dirs().into_iter().map(|(dir, _)| dir).collect();
    assert_eq!(offline, [cluster.path("d1")]);
}

fn is_old(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "orders-0")
}

/// Counts the pauses of one partition.
#[derive(Debug, Default)]
struct Pauses(Mutex<i32>);

impl Pauses {
    fn count(&self) -> i32 {
        *self.0.lock().unwrap()
    }
}

impl CleaningGate for Pauses {
    fn pause(&self, _partition: &TopicPartition) {
        *self.0.lock().unwrap() += 1;
    }

    fn abort_and_pause(&self, _partition: &TopicPartition) {
        *self.0.lock().unwrap() += 1;
    }

    fn resume(&self, _partition: &TopicPartition) {
        *self.0.lock().unwrap() -= 1;
    }
}

/// The cleaner is kept off as long as there is a copy, and no longer, however that ends.
#[test]
fn the_cleaner_is_kept_off_a_log_for_the_whole_of_a_move() {
    type End = fn(&Cluster, &LogManager);
    let ends: [(&str, End); 5] = [
        ("it arrives", |_, manager| drop(manager.promote_future(&t(0)).unwrap())),
        ("it is given up", |_, manager| assert!(manager.delete_future(&t(0)).unwrap())),
        ("the log is deleted", |_, manager| manager.delete(&t(0)).unwrap()),
        ("the log is set aside", |_, manager| drop(manager.set_aside(&t(0)).unwrap())),
        ("its disk fails", |cluster, manager| {
            refuse_renames(cluster, "d2");
            manager.delete_future(&t(0)).unwrap_err();
            manager.tick();
        }),
    ];
    for (name, end) in ends {
        for is_restarted in [false, true] {
            let cluster = Cluster::new(2);
            let (manager, log, copy) = with_copy(&cluster);
            manager.stop(None).unwrap();
            drop((manager, log, copy));
            let gate = Arc::new(Pauses::default());
            let start = || {
                let told: Arc<dyn CleaningGate> = Arc::<Pauses>::clone(&gate);
                cluster.options().cleaning_gate(told).start().unwrap().0
            };
            let mut manager = start();
            assert_eq!(gate.count(), 1, "{name}");
            if is_restarted {
                manager.stop(None).unwrap();
                assert_eq!(gate.count(), 0, "{name}");
                manager = start();
            } else {
                manager.delete_future(&t(0)).unwrap();
                let copy = manager.create_future(&t(0), cluster.path("d2")).unwrap();
                manager.create_future(&t(0), cluster.path("d2")).unwrap();
                copy_all(&manager.log(&t(0)).unwrap(), &copy);
            }
            assert_eq!(gate.count(), 1, "{name}, restarted: {is_restarted}");
            end(&cluster, &manager);
            assert_eq!(gate.count(), 0, "{name}, restarted: {is_restarted}");
        }
    }
}

/// What is written down beside the rename of the directory: a flush that had its path from before
/// took what it did not find for deleted, and moved the recovery point.
#[test]
fn a_flush_beside_the_rename_of_a_directory_goes_on_by_the_new_name() {
    type IsMeant = fn(&IoCall<'_>) -> bool;
    let moments: [(&str, IsMeant); 3] = [
        ("names", |call| matches!(call, IoCall::SyncDir { path, .. } if is_old(path))),
        ("epochs", |call| {
            let IoCall::Open { path, .. } = call else { return false };
            is_old(path) && path.to_string_lossy().contains("leader-epoch-checkpoint")
        }),
        ("recovered", |call| {
            let IoCall::Open { path, .. } = call else { return false };
            is_old(path) && path.extension().is_some_and(|it| it == "timeindex")
        }),
    ];
    for (name, is_meant) in moments {
        let disk = Disk::new();
        let log = disk.open_clean();
        append(&log, &batch(&[(None, NOW.get())]));
        log.roll().unwrap();
        append(&log, &batch(&[(None, NOW.get())]));
        drop(log);
        let log = disk.open_unclean();
        log.assign_epoch(LeaderEpoch::new(5), Offset::new(2)).unwrap();
        log.roll().unwrap();
        let (dir, is_renamed) = (Arc::clone(log.dir()), AtomicBool::new(false));
        let synced = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&synced);
        disk.faults.watch(move |call| {
            if is_meant(call) && !is_renamed.swap(true, Ordering::Relaxed) {
                dir.rename("orders-1").unwrap();
            }
            if let IoCall::Sync { path, .. } | IoCall::SyncDir { path, .. } = call {
                note.lock().unwrap().push(path.to_path_buf());
            }
        });
        log.flush(true).unwrap();
        disk.faults.clear();
        let dir = log.dir().path();
        assert!(dir.ends_with("orders-1"), "{name}");
        assert_eq!(log.recovery_point(), log.log_end_offset(), "{name}");
        let synced = synced.lock().unwrap();
        assert!(synced.contains(&dir), "{name}: {synced:?}");
        let epochs = fs::read_to_string(dir.join("leader-epoch-checkpoint")).unwrap();
        assert!(epochs.contains("5 2"), "{name}: {epochs}");
        if name == "recovered" {
            // The flush itself comes to this segment only after the one before.
            let place = |file: &str| synced.iter().position(|path| path.ends_with(file)).unwrap();
            let index = place("orders-1/00000000000000000001.timeindex");
            assert!(index < place("orders-1/00000000000000000000.log"), "{name}: {synced:?}");
        }
    }
}
