//! Many segments that retention drops at once, and what a power cut brings back of them.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use alluvium_log_manager::{
    Isolation, LeaderRequest, Log, LogConfig, LogError, LogManager, NewLog,
};
use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_segment::{Io, IoCall, IoVerdict};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::{bases, read};

const COUNT: i64 = 8;

/// A log of eight segments with one record each, and an empty active one; all of them are to go.
fn eight(manager: &LogManager) -> Log {
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    fill(&log);
    log
}

/// Gives an empty log eight segments, all of which are to go.
fn fill(log: &Log) {
    for _ in 0..COUNT {
        let request = LeaderRequest::new(LeaderEpoch::new(0));
        log.append_as_leader(&mut batch(&[(None, NOW.get())]), request).unwrap();
        log.roll().unwrap();
    }
    log.flush(true).unwrap();
    log.update_high_watermark(log.log_end_offset()).unwrap();
    log.set_config(keep(Some(0)));
}

fn keep(retention_bytes: Option<u64>) -> LogConfig {
    let config = LogConfig::builder().segment_index_bytes(1024).retention_ms(None);
    config.retention_bytes(retention_bytes).build().unwrap()
}

/// What was done since the last call.
fn calls(cluster: &Cluster) -> Vec<String> {
    std::mem::take(&mut *cluster.faults.calls.lock().unwrap())
}

fn position(calls: &[String], wanted: &str) -> usize {
    calls.iter().position(|call| call == wanted).unwrap_or_else(|| panic!("{wanted}: {calls:?}"))
}

#[test]
fn the_log_start_is_durable_before_the_first_of_many_segments_goes_and_one_sync_does_for_all() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = eight(&manager);
    calls(&cluster);
    assert_eq!(log.delete_old_segments().unwrap(), 8);
    let calls = calls(&cluster);
    let kept = position(&calls, "rename log-start-offset-checkpoint");
    assert_eq!(calls[kept + 1], "sync-dir", "{calls:?}");
    assert_eq!(calls[kept + 2], "rename 00000000000000000000.log.deleted", "{calls:?}");
    let syncs = calls.iter().filter(|call| *call == "sync-dir").count();
    assert_eq!((syncs, calls.last().unwrap().as_str()), (2, "sync-dir"), "{calls:?}");
    assert_eq!(cluster.read("d1/log-start-offset-checkpoint"), "0\n1\nt 0 8\n");
    manager.write_checkpoints();
    assert_eq!(cluster.read("d1/log-start-offset-checkpoint"), "0\n0\n", "it begins there now");
}

/// Until the names are synced the list begins below the log start, so a checkpoint that is written
/// meanwhile keeps it.
#[test]
fn the_list_begins_below_the_log_start_until_the_loss_is_durable() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = eight(&manager);
    let (seen, beside) = (Arc::new(Mutex::new(Vec::new())), manager.clone());
    let (told, mut is_first) = (Arc::clone(&seen), true);
    cluster.faults.set(move |call| {
        let is_names = matches!(call, IoCall::SyncDir { path, .. } if path.ends_with("t-0"));
        if is_names && std::mem::take(&mut is_first) {
            let log = beside.log(&t(0)).unwrap();
            *told.lock().unwrap() = vec![bases(&log)[0], log.log_start_offset().get()];
        }
        IoVerdict::Proceed
    });
    log.delete_old_segments().unwrap();
    cluster.faults.clear();
    // A checkpoint leaves out a log whose first segment begins at its start.
    assert_eq!(*seen.lock().unwrap(), [0, 8]);
}

/// Each pattern of bits is one disk: which of the eight segments have come back.
#[test]
fn whatever_comes_back_in_a_power_cut_is_below_the_log_start_and_goes() {
    for back in [0b0000_0001, 0b0101_0101, 0b1000_0000, 0b1010_1010, 0b0111_1110, 0b1111_1111] {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        let log = eight(&manager);
        assert_eq!(log.delete_old_segments().unwrap(), 8);
        log.set_config(keep(None));
        let request = LeaderRequest::new(LeaderEpoch::new(0));
        log.append_as_leader(&mut batch(&[(None, NOW.get())]), request).unwrap();
        drop((log, manager));
        let dir = cluster.path("d1/t-0");
        for base in (0..COUNT).filter(|base| back >> base & 1 == 1) {
            for extension in ["log", "index", "timeindex"] {
                let file = dir.join(format!("{base:020}.{extension}"));
                let mut deleted = file.clone().into_os_string();
                deleted.push(".deleted");
                // Of one of them, the index does not come back.
                if (base, extension) != (4, "index") {
                    Io::new().rename(deleted.as_ref(), &file).unwrap();
                }
            }
        }
        let (manager, report) = cluster.start();
        assert!(report.dirs[0].failure.is_none(), "{report:?}");
        let log = manager.log(&t(0)).unwrap();
        assert_eq!(log.log_start_offset(), Offset::new(8), "{back:b}");
        assert_eq!(read(&log, 8).unwrap(), [(8, 8)]);
        let below = log.read(Offset::new(7), 1 << 20, Isolation::LogEnd, true);
        assert!(below.is_err(), "{below:?}");
        log.update_high_watermark(Offset::new(9)).unwrap();
        log.delete_old_segments().unwrap();
        assert_eq!(bases(&log), [8], "{back:b}");
    }
}

