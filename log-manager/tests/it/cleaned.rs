//! The cleaner's checkpoint: what cuts, moves and deletions do to it, also where nobody cleans.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use alluvium_log_manager::{Log, LogManager, ManagerError, NewLog};
use alluvium_record_format::Offset;
use alluvium_segment::{IoCall, IoVerdict};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::append;
use crate::moving::with_copy;

const CHECKPOINT: &str = "cleaner-offset-checkpoint";

/// `t-0` on `d1` with three records in a segment each.
fn make(cluster: &Cluster) -> (LogManager, Log) {
    let (manager, _) = cluster.start();
    let new = NewLog::new().is_new().dir(cluster.path("d1"));
    let log = manager.get_or_create(&t(0), &new).unwrap();
    for _ in 0..3 {
        append(&log, &batch(&[(None, NOW.get())]));
        log.roll().unwrap();
    }
    log.update_high_watermark(log.log_end_offset()).unwrap();
    log.flush(true).unwrap();
    (manager, log)
}

/// What the files of `d1` and `d2` say of `t-0`.
fn written(cluster: &Cluster) -> [Option<i64>; 2] {
    ["d1", "d2"].map(|disk| {
        let text = fs::read_to_string(cluster.path(disk).join(CHECKPOINT)).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix("t 0 ")?.parse().ok())
    })
}

fn offline(manager: &LogManager) -> Vec<PathBuf> {
    manager.offline_dirs().into_iter().map(|(dir, _)| dir).collect()
}

/// No checkpoint of the cleaner can be written on this disk.
fn refuse_checkpoints(cluster: &Cluster, disk: &str) {
    let file = cluster.path(disk).join(CHECKPOINT);
    cluster.faults.set(move |call| match call {
        IoCall::Rename { to, .. } if *to == file => {
            IoVerdict::Fail(io::Error::from(ErrorKind::Other))
        }
        _ => IoVerdict::Proceed,
    });
}

/// The cleaner may come later, or be Kafka's: new records below the old value would count as clean.
#[test]
fn a_cut_lowers_the_checkpoint_also_where_nobody_cleans() {
    let cluster = Cluster::new(1);
    let (manager, log) = make(&cluster);
    manager.set_cleaner_checkpoint(&t(0), Offset::new(3)).unwrap();
    drop((manager, log));
    let (manager, _) = cluster.start();
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), Some(Offset::new(3)));
    manager.truncate_to(&t(0), Offset::new(2)).unwrap();
    drop(manager); // killed
    assert_eq!(written(&cluster), [Some(2), None]);
    let (manager, _) = cluster.start();
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), Some(Offset::new(2)));
    manager.truncate_fully_and_start_at(&t(0), Offset::new(1), None).unwrap();
    assert_eq!(written(&cluster), [Some(1), None]);
}

/// A file that could not be read at the start says the same again at the next one.
#[test]
fn a_cut_lowers_the_checkpoint_that_the_start_could_not_read() {
    let cluster = Cluster::new(1);
    let (manager, log) = make(&cluster);
    manager.set_cleaner_checkpoint(&t(0), Offset::new(3)).unwrap();
    drop((manager, log));
    cluster.faults.set(|call| match call {
        IoCall::Open { path, create: false, .. } | IoCall::Read { path, .. }
            if path.ends_with(CHECKPOINT) =>
        {
            IoVerdict::Fail(io::Error::from(ErrorKind::Other))
        }
        _ => IoVerdict::Proceed,
    });
    let (manager, report) = cluster.start();
    assert_eq!(report.dirs[0].bad_checkpoints.len(), 1);
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), None);
    cluster.faults.clear();
    manager.truncate_to(&t(0), Offset::new(1)).unwrap();
    drop(manager); // killed
    let (manager, _) = cluster.start();
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), None);
}

