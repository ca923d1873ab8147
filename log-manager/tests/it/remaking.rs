//! A log that is made under the name of another one that is gone: what the checkpoints still say of
//! that one does not count for it.

use std::fs;

use alluvium_log_manager::{Log, LogManager, NewLog, StartReport};
use alluvium_record_format::Offset;

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::{append, read};

/// A log of ten records of which two are left.
fn with_two_left(manager: &LogManager) -> Log {
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    append_all(&log, 10);
    log.update_high_watermark(Offset::new(10)).unwrap();
    log.delete_records(Some(Offset::new(8))).unwrap();
    log
}

/// A stop that is clean leaves such a log on the disk.
fn stopped_with_two_left(cluster: &Cluster) {
    let (manager, _) = cluster.start();
    with_two_left(&manager);
    manager.stop(None).unwrap();
}

fn append_all(log: &Log, count: usize) {
    for _ in 0..count {
        append(log, &batch(&[(None, NOW.get())]));
    }
}

const KINDS: [&str; 3] = ["recovery-point", "log-start", "replication"];

/// What the checkpoints of a directory say of the partition.
fn said(cluster: &Cluster, dir: &str) -> Vec<String> {
    let lines = |kind| {
        let text = cluster.read(&format!("{dir}/{kind}-offset-checkpoint"));
        text.lines().filter(|line| line.starts_with("t 0 ")).map(str::to_owned).collect()
    };
    KINDS.into_iter().flat_map::<Vec<String>, _>(lines).collect()
}

const OLD: [&str; 3] = ["t 0 10", "t 0 8", "t 0 10"];

/// Makes the log again with three flushed records, and ends without a stop.
fn make_again_and_crash(cluster: &Cluster, (manager, _): (LogManager, StartReport), dir: &str) {
    assert_eq!(said(cluster, dir), OLD);
    let new = NewLog::new().is_new().dir(cluster.path(dir));
    let log = manager.get_or_create(&t(0), &new).unwrap();
    assert_eq!(said(cluster, dir), [""; 0]);
    append_all(&log, 3);
    log.flush(false).unwrap();
}

fn holds_three(cluster: &Cluster) {
    let (manager, report) = cluster.start();
    let loaded = &report.dirs.iter().find(|dir| !dir.loaded.is_empty()).unwrap().loaded[0].1;
    let log = manager.log(&t(0)).unwrap();
    assert_eq!(read(&log, 0).unwrap(), [(0, 0), (1, 1), (2, 2)]);
    assert_eq!((log.log_start_offset(), log.high_watermark()), (Offset::new(0), Offset::new(0)));
    assert_eq!(loaded.recovered.len(), 1, "{report:?}");
}

#[test]
fn it_keeps_its_records_where_the_old_directory_was_removed_while_the_broker_was_down() {
    let cluster = Cluster::new(1);
    stopped_with_two_left(&cluster);
    fs::remove_dir_all(cluster.path("d1/t-0")).unwrap();
    make_again_and_crash(&cluster, cluster.start(), "d1");
    holds_three(&cluster);
}

#[test]
fn it_keeps_its_records_where_the_start_has_set_the_old_one_aside() {
    let cluster = Cluster::new(1);
    stopped_with_two_left(&cluster);
    let started = cluster.options().stray_when(|_, _| true).start().unwrap();
    assert_eq!(started.1.dirs[0].stray.len(), 1);
    make_again_and_crash(&cluster, started, "d1");
    holds_three(&cluster);
}

/// The process ends between the rename of the directory and the checkpoints.
#[test]
fn it_keeps_its_records_where_the_deletion_of_the_old_one_was_killed_half_way() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    with_two_left(&manager).flush(false).unwrap();
    manager.write_checkpoints();
    drop(manager);
    let delete = cluster.path(&format!("d1/t-0.{:032x}-delete", 1));
    fs::create_dir(&delete).unwrap();
    for entry in fs::read_dir(cluster.path("d1/t-0")).unwrap() {
        let from = entry.unwrap().path();
        fs::copy(&from, delete.join(from.file_name().unwrap())).unwrap();
    }
    fs::remove_dir_all(cluster.path("d1/t-0")).unwrap();
    make_again_and_crash(&cluster, cluster.start(), "d1");
    holds_three(&cluster);
}

/// Of the directory that somebody has put there nothing is known either.
#[test]
fn it_keeps_its_records_where_a_directory_came_back_while_the_broker_ran() {
    let cluster = Cluster::new(1);
    stopped_with_two_left(&cluster);
    fs::remove_dir_all(cluster.path("d1/t-0")).unwrap();
    let started = cluster.start();
    fs::create_dir(cluster.path("d1/t-0")).unwrap();
    make_again_and_crash(&cluster, started, "d1");
    holds_three(&cluster);
}

#[test]
fn a_log_of_a_new_name_costs_no_write_of_a_checkpoint() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    with_two_left(&manager).flush(false).unwrap();
    manager.write_checkpoints();
    cluster.faults.calls.lock().unwrap().clear();
    manager.get_or_create(&t(1), &NewLog::new().is_new()).unwrap();
    let calls = cluster.faults.calls.lock().unwrap().clone();
    assert!(!calls.iter().any(|call| call.contains("checkpoint")), "{calls:?}");
    assert_eq!(said(&cluster, "d1"), OLD);
}
