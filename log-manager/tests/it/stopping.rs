//! What goes on beside a stop, and after it.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;

use alluvium_log_manager::{Clock, Log, LogConfig, LogManager, ManagerError, ManualClock, NewLog};
use alluvium_record_format::{Offset, Timestamp};
use alluvium_recovery::TopicPartition;
use alluvium_segment::{IoCall, IoVerdict};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::{append, is_about, try_append};

/// A log of three records, all of them below the high watermark, of which the first is deleted.
fn with_deleted_record(manager: &LogManager, partition: &TopicPartition) -> Log {
    let log = manager.get_or_create(partition, &NewLog::new().is_new()).unwrap();
    for _ in 0..3 {
        append(&log, &batch(&[(None, NOW.get())]));
    }
    log.update_high_watermark(Offset::new(3)).unwrap();
    log.delete_records(Some(Offset::new(1))).unwrap();
    log
}

/// What the checkpoints of `d1` say, without their version and count.
fn checkpoints(cluster: &Cluster) -> [String; 3] {
    ["recovery-point", "log-start", "replication"].map(|kind| {
        let text = cluster.read(&format!("d1/{kind}-offset-checkpoint"));
        text.splitn(3, '\n').last().unwrap().to_owned()
    })
}

const SAID: [&str; 3] = ["t 0 3\n", "t 0 1\n", "t 0 3\n"];

#[test]
fn checkpoints_that_are_asked_for_after_the_stop_are_not_written() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    with_deleted_record(&manager, &t(0));
    manager.stop(None).unwrap();
    assert_eq!(checkpoints(&cluster), SAID);
    manager.write_checkpoints();
    assert_eq!(checkpoints(&cluster), SAID);
    drop(manager);
    let (manager, report) = cluster.start();
    assert!(report.dirs[0].was_clean);
    let log = manager.log(&t(0)).unwrap();
    assert_eq!((log.log_start_offset(), log.high_watermark()), (Offset::new(1), Offset::new(3)));
}

/// Stops the thread that asks it for the time where a test has said so.
#[derive(Debug)]
struct HeldClock {
    clock: Arc<ManualClock>,
    held: Mutex<Option<(Sender<()>, Receiver<()>)>>,
}

impl Clock for HeldClock {
    fn now(&self) -> Timestamp {
        let held = self.held.lock().unwrap().take();
        if let Some((is_here, may_go)) = held {
            is_here.send(()).unwrap();
            may_go.recv().unwrap();
        }
        self.clock.now()
    }
}

#[test]
fn a_tick_that_a_stop_overtakes_writes_and_removes_nothing() {
    let cluster = Cluster::new(1);
    let clock = Arc::new(HeldClock { clock: Arc::clone(&cluster.clock), held: Mutex::default() });
    let shown: Arc<dyn Clock> = Arc::<HeldClock>::clone(&clock);
    let (manager, _) = cluster.options().clock(shown).start().unwrap();
    with_deleted_record(&manager, &t(0));
    manager.get_or_create(&t(1), &NewLog::new().is_new()).unwrap();
    manager.delete(&t(1)).unwrap();
    cluster.clock.advance_ms(3_600_000);
    let (is_here, came) = mpsc::channel();
    let (go, may_go) = mpsc::channel();
    *clock.held.lock().unwrap() = Some((is_here, may_go));
    let tasks = thread::scope(|scope| {
        let tick = scope.spawn(|| manager.tick());
        came.recv().unwrap();
        assert!(manager.stop(None).unwrap().dirs[0].is_clean);
        go.send(()).unwrap();
        tick.join().unwrap()
    });
    assert!(tasks > 0, "everything was due");
    assert_eq!(checkpoints(&cluster), SAID);
    let left = cluster.list("d1");
    assert!(left.iter().any(|name| name.ends_with("-delete")), "{left:?}");
    assert_eq!(manager.tick(), 0, "nothing runs after the stop");
    drop(manager);
    let (manager, _) = cluster.start();
    assert_eq!(manager.log(&t(0)).unwrap().log_start_offset(), Offset::new(1));
}

