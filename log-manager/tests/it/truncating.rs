//! Cutting the end of a log off.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use alluvium_log_manager::{
    DirHealth, ErrorCode, Isolation, LogError, NewLog, OffsetKeeper, OffsetQuery,
};
use alluvium_record_format::{LeaderEpoch, Offset, Timestamp, TxnOutcome};
use alluvium_recovery::{FileError, replace_file};
use alluvium_segment::{Io, IoCall, IoVerdict};

use crate::batches::{NOW, at_offset, batch, l3, marker, transactional};
use crate::cluster::{Cluster, t};
use crate::disk::{Disk, append, append_marker, bases, follow, is_about, read, read_as};

/// FR-049.
#[test]
fn a_batch_goes_as_a_whole_and_the_log_ends_at_the_target() {
    let [first, second, third] = l3();
    for batches in [vec![&first, &second, &third], vec![&first, &third]] {
        let disk = Disk::new();
        let log = disk.open_clean();
        for each in batches {
            follow(&log, each);
        }
        assert!(log.truncate_to(Offset::new(4)).unwrap());
        assert_eq!(log.log_end_offset(), Offset::new(4));
        assert_eq!(log.size_bytes(), 118);
        assert_eq!(disk.file("00000000000000000000.log"), first);
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch::new(0)));
        // The largest time that is left, and room in the indexes for what follows.
        let found = log.offset_for(OffsetQuery::MaxTimestamp).unwrap().unwrap();
        assert_eq!(found.timestamp, Some(Timestamp::new(1002)));
        follow(&log, &at_offset(second.clone(), 4));
        assert_eq!(read(&log, 3).unwrap(), [(4, 6)]);
        assert_eq!(bases(&log), [0]);
    }
}

/// A consumer that is told so begins anew somewhere else. Its bound lies behind the new end until
/// the cut is durable and the writer moves it.
#[test]
fn a_truncation_under_way_tells_no_reader_that_its_offset_is_out_of_range() {
    for isolation in [Isolation::HighWatermark, Isolation::TxnCommitted] {
        let disk = Disk::new();
        let log = disk.open_clean();
        for _ in 0..3 {
            append(&log, &batch(&[(None, NOW.get())]));
        }
        append(&log, &transactional(7, 0));
        append(&log, &batch(&[(None, NOW.get())]));
        // After a restart nobody knows where the watermark lies.
        let log = disk.reopen(log);
        log.update_high_watermark(Offset::new(4)).unwrap();
        let reader = log.clone();
        let found: Arc<Mutex<Vec<_>>> = Arc::default();
        let during = Arc::clone(&found);
        disk.faults.watch(move |call| {
            if matches!(call, IoCall::Sync { .. } | IoCall::SyncDir { .. })
                && reader.log_end_offset() < reader.high_watermark()
            {
                let read = read_as(&reader, 0, isolation);
                during.lock().unwrap().push(read.map_err(|error| error.code()));
            }
        });
        assert!(log.truncate_to(Offset::new(1)).unwrap());
        disk.faults.clear();
        let found = found.lock().unwrap();
        assert!(!found.is_empty(), "the cut is synced");
        let is_kept = |read: &Vec<(i64, i64)>| read.is_empty() || *read == [(0, 0)];
        assert!(found.iter().all(|read| read.as_ref().is_ok_and(is_kept)), "{found:?}");
        assert_eq!(read_as(&log, 0, isolation).unwrap(), [(0, 0)]);
    }
}

