//! Many logs on many disks.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;

use alluvium_log_manager::{
    CleanupPolicy, ErrorCode, Isolation, LogConfig, LogManager, ManagerError, NewLog,
};
use alluvium_record_format::{LeaderEpoch, Offset, Uuid};
use alluvium_recovery::TopicPartition;
use alluvium_segment::{DirLock, IoCall, IoVerdict};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::{append, is_about, read, try_append};

const MARKER: &str = ".kafka_cleanshutdown";

/// Makes a log and appends one record.
fn make(manager: &LogManager, partition: &TopicPartition) {
    let log = manager.get_or_create(partition, &NewLog::new().is_new()).unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    log.update_high_watermark(Offset::new(1)).unwrap();
}

/// Found by `cargo xtask crash`: a flush made everything durable but the name of the partition's
/// directory, so that a power failure took the flushed log with it.
#[test]
fn the_directory_of_a_new_log_is_durable_before_it_is_used() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    cluster.faults.calls.lock().unwrap().clear();
    manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    assert_eq!(cluster.faults.calls.lock().unwrap().first().unwrap(), "sync-dir");
}

#[test]
fn new_logs_go_to_the_disk_with_the_fewest_the_first_of_several() {
    let cluster = Cluster::new(3);
    let (manager, _) = cluster.start();
    for number in 0..7 {
        make(&manager, &t(number));
    }
    let dirs = |number| manager.dir_of(&t(number)).unwrap();
    for (number, dir) in
        [(0, "d1"), (1, "d2"), (2, "d3"), (3, "d1"), (4, "d2"), (5, "d3"), (6, "d1")]
    {
        assert_eq!(dirs(number), cluster.path(dir), "{number}");
    }
    let chosen = NewLog::new().is_new().dir(cluster.path("d3"));
    manager.get_or_create(&t(9), &chosen).unwrap();
    assert_eq!(dirs(9), cluster.path("d3"));
}

#[test]
fn what_was_stopped_properly_starts_without_recovery_and_holds_everything() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    for number in 0..4 {
        make(&manager, &t(number));
    }
    let stopped = manager.stop(Some(42)).unwrap();
    assert!(stopped.dirs.iter().all(|dir| dir.is_clean), "{stopped:?}");
    assert_eq!(cluster.read("d1/.kafka_cleanshutdown"), r#"{"version":0,"brokerEpoch":42}"#);
    assert_eq!(cluster.read("d1/recovery-point-offset-checkpoint"), "0\n2\nt 0 1\nt 2 1\n");
    drop(manager);
    let (manager, report) = cluster.start();
    assert!(report.dirs.iter().all(|dir| dir.was_clean && dir.loaded.len() == 2));
    assert!(report.dirs.iter().flat_map(|dir| &dir.loaded).all(|(_, it)| it.recovered.is_empty()));
    assert!(!cluster.list("d1").contains(&MARKER.to_owned()), "a crash from now on is unclean");
    for number in 0..4 {
        let log = manager.log(&t(number)).unwrap();
        assert_eq!((log.log_end_offset(), log.high_watermark()), (Offset::new(1), Offset::new(1)));
    }
}

/// FR-072: the marker is taken away before the first log is loaded, and written last.
#[test]
fn a_directory_in_which_anything_failed_gets_no_marker() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    make(&manager, &t(0));
    make(&manager, &t(1));
    let d1 = cluster.path("d1");
    let first = d1.clone();
    cluster.faults.set(move |call| match call {
        IoCall::Sync { path, .. } if path.starts_with(&first) && is_about(call, "log") => {
            IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull))
        }
        _ => IoVerdict::Proceed,
    });
    let stopped = manager.stop(None).unwrap();
    assert_eq!(stopped.dirs.iter().map(|dir| dir.is_clean).collect::<Vec<_>>(), [false, true]);
    assert!(!cluster.list("d1").contains(&MARKER.to_owned()));
    assert!(cluster.list("d2").contains(&MARKER.to_owned()));
    drop(manager);
    cluster.faults.clear();
    let (manager, report) = cluster.start();
    assert_eq!(report.dirs.iter().map(|dir| dir.was_clean).collect::<Vec<_>>(), [false, true]);
    assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(1));
}