#[test]
fn a_log_that_is_new_deleted_or_set_aside_is_in_no_checkpoint() {
    type End = fn(&LogManager);
    let ends: [End; 2] = [
        |manager| manager.delete(&t(0)).unwrap(),
        |manager| drop(manager.set_aside(&t(0)).unwrap()),
    ];
    for end in ends {
        let cluster = Cluster::new(2);
        for disk in ["d1", "d2"] {
            fs::create_dir(cluster.path(disk)).unwrap();
            fs::write(cluster.path(disk).join(CHECKPOINT), "0\n1\nt 0 9\n").unwrap();
        }
        let (manager, _log) = make(&cluster);
        assert_eq!(written(&cluster), [None, None]);
        manager.set_cleaner_checkpoint(&t(0), Offset::new(3)).unwrap();
        assert_eq!(written(&cluster), [Some(3), None]);
        end(&manager);
        assert_eq!(written(&cluster), [None, None]);
    }
}

#[test]
fn a_checkpoint_that_is_written_speaks_of_the_logs_of_its_directory_alone() {
    let cluster = Cluster::new(2);
    let (manager, log) = make(&cluster);
    let new = NewLog::new().is_new().dir(cluster.path("d2"));
    for number in [1, 2] {
        manager.get_or_create(&t(number), &new).unwrap();
    }
    manager.stop(None).unwrap();
    drop((manager, log));
    // Cannot be loaded; that does not make it clean or dirty.
    let broken = cluster.path("d2/t-2/00000000000000000000.log");
    fs::remove_file(&broken).unwrap();
    fs::create_dir(&broken).unwrap();
    let text = "0\n3\nt 1 0\nt 2 7\ngone 0 5\n";
    fs::write(cluster.path("d2").join(CHECKPOINT), text).unwrap();
    let (manager, _) = cluster.start();
    manager.set_cleaner_checkpoint(&t(1), Offset::new(0)).unwrap();
    assert_eq!(cluster.read(&format!("d2/{CHECKPOINT}")), text, "it says so already");
    manager.set_cleaner_checkpoint(&t(1), Offset::new(1)).unwrap();
    let mut lines: Vec<_> =
        cluster.read(&format!("d2/{CHECKPOINT}")).lines().map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines, ["0", "2", "t 1 1", "t 2 7"]);
}

#[test]
fn once_the_logs_are_closed_no_checkpoint_is_written_and_no_disk_blamed() {
    let cluster = Cluster::new(1);
    let (manager, log) = make(&cluster);
    manager.stop(None).unwrap();
    manager.set_cleaner_checkpoint(&t(0), Offset::new(3)).unwrap_err();
    assert_eq!(written(&cluster), [None, None]);
    assert!(offline(&manager).is_empty());
    drop(log);
}

#[test]
fn a_log_that_moves_takes_its_checkpoint_along_before_it_is_there() {
    let cluster = Cluster::new(2);
    let (manager, _log, _copy) = with_copy(&cluster);
    manager.set_cleaner_checkpoint(&t(0), Offset::new(1)).unwrap();
    assert_eq!(written(&cluster), [Some(1), None]);
    cluster.faults.calls.lock().unwrap().clear();
    manager.promote_future(&t(0)).unwrap();
    assert_eq!(written(&cluster), [None, Some(1)]);
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), Some(Offset::new(1)));
    let calls = cluster.faults.calls.lock().unwrap();
    let mut steps: Vec<_> = calls.iter().map(|call| call.split('.').next().unwrap()).collect();
    steps.retain(|step| step.contains(CHECKPOINT) || step.starts_with("rename t-0"));
    let renamed = |step: &&&str| step.starts_with("rename ");
    let steps: Vec<_> = steps.iter().filter(renamed).map(|step| &step[7..]).collect();
    assert_eq!(steps, [CHECKPOINT, CHECKPOINT, "t-0", "t-0"]);
}