/// A roll asks for a flush up to its offset, which the log has not got any more, and gets again
/// while the flush runs.
#[test]
fn a_flush_of_what_was_cut_off_counts_nothing_as_durable_that_comes_beside_it() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for _ in 0..3 {
        append(&log, &batch(&[(None, NOW.get())]));
    }
    disk.tasks.run_due();
    log.roll().unwrap();
    assert!(log.truncate_to(Offset::new(2)).unwrap());
    let (writer, appended) = (log.clone(), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&appended);
    disk.faults.watch(move |call| {
        let is_log = matches!(call, IoCall::Sync { .. }) && is_about(call, "log");
        if matches!(call, IoCall::Sync { .. } | IoCall::SyncDir { .. }) && !is_log {
            append(&writer, &batch(&[(None, NOW.get())]));
            *count.lock().unwrap() += 1;
        }
    });
    disk.tasks.run_due();
    disk.faults.clear();
    assert_ne!(*appended.lock().unwrap(), 0, "something is synced behind the log");
    assert_eq!(log.log_end_offset(), Offset::new(2 + *appended.lock().unwrap()));
    assert_eq!((log.recovery_point(), log.durable_offset()), (Offset::new(2), Offset::new(2)));
}

/// Stopped before any of its renames, as by a crash: a hole would hide what was never there.
#[test]
fn a_truncation_that_stops_half_way_leaves_no_hole() {
    let segments = 6;
    for (is_all, stops) in [(false, 5), (true, 6)] {
        for left in 0..stops {
            let disk = Disk::new();
            let log = disk.open_clean();
            for _ in 0..segments {
                append(&log, &batch(&[(None, NOW.get())]));
                log.roll().unwrap();
            }
            log.flush(true).unwrap();
            let mut renames = 0;
            disk.faults.set(move |call| match call {
                IoCall::Rename { to, .. } if to.to_string_lossy().ends_with(".log.deleted") => {
                    renames += 1;
                    if renames > left { fail() } else { IoVerdict::Proceed }
                }
                IoCall::SetLen { .. } if renames > left => fail(),
                _ => IoVerdict::Proceed,
            });
            let cut = if is_all {
                log.truncate_fully_and_start_at(Offset::new(0), None)
            } else {
                log.truncate_to(Offset::new(1)).map(|_| ())
            };
            assert!(cut.is_err(), "{left}");
            drop(log);
            disk.faults.clear();
            let log = disk.open_unclean();
            let end = log.log_end_offset().get();
            let found = (0..end).map(|offset| read(&log, offset).unwrap()[0].0);
            assert!(found.eq(0..end), "{is_all} {left}: no hole below {end}");
            assert!(end >= 1, "{is_all} {left}: the oldest go last");
        }
    }
}

/// A power cut keeps a loss only with all that was lost before it.
#[test]
fn segments_go_from_the_newest_on_and_each_loss_is_durable_before_the_next() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for _ in 0..4 {
        append(&log, &batch(&[(None, NOW.get())]));
        log.roll().unwrap();
    }
    log.flush(true).unwrap();
    let calls = || std::mem::take(&mut *disk.faults.calls.lock().unwrap());
    calls();
    assert!(log.truncate_to(Offset::new(1)).unwrap());
    let made = calls();
    let of_logs = made.iter().filter(|call| *call == "sync-dir" || call.ends_with(".log.deleted"));
    let expected =
        [4, 3, 2].map(|base| [format!("rename {base:020}.log.deleted"), "sync-dir".to_owned()]);
    assert!(of_logs.eq(expected.as_flattened()), "{made:?}");
}

fn fail() -> IoVerdict {
    IoVerdict::Fail(std::io::ErrorKind::Other.into())
}

/// FR-049.
#[test]
fn truncation_to_0_leaves_an_empty_log() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    assert!(log.truncate_to(Offset::new(0)).unwrap());
    assert_eq!((log.log_end_offset(), log.size_bytes()), (Offset::new(0), 0));
    assert_eq!(log.latest_epoch(), None);
}

/// FR-049.
#[test]
fn truncation_at_or_past_the_end_removes_nothing() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    for target in [9, 100] {
        assert!(!log.truncate_to(Offset::new(target)).unwrap());
        assert_eq!((log.log_end_offset(), log.size_bytes()), (Offset::new(9), 354));
    }
}