/// What is to make room must not need any.
#[test]
fn where_a_full_disk_takes_no_log_start_each_loss_is_durable_before_the_next() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = eight(&manager);
    calls(&cluster);
    cluster.faults.set(|call| match call {
        IoCall::Write { path, .. } if path.to_string_lossy().contains("log-start-offset") => {
            IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull))
        }
        _ => IoVerdict::Proceed,
    });
    assert_eq!(log.delete_old_segments().unwrap(), 8);
    let calls = calls(&cluster);
    for (below, above) in (0..COUNT).zip(1..COUNT) {
        let below = position(&calls, &format!("rename {below:020}.timeindex.deleted"));
        let above = position(&calls, &format!("rename {above:020}.log.deleted"));
        assert!(calls[below..above].contains(&"sync-dir".to_owned()), "{calls:?}");
    }
    cluster.faults.clear();
    assert_eq!(manager.offline_dirs(), []);
}

#[test]
fn where_the_log_start_cannot_be_written_nothing_is_dropped_and_the_disk_goes_offline() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = eight(&manager);
    calls(&cluster);
    cluster.faults.fail_once(
        ErrorKind::Other,
        |call| matches!(call, IoCall::SyncDir { path, .. } if path.ends_with("d1")),
    );
    log.delete_old_segments().unwrap_err();
    let calls = calls(&cluster);
    assert!(!calls.iter().any(|call| call.ends_with(".deleted")), "{calls:?}");
    assert_eq!(manager.offline_dirs().len(), 1);
}

/// The manager takes its logs out of service under a lock that every checkpoint needs, and a
/// retention that has one written waits for that.
#[test]
fn a_disk_that_fails_beside_a_retention_is_retired_at_once() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = eight(&manager);
    let other = manager.get_or_create(&t(1), &NewLog::new().is_new()).unwrap();
    let ((begin, begun), (tell, told)) = (mpsc::channel(), mpsc::channel());
    let told = Mutex::new(told);
    cluster.faults.watch(move |call| {
        if matches!(call, IoCall::Write { path, .. } if path.to_string_lossy().contains("log-start"))
        {
            begin.send(()).unwrap();
            // A tick that never comes back fails the test.
            told.lock().unwrap().recv_timeout(Duration::from_mins(1)).unwrap();
        }
    });
    thread::scope(|scope| {
        let manager = &manager;
        scope.spawn(move || {
            begun.recv().unwrap();
            drop(other.dir_failed(LogError::NotDeletable));
            manager.tick();
            tell.send(()).unwrap();
        });
        log.delete_old_segments().unwrap_err();
    });
    assert_eq!(manager.offline_dirs().len(), 1);
}

/// The next start would find the old log start above the end, and drop what was flushed below it. A
/// checkpoint that is written beside the cut must not bring it back.
#[test]
fn a_log_start_that_goes_back_is_lowered_where_it_is_kept_before_anything_is_cut() {
    for cut in ["fully", "to 3", "fully, beside checkpoints"] {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        let log = eight(&manager);
        assert_eq!(log.delete_old_segments().unwrap(), 8);
        log.set_config(keep(None));
        assert_eq!(cluster.read("d1/log-start-offset-checkpoint"), "0\n1\nt 0 8\n", "{cut}");
        let beside = manager.clone();
        cluster.faults.watch(move |call| {
            let is_names = matches!(call, IoCall::SyncDir { path, .. } if path.ends_with("t-0"));
            if is_names && cut.ends_with("checkpoints") {
                beside.write_checkpoints();
            }
        });
        calls(&cluster);
        if cut.starts_with("to 3") {
            assert!(log.truncate_to(Offset::new(3)).unwrap());
        } else {
            log.truncate_fully_and_start_at(Offset::new(3), None).unwrap();
        }
        cluster.faults.clear();
        let calls = calls(&cluster);
        let lowered = position(&calls, "rename log-start-offset-checkpoint");
        assert!(lowered < position(&calls, "rename 00000000000000000008.log.deleted"), "{calls:?}");
        let request = LeaderRequest::new(LeaderEpoch::new(0));
        log.append_as_leader(&mut batch(&[(None, NOW.get())]), request).unwrap();
        log.flush(false).unwrap();
        drop((log, manager));
        let (manager, _) = cluster.start();
        let log = manager.log(&t(0)).unwrap();
        let found = (log.log_start_offset().get(), log.log_end_offset().get());
        assert_eq!(found, (3, 4), "{cut}");
        assert_eq!(read(&log, 3).unwrap(), [(3, 3)], "{cut}");
    }
}

/// It shares the name of its partition with the log, on another disk.
#[test]
fn retention_keeps_the_log_start_of_a_copy_on_its_way_on_the_disk_of_the_copy() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    let log = manager.get_or_create(&t(0), &NewLog::new().dir(cluster.path("d1"))).unwrap();
    manager.write_checkpoints();
    let copy = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    fill(&copy);
    assert_eq!(copy.delete_old_segments().unwrap(), 8);
    assert_eq!(cluster.read("d2/log-start-offset-checkpoint"), "0\n1\nt 0 8\n");
    assert_eq!(cluster.read("d1/log-start-offset-checkpoint"), "0\n0\n");
    assert_eq!((copy.log_start_offset(), log.log_start_offset()), (Offset::new(8), Offset::new(0)));
}

/// Between two rounds of it; a truncation waited for all of them.
#[test]
fn a_truncation_comes_in_between_where_very_many_segments_go() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    for _ in 0..501 {
        let request = LeaderRequest::new(LeaderEpoch::new(0));
        log.append_as_leader(&mut batch(&[(None, NOW.get())]), request).unwrap();
        log.roll().unwrap();
    }
    log.update_high_watermark(log.log_end_offset()).unwrap();
    log.set_config(keep(Some(0)));
    calls(&cluster);
    assert_eq!(log.delete_old_segments().unwrap(), 501);
    let calls = calls(&cluster);
    let syncs = calls.iter().filter(|call| *call == "sync-dir").count();
    // The snapshots that stay, the log start and the names for the first 500, the names for the
    // last.
    assert_eq!((syncs, bases(&log)), (4, vec![501]));
}