/// The same where the disk fails: its logs go out of service while its checkpoints are written.
#[test]
fn a_disk_that_fails_while_its_checkpoints_are_written_keeps_what_they_said() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = with_deleted_record(&manager, &t(0));
    log.flush(false).unwrap();
    manager.write_checkpoints();
    assert_eq!(checkpoints(&cluster), SAID);
    cluster.faults.set(|call| match call {
        IoCall::Write { .. } if is_about(call, "log") => {
            IoVerdict::Fail(io::Error::from(ErrorKind::ReadOnlyFilesystem))
        }
        _ => IoVerdict::Proceed,
    });
    let others = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let is_first = AtomicBool::new(true);
        let (came, is_here) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let held = Mutex::new((came, may_go));
        cluster.faults.watch(move |call| {
            let is_checkpoint = matches!(call, IoCall::Rename { .. });
            if is_checkpoint && is_first.swap(false, Ordering::AcqRel) {
                let held = held.lock().unwrap();
                held.0.send(()).unwrap();
                held.1.recv().unwrap();
            }
        });
        let writes = scope.spawn(|| manager.write_checkpoints());
        is_here.recv().unwrap();
        // The first of the three is being written.
        scope.spawn(|| {
            try_append(&log, &batch(&[(None, NOW.get())])).unwrap_err();
            others.lock().unwrap().extend(manager.log(&t(0)).err());
        });
        while !manager.partitions().is_empty() {
            thread::yield_now();
        }
        let refused = manager.log(&t(0)).unwrap_err();
        assert!(matches!(refused, ManagerError::Offline { .. }), "{refused:?}");
        go.send(()).unwrap();
        writes.join().unwrap();
    });
    cluster.faults.clear();
    assert!(matches!(others.into_inner().unwrap()[..], [ManagerError::Offline { .. }]));
    assert_eq!(checkpoints(&cluster), SAID);
    drop((manager, log));
    let (manager, _) = cluster.start();
    let log = manager.log(&t(0)).unwrap();
    assert_eq!((log.log_start_offset(), log.high_watermark()), (Offset::new(1), Offset::new(3)));
}

/// FR-056, second input: the stop comes while retention runs.
#[test]
fn a_stop_beside_retention_is_clean() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    let nothing_stays = LogConfig::builder()
        .segment_index_bytes(1024)
        .retention_ms(None)
        .retention_bytes(Some(0))
        .build()
        .unwrap();
    manager.set_topic_config("t", nothing_stays);
    for number in 0..50 {
        let log = manager.get_or_create(&t(number), &NewLog::new().is_new()).unwrap();
        for _ in 0..3 {
            append(&log, &batch(&[(None, NOW.get())]));
            log.roll().unwrap();
        }
        log.update_high_watermark(Offset::new(3)).unwrap();
    }
    let (began, has_begun) = mpsc::channel();
    let began = Mutex::new(began);
    cluster.faults.watch(move |call| {
        if let IoCall::Rename { to, .. } = call
            && to.extension().is_some_and(|extension| extension == "deleted")
        {
            // Only the first is waited for.
            let _ = began.lock().unwrap().send(());
        }
    });
    cluster.clock.advance_ms(30_000);
    let stopped = thread::scope(|scope| {
        scope.spawn(|| manager.tick());
        has_begun.recv().unwrap();
        manager.stop(None).unwrap()
    });
    assert!(stopped.dirs.iter().all(|dir| dir.is_clean), "{stopped:?}");
    assert_eq!(manager.offline_dirs(), []);
    for (dir, parity) in [("d1", 0), ("d2", 1)] {
        let ours = (0..50).filter(|number| number % 2 == parity);
        let lines: Vec<_> = ours.map(|number| format!("t {number} 3")).collect();
        for kind in ["recovery-point", "replication"] {
            let text = cluster.read(&format!("{dir}/{kind}-offset-checkpoint"));
            assert_eq!(text.lines().skip(2).collect::<Vec<_>>(), lines, "{dir}: {kind}");
        }
    }
    cluster.faults.clear();
    drop(manager);
    let (manager, report) = cluster.start();
    assert!(report.dirs.iter().all(|dir| dir.was_clean), "{report:?}");
    let logs = (0..50).map(|number| manager.log(&t(number)).unwrap());
    let ranges: Vec<_> = logs.map(|log| (log.log_start_offset(), log.log_end_offset())).collect();
    assert!(ranges.iter().all(|(_, end)| *end == Offset::new(3)), "{ranges:?}");
    assert!(ranges.iter().any(|(start, _)| *start == Offset::new(3)), "retention has run");
}