/// FR-072: a crash in the middle of a load is unclean, for that directory too.
#[test]
fn a_start_that_was_not_followed_by_a_stop_is_recovered() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    make(&manager, &t(0));
    manager.stop(None).unwrap();
    drop(manager);
    // The process ends without a stop.
    drop(cluster.start());
    let (manager, report) = cluster.start();
    assert!(!report.dirs[0].was_clean);
    assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(1));
}

/// FR-072, fourth input: the marker cannot be taken away.
#[test]
fn a_marker_that_stays_takes_its_directory_offline() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    manager.stop(None).unwrap();
    drop(manager);
    let d2 = cluster.path("d2");
    cluster.faults.set(move |call| match call {
        IoCall::Remove { path, .. } if path.starts_with(&d2) => {
            IoVerdict::Fail(io::Error::from(ErrorKind::PermissionDenied))
        }
        _ => IoVerdict::Proceed,
    });
    let (manager, report) = cluster.start();
    assert!(report.dirs[0].failure.is_none() && report.dirs[1].failure.is_some());
    assert_eq!(manager.live_dirs(), [cluster.path("d1")]);
}

/// FR-059, first input: a directory that is none. Its partitions stay where they are.
#[test]
fn one_bad_disk_takes_its_own_partitions_offline_and_no_others() {
    let cluster = Cluster::new(3);
    let (manager, _) = cluster.start();
    for number in 0..3 {
        make(&manager, &t(number));
    }
    manager.stop(None).unwrap();
    drop(manager);
    fs::remove_dir_all(cluster.path("d2")).unwrap();
    fs::write(cluster.path("d2"), b"a file").unwrap();
    let (manager, report) = cluster.start();
    assert!(report.dirs[1].failure.is_some());
    assert_eq!(manager.live_dirs(), [cluster.path("d1"), cluster.path("d3")]);
    assert_eq!(manager.offline_dirs().len(), 1);
    append(&manager.log(&t(0)).unwrap(), &batch(&[(None, NOW.get())]));
    append(&manager.log(&t(2)).unwrap(), &batch(&[(None, NOW.get())]));
    // It may lie on the disk that is away; a new one cannot.
    let error = manager.get_or_create(&t(1), &NewLog::new()).unwrap_err();
    assert_eq!(error.code(), ErrorCode::KafkaStorageError);
    manager.get_or_create(&t(7), &NewLog::new().is_new()).unwrap();
    let stopped = manager.stop(None).unwrap();
    assert_eq!(
        stopped.dirs.iter().map(|dir| dir.is_clean).collect::<Vec<_>>(),
        [true, false, true]
    );
}

/// FR-059, third input: a disk that turns read-only while in service.
#[test]
fn a_disk_that_turns_read_only_goes_offline_at_the_first_append() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    make(&manager, &t(0));
    make(&manager, &t(1));
    let d1 = cluster.path("d1");
    cluster.faults.set(move |call| match call {
        IoCall::Write { path, .. } if path.starts_with(&d1) => {
            IoVerdict::Fail(io::Error::from(ErrorKind::ReadOnlyFilesystem))
        }
        _ => IoVerdict::Proceed,
    });
    let log = manager.log(&t(0)).unwrap();
    try_append(&log, &batch(&[(None, NOW.get())])).unwrap_err();
    let refused = manager.log(&t(0)).unwrap_err();
    assert!(matches!(refused, ManagerError::Offline { .. }), "{refused:?}");
    let again = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap_err();
    assert!(matches!(again, ManagerError::Offline { .. }), "{again:?}");
    append(&manager.log(&t(1)).unwrap(), &batch(&[(None, NOW.get())]));
    let stopped = manager.stop(None).unwrap();
    assert_eq!(stopped.dirs.iter().map(|dir| dir.is_clean).collect::<Vec<_>>(), [false, true]);
}

/// FR-059: nothing is left to serve from.
#[test]
fn without_any_disk_there_is_no_start() {
    let cluster = Cluster::new(1);
    fs::write(cluster.path("d1"), b"a file").unwrap();
    assert!(matches!(cluster.try_start(), Err(ManagerError::AllOffline)));
}