/// FR-088.
#[test]
fn truncation_at_or_past_the_end_still_trims_epochs() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let mut batch = at_offset(batch(&[(None, 1), (None, 2)]), 27);
    batch[12..16].copy_from_slice(&19_i32.to_be_bytes());
    log.append_as_follower(&batch, LeaderEpoch::new(19)).unwrap();
    for (epoch, target) in [(20, 29), (24, 30)] {
        log.assign_epoch(LeaderEpoch::new(epoch), Offset::new(29)).unwrap();
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch::new(epoch)));
        log.truncate_to(Offset::new(target)).unwrap();
        assert_eq!(log.latest_epoch(), Some(LeaderEpoch::new(19)));
        assert_eq!(log.log_end_offset(), Offset::new(29));
        disk.tasks.run_due();
        assert_eq!(disk.file("leader-epoch-checkpoint"), b"0\n1\n19 27\n");
    }
}

#[test]
fn truncation_below_the_first_segment_starts_the_log_anew() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &at_offset(l3()[0].clone(), 100));
    log.roll().unwrap();
    log.update_high_watermark(Offset::new(103)).unwrap();
    log.increment_log_start_offset(Offset::new(103)).unwrap();
    log.delete_old_segments().unwrap();
    assert_eq!(bases(&log), [103]);
    assert!(log.truncate_to(Offset::new(50)).unwrap());
    assert_eq!(bases(&log), [50]);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset::new(50), Offset::new(50)));
    assert_eq!(log.high_watermark(), Offset::new(50));
}

#[test]
fn segments_behind_the_target_go_with_their_snapshots() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for batch in l3() {
        follow(&log, &batch);
        log.roll().unwrap();
    }
    assert_eq!(bases(&log), [0, 3, 6, 9]);
    log.truncate_to(Offset::new(4)).unwrap();
    assert_eq!(bases(&log), [0, 3]);
    disk.clock.advance_ms(1000);
    disk.tasks.run_due();
    let left: Vec<_> = disk
        .names()
        .into_iter()
        .filter(|name| {
            name.starts_with("00000000000000000006") || name.starts_with("00000000000000000009")
        })
        .collect();
    assert_eq!(left, [""; 0]);
}

/// Found by `cargo xtask crash`: a cut that a power failure undid brought the old records back,
/// below and above those that were appended after it.
#[test]
fn a_truncation_is_durable_before_anything_is_appended() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for _ in 0..3 {
        append(&log, &batch(&[(None, NOW.get())]));
    }
    log.roll().unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    let calls = || std::mem::take(&mut *disk.faults.calls.lock().unwrap());
    calls();
    log.truncate_to(Offset::new(2)).unwrap();
    let made = calls();
    let renamed = made.iter().rposition(|call| call.starts_with("rename")).unwrap();
    let cut = made.iter().position(|call| call == "sync 00000000000000000000.log").unwrap();
    let named = made.iter().rposition(|call| call == "sync-dir").unwrap();
    assert!(renamed < named && named < cut, "{made:?}");

    log.truncate_fully_and_start_at(Offset::new(1), None).unwrap();
    assert!(calls().contains(&"sync-dir".to_owned()));
}

/// Found by `cargo xtask crash`: an epoch that was cut off came back from the file, and lay over
/// what a follower had appended in an older one.
#[test]
fn epochs_that_are_cut_off_are_gone_from_their_file_when_the_truncation_returns() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for base in [0, 3] {
        follow(&log, &at_offset(l3()[0].clone(), base));
    }
    let epochs = || disk.file("leader-epoch-checkpoint");
    for target in [6, 3] {
        log.assign_epoch(LeaderEpoch::new(7), Offset::new(target)).unwrap();
        disk.tasks.run_due();
        assert!(epochs().ends_with(format!("7 {target}\n").as_bytes()), "{target}");
        disk.faults.calls.lock().unwrap().clear();
        log.truncate_to(Offset::new(target)).unwrap();
        assert_eq!(epochs(), b"0\n1\n0 0\n", "{target}");
        let calls = disk.faults.calls.lock().unwrap();
        let at = |wanted: &str| calls.iter().rposition(|call| call == wanted).unwrap();
        assert!(at("rename leader-epoch-checkpoint") < at("sync-dir"), "{calls:?}");
    }
    log.truncate_fully_and_start_at(Offset::new(9), None).unwrap();
    assert_eq!(epochs(), b"0\n0\n");
}