/// From each system call of a promotion on nothing works any more, then the process is killed.
#[test]
fn after_a_crash_at_any_step_of_a_move_the_log_is_no_cleaner_than_it_was() {
    let mut seen = [0; 3];
    for steps in 0_usize.. {
        let cluster = Cluster::new(2);
        let (manager, log, copy) = with_copy(&cluster);
        manager.set_cleaner_checkpoint(&t(0), Offset::new(1)).unwrap();
        let mut left = steps;
        cluster.faults.set(move |call| {
            if matches!(call, IoCall::Read { .. } | IoCall::Open { create: false, .. }) {
                return IoVerdict::Proceed;
            }
            match left.checked_sub(1) {
                Some(fewer) => left = fewer,
                None => return IoVerdict::Fail(io::Error::other("gone")),
            }
            IoVerdict::Proceed
        });
        let is_whole = manager.promote_future(&t(0)).is_ok() && offline(&manager).is_empty();
        drop((manager, log, copy));
        cluster.faults.clear();
        // Kafka's cleaner would end.
        assert!(written(&cluster).contains(&None), "after {steps} steps");
        match cluster.try_start() {
            Ok((manager, _)) => {
                let said = manager.cleaner_checkpoint(&t(0)).unwrap().map(Offset::get);
                let has_moved = manager.dir_of(&t(0)).unwrap() == cluster.path("d2");
                let files = if has_moved { [None, Some(1)] } else { [said, None] };
                assert_eq!(written(&cluster), files, "after {steps} steps");
                // Unless the crash came while it was on its way.
                assert!(said.is_none_or(|said| said == 1), "after {steps} steps");
                seen[usize::from(has_moved)] += 1;
            }
            // A person must choose.
            Err(ManagerError::SamePartition { .. }) => {
                assert_eq!(written(&cluster), [None, Some(1)], "after {steps} steps");
                seen[2] += 1;
            }
            Err(error) => panic!("{error} after {steps} steps"),
        }
        if is_whole {
            break;
        }
    }
    assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
}

/// What it says there is of another life of the log, and would count once the copy is the log.
#[test]
fn a_copy_whose_log_is_lost_is_cleaned_from_its_start() {
    let cluster = Cluster::new(2);
    let (manager, log, copy) = with_copy(&cluster);
    manager.stop(None).unwrap();
    drop((manager, log, copy));
    // The log is lost: nothing is known of what it had been cleaned to.
    fs::remove_dir_all(cluster.path("d1/t-0")).unwrap();
    for disk in ["d1", "d2"] {
        fs::write(cluster.path(disk).join(CHECKPOINT), "0\n1\nt 0 2\n").unwrap();
    }
    let (manager, _) = cluster.start();
    manager.promote_future(&t(0)).unwrap();
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), None);
    assert_eq!(written(&cluster)[1], None);
}

#[test]
fn a_copy_stays_one_where_its_disk_cannot_write_the_checkpoint() {
    let cluster = Cluster::new(2);
    let (manager, log, copy) = with_copy(&cluster);
    manager.set_cleaner_checkpoint(&t(0), Offset::new(1)).unwrap();
    refuse_checkpoints(&cluster, "d2");
    let refused = manager.promote_future(&t(0)).unwrap_err();
    assert!(matches!(refused, ManagerError::Offline { .. }), "{refused:?}");
    assert_eq!(offline(&manager), [cluster.path("d2")]);
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d1"));
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), Some(Offset::new(1)));
    assert_eq!(written(&cluster), [Some(1), None]);
    // There are no two directories of one name.
    drop((manager, log, copy));
    cluster.faults.clear();
    let (manager, _) = cluster.start();
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), Some(Offset::new(1)));
    manager.promote_future(&t(0)).unwrap();
    assert_eq!(written(&cluster), [None, Some(1)]);
}

/// What an unclean start cut off counted as clean, and new records in its place.
#[test]
fn a_checkpoint_above_the_end_of_the_log_goes_with_the_start() {
    let cluster = Cluster::new(2);
    let (manager, log) = make(&cluster);
    drop((manager, log));
    fs::write(cluster.path("d1").join(CHECKPOINT), "0\n1\nt 0 9\n").unwrap();
    let (manager, _) = cluster.start();
    assert_eq!(written(&cluster)[0], None);
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), None);
}