/// FR-059: a disk that cannot take a new log is passed over.
#[test]
fn a_new_partition_falls_back_to_another_disk() {
    // Permissions do not bind root.
    if rustix::process::geteuid().is_root() {
        let cluster = Cluster::new(2);
        let (manager, _) = cluster.start();
        // A file stands where the partition's directory should be made.
        fs::write(cluster.path("d1/t-0"), b"").unwrap();
        let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
        assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d2"));
        append(&log, &batch(&[(None, NOW.get())]));
        return;
    }
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    fs::set_permissions(cluster.path("d1"), fs::Permissions::from_mode(0o500)).unwrap();
    manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d2"));
    fs::set_permissions(cluster.path("d1"), fs::Permissions::from_mode(0o700)).unwrap();
}

/// FR-057. Kafka refuses to start where a name is no partition's; such an entry is reported and
/// left alone here.
#[test]
fn every_name_that_may_lie_in_a_log_directory_is_known() {
    let cluster = Cluster::new(1);
    let id = "0123456789abcdef0123456789abcdef";
    let long = "x".repeat(249);
    let names = [
        "lost+found".to_owned(),
        ".snapshot".to_owned(),
        "a.b-c-0".to_owned(),
        format!("a-0.{id}-delete"),
        format!("a-0.{id}-future"),
        format!("b-0.{id}-stray"),
        format!("{long}-0"),
        "empty-3".to_owned(),
        "remote-log-index-cache".to_owned(),
        "__cluster_metadata-0".to_owned(),
    ];
    for name in &names {
        fs::create_dir_all(cluster.path("d1").join(name)).unwrap();
    }
    let (manager, report) = cluster.start();
    let mut foreign = report.dirs[0].foreign.clone();
    foreign.sort();
    assert_eq!(foreign, [".snapshot", "lost+found"]);
    assert_eq!(report.dirs[0].stray, [format!("b-0.{id}-stray")]);
    let mut served = manager.partitions();
    served.sort();
    let long = TopicPartition::new(&long, 0);
    assert_eq!(
        served,
        [TopicPartition::new("a.b-c", 0), TopicPartition::new("empty", 3), long.clone()]
    );
    let empty = manager.log(&TopicPartition::new("empty", 3)).unwrap();
    assert_eq!((empty.log_end_offset(), empty.segments().len()), (Offset::new(0), 1));
    manager.delete(&long).unwrap();
    let marked: Vec<_> = cluster.list("d1").into_iter().filter(|it| it.starts_with("xx")).collect();
    assert_eq!(marked.len(), 1);
    assert!(marked[0].ends_with("-delete") && marked[0].len() <= 255, "{}", marked[0]);
    cluster.clock.advance_ms(1000);
    manager.tick();
    let left = cluster.list("d1");
    assert!(!left.iter().any(|name| name.ends_with("-delete")), "{left:?}");
    assert!(left.contains(&format!("a-0.{id}-future")));
}

/// FR-060: damaged checkpoints. Below the recovery point lies damage, below the log start a record:
/// with the checkpoints as they were, nobody would see either.
#[test]
fn a_checkpoint_that_cannot_be_read_gives_the_safe_values() {
    let bad = ["0\n1\n", "0\n2\nt 0 3\n", "1\n1\nt 0 3\n", "0\n1\nt 0 x\n"];
    for text in bad {
        let (safe, count) = ([0, 0, 1], 3);
        assert_eq!(start_over_damage(Some(text)), (safe.map(Offset::new), count), "{text:?}");
    }
    for text in ["", "0\n"] {
        assert_eq!(start_over_damage(Some(text)), ([0, 0, 1].map(Offset::new), 0), "{text:?}");
    }
    assert_eq!(start_over_damage(None), ([1, 3, 4].map(Offset::new), 0), "as they were");
}