/// Found by `cargo xtask crash`: the entry came back, and the marker that took the place of its own
/// said that the records are committed.
#[test]
fn a_transaction_that_is_cut_off_is_gone_from_its_index_when_the_truncation_returns() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &transactional(1, 0));
    append_marker(&log, &marker(1, TxnOutcome::Abort)).unwrap();
    log.flush(false).unwrap();
    disk.faults.calls.lock().unwrap().clear();
    log.truncate_to(Offset::new(1)).unwrap();
    let calls = disk.faults.calls.lock().unwrap();
    assert!(calls.contains(&"sync 00000000000000000000.txnindex".to_owned()), "{calls:?}");
}

/// Notes what it is told, and how long the log file was then; or fails.
#[derive(Debug)]
struct Keeper {
    log: PathBuf,
    told: Mutex<Vec<(i64, u64)>>,
    fails: bool,
}

impl Keeper {
    fn of(disk: &Disk, fails: bool) -> Arc<Self> {
        let log = disk.dir().join("00000000000000000000.log");
        Arc::new(Self { log, told: Mutex::default(), fails })
    }
}

impl OffsetKeeper for Keeper {
    fn lower(&self, offset: Offset) -> Result<(), FileError> {
        let len = fs::metadata(&self.log).unwrap().len();
        self.told.lock().unwrap().push((offset.get(), len));
        // There is no such directory.
        if self.fails { replace_file(&Io::new(), &self.log.join("kept"), b"") } else { Ok(()) }
    }
}

/// Found by `cargo xtask crash`: a cut clears the rest of its block before the new length is
/// durable; after a power failure in between, the damage lay below a recovery point from where a
/// start looks.
#[test]
fn the_recovery_point_is_lowered_where_it_is_kept_before_anything_is_cut() {
    let disk = Disk::new();
    let keeper = Keeper::of(&disk, false);
    let kept: Arc<dyn OffsetKeeper> = Arc::<Keeper>::clone(&keeper);
    let log = disk.options().clean(true).offset_keeper(kept).open(disk.dir()).unwrap();
    let told = || std::mem::take(&mut *keeper.told.lock().unwrap());
    follow(&log, &l3().concat());
    log.truncate_to(Offset::new(6)).unwrap();
    assert_eq!(told(), [], "nothing was durable yet");
    log.flush(false).unwrap();
    log.truncate_to(Offset::new(6)).unwrap();
    assert_eq!(told(), [], "nothing is cut");
    log.truncate_to(Offset::new(4)).unwrap();
    assert_eq!(told(), [(4, 236)], "the file still has both batches");
    assert_eq!((log.size_bytes(), log.recovery_point()), (118, Offset::new(4)));
    log.flush(false).unwrap();
    log.truncate_fully_and_start_at(Offset::new(1), None).unwrap();
    assert_eq!(told(), [(1, 118)]);
}

#[test]
fn nothing_is_cut_where_the_recovery_point_cannot_be_lowered() {
    let disk = Disk::new();
    let keeper = Keeper::of(&disk, true);
    let log = disk.options().clean(true).offset_keeper(keeper).open(disk.dir()).unwrap();
    follow(&log, &l3()[0]);
    log.flush(false).unwrap();
    let refused = log.truncate_to(Offset::new(0)).unwrap_err();
    assert!(matches!(refused, LogError::Offline { .. }), "{refused:?}");
    assert_eq!(refused.code(), ErrorCode::KafkaStorageError);
    assert_eq!(disk.file("00000000000000000000.log"), l3()[0]);
}

