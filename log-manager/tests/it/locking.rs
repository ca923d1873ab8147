//! What the disk may keep waiting, and what goes on meanwhile.
//!
//! A call of the thread under test is held until an append by another thread has come back: under
//! the writer's lock it never would.

use std::io::ErrorKind;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use alluvium_log_manager::Log;
use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_segment::IoCall;

use crate::batches::{NOW, batch, l3};
use crate::disk::{Disk, append, bases, follow};
use crate::replacing::{first_two, three_sealed};

/// Holds calls of one thread.
struct Held {
    thread: ThreadId,
    ask: Sender<()>,
    answered: Mutex<Receiver<()>>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Held {
    /// Waits for an append.
    fn before(&self, call: &IoCall<'_>) {
        let waits = match call {
            IoCall::Sync { .. } => "sync",
            IoCall::SyncDir { .. } => "sync-dir",
            IoCall::Rename { .. } => "rename",
            IoCall::Remove { .. } => "remove",
            _ => return,
        };
        if thread::current().id() == self.thread {
            self.ask.send(()).unwrap();
            // A lock that is never free fails the test; nothing else comes to this time.
            let answered = self.answered.lock().unwrap();
            answered.recv_timeout(Duration::from_mins(1)).expect(waits);
            self.calls.lock().unwrap().push(waits.to_owned());
        }
    }
}

/// Does the work; at each call that may wait for the disk, an append must come through. Returns
/// these calls.
fn appends_beside(disk: &Disk, log: &Log, work: impl FnOnce()) -> Vec<String> {
    let ((ask, asked), (answer, answered)) = (channel(), channel());
    let (answered, calls) = (Mutex::new(answered), Arc::default());
    let held = Held { thread: thread::current().id(), ask, answered, calls: Arc::clone(&calls) };
    let before = log.log_end_offset().get();
    thread::scope(|scope| {
        scope.spawn(move || {
            while asked.recv() == Ok(()) {
                append(log, &batch(&[(None, NOW.get())]));
                answer.send(()).unwrap();
            }
        });
        disk.faults.watch(move |call| held.before(call));
        work();
        // The hook goes, and the appends end.
        disk.faults.clear();
    });
    let calls = std::mem::take(&mut *calls.lock().unwrap());
    let appended = log.log_end_offset().get() - before;
    assert_eq!(usize::try_from(appended).unwrap(), calls.len(), "one append for each call");
    calls
}

fn count(calls: &[String], wanted: &str) -> usize {
    calls.iter().filter(|call| *call == wanted).count()
}

/// FR-077: the append lock is free at each of them. One new segment for two old ones, of three
/// files each.
#[test]
fn appends_go_on_at_every_rename_and_sync_of_a_replacement() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    let replacement = first_two(&log);
    let calls = appends_beside(&disk, &log, || log.replace_segments(replacement).unwrap());
    assert_eq!(count(&calls, "sync-dir"), 3, "{calls:?}");
    assert!(count(&calls, "rename") >= 12, "{calls:?}");
    assert_eq!(bases(&log), [0, 6, 9]);
    let log = disk.reopen(log);
    assert_eq!(bases(&log), [0, 6, 9]);
}

/// A roll beside a replacement adds to the list that the replacement changes.
#[test]
fn segments_that_roll_in_beside_a_replacement_stay() {
    let disk = Disk::new();
    let log = three_sealed(&disk);
    let replacement = first_two(&log);
    let rolling = log.clone();
    disk.faults.watch(move |call| {
        if matches!(call, IoCall::SyncDir { .. }) {
            append(&rolling, &batch(&[(None, NOW.get())]));
            rolling.roll().unwrap();
        }
    });
    log.replace_segments(replacement).unwrap();
    disk.faults.clear();
    assert_eq!(bases(&log), [0, 6, 9, 10, 11, 12]);
}