/// A log of a sealed segment of three records, the first deleted, the second damaged, and one in
/// the active segment, all of it flushed. Starts it as after a crash, the checkpoints replaced;
/// returns log start, high watermark and log end, and how many checkpoints could not be read.
fn start_over_damage(checkpoints: Option<&str>) -> ([Offset; 3], usize) {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    for _ in 0..3 {
        append(&log, &batch(&[(None, NOW.get())]));
    }
    log.roll().unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    log.update_high_watermark(Offset::new(3)).unwrap();
    log.delete_records(Some(Offset::new(1))).unwrap();
    manager.stop(None).unwrap();
    drop((manager, log));
    fs::remove_file(cluster.path("d1").join(MARKER)).unwrap();
    let path = cluster.path("d1/t-0/00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    let in_the_second = bytes.len() / 3 * 2 - 1;
    bytes[in_the_second] ^= 1;
    fs::write(&path, bytes).unwrap();
    for kind in ["recovery-point", "log-start", "replication"] {
        let path = cluster.path("d1").join(format!("{kind}-offset-checkpoint"));
        assert!(path.exists(), "{kind}");
        if let Some(text) = checkpoints {
            fs::write(path, text).unwrap();
        }
    }
    let (manager, report) = cluster.start();
    let log = manager.log(&t(0)).unwrap();
    let offsets = [log.log_start_offset(), log.high_watermark(), log.log_end_offset()];
    (offsets, report.dirs[0].bad_checkpoints.len())
}

/// FR-060: forms that Kafka reads.
#[test]
fn other_line_ends_and_spaces_in_a_checkpoint_count() {
    for text in ["0\n1\nt 0 1", "0\r\n1\r\nt 0 1\r\n", "0\n1\nt  0  1\n"] {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        make(&manager, &t(0));
        manager.stop(None).unwrap();
        drop(manager);
        fs::write(cluster.path("d1/replication-offset-checkpoint"), text).unwrap();
        let (manager, report) = cluster.start();
        assert!(report.dirs[0].bad_checkpoints.is_empty(), "{text:?}");
        assert_eq!(manager.log(&t(0)).unwrap().high_watermark(), Offset::new(1), "{text:?}");
    }
}

#[test]
fn a_directory_that_somebody_else_uses_is_refused_and_so_is_the_same_one_twice() {
    let mut cluster = Cluster::new(1);
    fs::create_dir(cluster.path("d1")).unwrap();
    let held = DirLock::acquire(&cluster.path("d1")).unwrap();
    assert!(matches!(cluster.try_start(), Err(ManagerError::Locked { .. })));
    drop(held);
    cluster.names = vec!["d1".to_owned(), "d1/../d1".to_owned()];
    assert!(matches!(
        cluster.try_start(),
        Err(ManagerError::SameDir { .. } | ManagerError::Locked { .. })
    ));
}

#[test]
fn a_partition_in_two_directories_is_refused() {
    let cluster = Cluster::new(2);
    for dir in ["d1", "d2"] {
        fs::create_dir_all(cluster.path(dir).join("t-0")).unwrap();
    }
    assert!(matches!(cluster.try_start(), Err(ManagerError::SamePartition { .. })));
}

#[test]
fn a_log_moves_to_another_disk_and_keeps_its_watermark() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    make(&manager, &t(0));
    let log = manager.log(&t(0)).unwrap();
    let future = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    assert!(cluster.list("d2").iter().any(|name| name.ends_with("-future")));
    let mut bytes = Vec::new();
    let fetched = log.read(Offset::new(0), 1000, Isolation::LogEnd, true).unwrap();
    fetched.slice.unwrap().read_to(&mut bytes).unwrap();
    future.append_as_follower(&bytes, LeaderEpoch::new(0)).unwrap();
    cluster.faults.calls.lock().unwrap().clear();
    assert!(future.name().ends_with("-future"));
    let moved = manager.promote_future(&t(0)).unwrap();
    // Found by `cargo xtask crash`: it went by the name of the copy until the next start.
    assert_eq!((moved.name(), future.name()), ("t-0", "t-0"));
    // Found by `cargo xtask crash`: with the old name gone and the new one not durable yet, the
    // log was lost. In between comes a sync of the directory.
    let calls = cluster.faults.calls.lock().unwrap().clone();
    let place = |found: &dyn Fn(&str) -> bool| calls.iter().position(|call| found(call)).unwrap();
    let gained = place(&|call| call == "rename t-0");
    let gone = place(&|call| call.ends_with("-delete"));
    assert!(calls[gained..gone].contains(&"sync-dir".to_owned()), "{calls:?}");
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d2"));
    assert_eq!((moved.log_end_offset(), moved.high_watermark()), (Offset::new(1), Offset::new(1)));
    assert!(cluster.list("d2").contains(&"t-0".to_owned()));
    assert_eq!(cluster.read("d1/recovery-point-offset-checkpoint"), "0\n0\n");
    // Found by `cargo xtask crash`: what the old place had flushed was lost with the old place.
    assert_eq!(moved.recovery_point(), Offset::new(1));
    append(&moved, &batch(&[(None, NOW.get())]));
    manager.stop(None).unwrap();
    drop((manager, moved, log, future));
    let (manager, _) = cluster.start();
    assert_eq!(read(&manager.log(&t(0)).unwrap(), 0).unwrap(), [(0, 0), (1, 1)]);
}