/// Recovery cuts of itself: what it ends below of was never durable, or damaged.
#[test]
fn a_log_is_not_opened_where_the_recovery_point_cannot_be_lowered_to_what_is_left() {
    let disk = Disk::new();
    let [first, second, _] = l3();
    let torn = [&first[..], &second[..50]].concat();
    for fails in [false, true] {
        disk.put(&[("00000000000000000000.log", &torn)]);
        let keeper = Keeper::of(&disk, fails);
        let kept: Arc<dyn OffsetKeeper> = Arc::<Keeper>::clone(&keeper);
        let health = DirHealth::new(disk.dir().parent().unwrap());
        let options = disk.options().recovery_point(Offset::new(6)).offset_keeper(kept);
        let opened = options.health(health.clone()).open(disk.dir());
        assert_eq!(*keeper.told.lock().unwrap(), [(3, 118)], "the file is cut by then");
        assert_eq!(health.failure().is_some(), fails);
        match opened {
            Ok(log) => assert_eq!((fails, log.recovery_point()), (false, Offset::new(3))),
            Err(error) => assert!(matches!(error, LogError::Offline { .. }), "{error:?}"),
        }
    }
}

/// A checkpoint names all logs of its directory and costs two syncs.
#[test]
fn a_truncation_through_the_manager_writes_the_checkpoint_once() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    for _ in 0..3 {
        append(&log, &batch(&[(None, NOW.get())]));
    }
    log.flush(false).unwrap();
    manager.write_checkpoints();
    let written = || {
        let calls = std::mem::take(&mut *cluster.faults.calls.lock().unwrap());
        let renamed = "rename recovery-point-offset-checkpoint";
        calls.iter().filter(|call| *call == renamed).count()
    };
    written();
    manager.truncate_to(&t(0), Offset::new(2)).unwrap();
    assert_eq!(written(), 1);
    manager.truncate_fully_and_start_at(&t(0), Offset::new(1), None).unwrap();
    assert_eq!(written(), 1);
    assert_eq!(cluster.read("d1/recovery-point-offset-checkpoint"), "0\n1\nt 0 1\n");
    // What is kept lies below already.
    manager.truncate_fully_and_start_at(&t(0), Offset::new(7), None).unwrap();
    assert_eq!(cluster.read("d1/recovery-point-offset-checkpoint"), "0\n1\nt 0 1\n");
}

/// The log itself is cut, not through the manager, as a follower may.
#[test]
fn a_truncation_of_a_log_lowers_its_recovery_point_in_the_checkpoint_and_no_other() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let checkpoint = || cluster.read("d1/recovery-point-offset-checkpoint");
    for number in [0, 1] {
        let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
        for _ in 0..2 {
            append(&log, &batch(&[(None, NOW.get())]));
        }
        log.flush(false).unwrap();
    }
    manager.write_checkpoints();
    assert_eq!(checkpoint(), "0\n2\nt 0 2\nt 1 2\n");
    manager.log(&t(0)).unwrap().truncate_to(Offset::new(1)).unwrap();
    assert_eq!(checkpoint(), "0\n2\nt 0 1\nt 1 2\n");
    drop(manager);
    // Also after a start that has read it.
    let (manager, _) = cluster.start();
    manager.log(&t(1)).unwrap().truncate_to(Offset::new(0)).unwrap();
    assert_eq!(checkpoint(), "0\n2\nt 0 1\nt 1 0\n");
}

/// Kafka forgets it where nobody has asked for it since the start, and finds no record by time.
#[test]
fn a_cut_that_empties_the_time_index_keeps_the_largest_time() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let [first, second] = [NOW.get() - 9, NOW.get() - 5];
    append(&log, &batch(&[(None, first)]));
    append(&log, &batch(&[(None, second)]));
    let log = disk.reopen(log);
    assert!(log.truncate_to(Offset::new(1)).unwrap());
    let found = |time| log.offset_for(OffsetQuery::AtOrAfter(Timestamp::new(time))).unwrap();
    assert_eq!(found(first).map(|found| found.offset), Some(Offset::new(0)));
    assert_eq!(found(second), None);
    log.roll().unwrap();
    let times = disk.file("00000000000000000000.timeindex");
    assert_eq!(times, [first.to_be_bytes().as_slice(), &[0; 4]].concat());
}