/// All syncs of a long retention under the writer's lock kept appends waiting for as long.
#[test]
fn appends_go_on_at_every_rename_and_sync_of_retention() {
    const COUNT: usize = 100;
    let disk = Disk::with(|config| config.retention_bytes(Some(0)));
    let log = disk.open_clean();
    for _ in 0..COUNT {
        append(&log, &batch(&[(None, NOW.get())]));
        log.roll().unwrap();
    }
    disk.tasks.run_due();
    log.update_high_watermark(log.log_end_offset()).unwrap();
    let calls = appends_beside(&disk, &log, || {
        assert_eq!(log.delete_old_segments().unwrap(), COUNT);
    });
    assert!(count(&calls, "rename") >= 3 * COUNT, "{calls:?}");
    assert_eq!(bases(&log)[0], i64::try_from(COUNT).unwrap());
    let calls = appends_beside(&disk, &log, || {
        disk.clock.advance_ms(1000);
        disk.tasks.run_due();
    });
    assert!(count(&calls, "remove") >= 3 * COUNT, "{calls:?}");
    assert!(!disk.names().iter().any(|name| name.ends_with(".deleted")));
}

/// FR-077, its inputs: first segment and flush, roll and flush, and what follows a roll.
#[test]
fn appends_go_on_at_every_sync_of_a_flush_and_a_roll_makes_none() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3()[0]);
    let calls = appends_beside(&disk, &log, || log.flush(false).unwrap());
    assert!(count(&calls, "sync") >= 1 && count(&calls, "sync-dir") >= 1, "{calls:?}");
    disk.faults.calls.lock().unwrap().clear();
    log.roll().unwrap();
    assert_eq!(*disk.faults.calls.lock().unwrap(), [""; 0]);
    let calls = appends_beside(&disk, &log, || {
        disk.tasks.run_due();
    });
    assert!(count(&calls, "sync") >= 1 && count(&calls, "sync-dir") >= 1, "{calls:?}");
    log.assign_epoch(LeaderEpoch::new(9), log.log_end_offset()).unwrap();
    let calls = appends_beside(&disk, &log, || {
        disk.tasks.run_due();
    });
    assert!(count(&calls, "rename") >= 1, "the epochs: {calls:?}");
}

/// A change of sealed segments and the close exclude each other; appends are refused meanwhile.
#[test]
fn a_close_beside_retention_stops_it_at_the_next_segment() {
    let disk = Disk::with(|config| config.retention_bytes(Some(0)));
    let log = three_sealed(&disk);
    let ((begin, begun), closing) = (channel(), log.clone());
    let closer = thread::spawn(move || {
        begun.recv().unwrap();
        closing.close().unwrap()
    });
    let watched = log.clone();
    disk.faults.watch(move |call| {
        if let IoCall::Rename { to, .. } = call
            && to.ends_with("00000000000000000000.log.deleted")
        {
            begin.send(()).unwrap();
            // A close that never comes fails the test.
            let given_up = Instant::now() + Duration::from_mins(1);
            while watched.cleaning_view().is_ok() {
                assert!(Instant::now() < given_up, "no close");
                thread::yield_now();
            }
        }
    });
    let deleted = log.delete_old_segments();
    assert!(deleted.is_err(), "{deleted:?}");
    let closed = closer.join().unwrap();
    disk.faults.clear();
    assert!(closed.clean);
    assert_eq!(closed.log_start_offset, Offset::new(9));
    drop(log);
    let log = disk.options().after_close(&closed).open(disk.dir()).unwrap();
    assert_eq!((bases(&log), log.log_start_offset()), (vec![3, 6, 9], Offset::new(9)));
}

/// As after a close that succeeds: who closed it may open the directory anew, and nothing of the
/// old log touches its files any more.
#[test]
fn nothing_runs_in_the_background_of_a_log_whose_close_has_failed() {
    // What is on the disk ahead of the end goes when the segment is sealed.
    let disk = Disk::with(|config| config.retention_bytes(Some(0)).preallocate(true));
    let log = three_sealed(&disk);
    log.update_high_watermark(log.log_end_offset()).unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    assert!(log.delete_old_segments().unwrap() > 0);
    let is_marked = |name: &String| name.ends_with(".deleted");
    let marked = disk.names().into_iter().filter(is_marked).count();
    disk.faults.fail_once(ErrorKind::Other, |call| matches!(call, IoCall::SetLen { .. }));
    log.close().unwrap_err();
    disk.clock.advance_ms(1000);
    disk.tasks.run_due();
    assert!(marked > 0);
    assert_eq!(disk.names().into_iter().filter(is_marked).count(), marked);
}