#[test]
fn a_log_of_another_topic_of_the_same_name_is_refused() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let id = |byte| NewLog::new().is_new().topic_id(Uuid::from_bytes([byte; 16]));
    manager.get_or_create(&t(0), &id(7)).unwrap();
    manager.get_or_create(&t(0), &id(7)).unwrap();
    let error = manager.get_or_create(&t(0), &id(8)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InconsistentTopicId);
}

#[test]
fn settings_of_a_topic_change_while_its_logs_are_in_use() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    make(&manager, &t(0));
    let compacted = LogConfig::builder().cleanup_policy(CleanupPolicy::COMPACT).build().unwrap();
    manager.set_topic_config("t", compacted);
    let log = manager.log(&t(0)).unwrap();
    assert!(try_append(&log, &batch(&[(None, NOW.get())])).is_err(), "a key is needed now");
    let later = manager.get_or_create(&t(1), &NewLog::new().is_new()).unwrap();
    assert!(later.config().cleanup_policy().compacts());
    assert!(!manager.config().log_defaults().cleanup_policy().compacts());
}

/// The change comes while the log is opened: it has its settings by then, and is not in service.
#[test]
fn settings_that_change_while_a_log_is_made_are_its_settings() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let compacted = LogConfig::builder().cleanup_policy(CleanupPolicy::COMPACT).build().unwrap();
    let beside = manager.clone();
    cluster.faults.watch(move |call| {
        if matches!(call, IoCall::Open { path, .. } if path.ends_with("leader-epoch-checkpoint")) {
            beside.set_topic_config("t", compacted.clone());
        }
    });
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    cluster.faults.clear();
    assert!(log.config().cleanup_policy().compacts());
}

/// As Kafka's scheduler does with a period of 0.
#[test]
fn a_checkpoint_without_an_interval_is_written_once() {
    let cluster = Cluster::new(1);
    let config = cluster.config().to_builder().high_watermark_interval_ms(0).build().unwrap();
    let (manager, _) = LogManager::options(config).clock(cluster.clock.clone()).start().unwrap();
    make(&manager, &t(0));
    cluster.clock.advance_ms(30_000);
    manager.tick();
    assert_eq!(cluster.read("d1/replication-offset-checkpoint"), "0\n1\nt 0 1\n");
    make(&manager, &t(1));
    cluster.clock.advance_ms(1_000_000);
    manager.tick();
    assert_eq!(cluster.read("d1/replication-offset-checkpoint"), "0\n1\nt 0 1\n");
}

#[test]
fn ticks_write_checkpoints_and_run_retention_when_they_are_due() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    make(&manager, &t(0));
    let log = manager.log(&t(0)).unwrap();
    log.set_config(LogConfig::builder().retention_ms(Some(1)).build().unwrap());
    log.flush(false).unwrap();
    assert_eq!(manager.tick(), 0);
    assert!(!cluster.list("d1").contains(&"replication-offset-checkpoint".to_owned()));
    cluster.clock.advance_ms(30_000);
    assert!(manager.tick() > 0);
    assert_eq!(cluster.read("d1/replication-offset-checkpoint"), "0\n1\nt 0 1\n");
    assert_eq!(cluster.read("d1/recovery-point-offset-checkpoint"), "0\n1\nt 0 1\n");
    assert_eq!(log.log_start_offset(), Offset::new(1));
}