/// The new disk went offline with the next truncation, or this one, for the file of the old one.
#[test]
fn a_former_disk_that_cannot_write_its_checkpoint_goes_offline_and_not_the_log() {
    let cluster = Cluster::new(2);
    let (manager, _log, _copy) = with_copy(&cluster);
    manager.set_cleaner_checkpoint(&t(0), Offset::new(1)).unwrap();
    refuse_checkpoints(&cluster, "d1");
    let moved = manager.promote_future(&t(0)).unwrap();
    assert_eq!(offline(&manager), [cluster.path("d1")]);
    assert_eq!(written(&cluster), [Some(1), Some(1)]);
    manager.truncate_to(&t(0), Offset::new(0)).unwrap();
    assert_eq!(moved.log_end_offset(), Offset::new(0));
    assert_eq!(offline(&manager), [cluster.path("d1")]);
    assert_eq!(written(&cluster), [Some(1), Some(0)]);
}

/// A disk that comes back, or a crash in the middle of a move. Kafka's cleaner ends where two files
/// speak of one partition.
#[test]
fn what_another_disk_says_of_a_log_goes_with_the_start_or_the_disk_goes_offline_alone() {
    for is_refused in [false, true] {
        let cluster = Cluster::new(2);
        let (manager, log) = make(&cluster);
        manager.set_cleaner_checkpoint(&t(0), Offset::new(3)).unwrap();
        drop((manager, log));
        let stale = "0\n2\nt 0 9\ngone 0 5\n";
        fs::write(cluster.path("d2").join(CHECKPOINT), stale).unwrap();
        if is_refused {
            refuse_checkpoints(&cluster, "d2");
        }
        let (manager, _) = cluster.start();
        let failed: &[PathBuf] = if is_refused { &[cluster.path("d2")] } else { &[] };
        assert_eq!(offline(&manager), failed);
        let left = if is_refused { stale } else { "0\n1\ngone 0 5\n" };
        assert_eq!(cluster.read(&format!("d2/{CHECKPOINT}")), left);
        manager.truncate_to(&t(0), Offset::new(1)).unwrap();
        assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(1));
        assert_eq!(written(&cluster)[0], Some(1));
        assert_eq!(offline(&manager), failed);
    }
}

#[test]
fn a_log_is_not_cut_where_its_own_disk_cannot_write_the_checkpoint() {
    let cluster = Cluster::new(2);
    let (manager, log) = make(&cluster);
    manager.set_cleaner_checkpoint(&t(0), Offset::new(3)).unwrap();
    refuse_checkpoints(&cluster, "d1");
    let refused = manager.truncate_to(&t(0), Offset::new(1)).unwrap_err();
    assert!(matches!(refused, ManagerError::Offline { .. }), "{refused:?}");
    assert_eq!(offline(&manager), [cluster.path("d1")]);
    cluster.faults.clear();
    drop((manager, log));
    let (manager, _) = cluster.start();
    assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(3));
    assert_eq!(written(&cluster), [Some(3), None]);
}

#[test]
fn a_log_whose_move_fails_is_as_clean_as_before() {
    let cluster = Cluster::new(2);
    let (manager, _log, _copy) = with_copy(&cluster);
    manager.set_cleaner_checkpoint(&t(0), Offset::new(1)).unwrap();
    // The name of the log is taken: the move fails at its last step.
    fs::create_dir(cluster.path("d2/t-0")).unwrap();
    fs::write(cluster.path("d2/t-0/stale"), b"").unwrap();
    manager.promote_future(&t(0)).unwrap_err();
    assert_eq!(written(&cluster), [Some(1), None]);
    manager.delete_future(&t(0)).unwrap();
    assert_eq!(written(&cluster), [Some(1), None]);
}
