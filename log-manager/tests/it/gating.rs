//! What a cleaner is told of a log that is cut, moved or deleted, and when.

use std::sync::{Arc, Mutex, OnceLock};

use alluvium_log_manager::{CleaningGate, Isolation, LogManager, NewLog};
use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::TopicPartition;

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::append;

/// Notes what a cleaner is told, and how the log was when it was told to keep off.
#[derive(Debug, Default)]
struct Told {
    notes: Mutex<Vec<String>>,
    manager: OnceLock<LogManager>,
}

impl Told {
    fn note(&self, note: String) {
        self.notes.lock().unwrap().push(note);
    }

    /// What was noted since it was asked last.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.notes.lock().unwrap())
    }
}

impl CleaningGate for Told {
    fn pause(&self, partition: &TopicPartition) {
        self.note(format!("pause {partition}"));
    }

    fn abort_and_pause(&self, partition: &TopicPartition) {
        let log = self.manager.get().unwrap().log(partition).unwrap();
        let is_there = log.dir().path().is_dir();
        let (name, end) = (log.name(), log.log_end_offset());
        self.note(format!("abort {partition}: {name} ends at {end}, is there: {is_there}"));
    }

    fn resume(&self, partition: &TopicPartition) {
        self.note(format!("resume {partition}"));
    }

    fn checkpoint_moved(&self, partition: &TopicPartition, to: Option<Offset>) {
        let to = to.map(Offset::get);
        self.note(format!("{partition} is clean to {to:?}"));
    }
}

#[test]
fn a_cleaner_is_kept_off_before_a_log_is_cut_moved_deleted_or_set_aside() {
    let cluster = Cluster::new(2);
    let told = Arc::new(Told::default());
    let gate: Arc<dyn CleaningGate> = Arc::<Told>::clone(&told);
    let (manager, _) = cluster.options().cleaning_gate(gate).start().unwrap();
    told.manager.set(manager.clone()).unwrap();
    let new = NewLog::new().is_new();
    let log = manager.get_or_create(&t(0), &new).unwrap();
    // Of another log of this name, if there was one.
    assert_eq!(told.take(), ["t-0 is clean to None"]);
    let kept_off = |end: i64, clean: &str| {
        let abort = format!("abort t-0: t-0 ends at {end}, is there: true");
        [abort, format!("t-0 is clean to {clean}"), "resume t-0".to_owned()]
    };

    append(&log, &batch(&[(None, NOW.get())]));
    append(&log, &batch(&[(None, NOW.get())]));
    assert!(manager.truncate_to(&t(0), Offset::new(1)).unwrap());
    assert_eq!(told.take(), kept_off(2, "Some(0)"));

    // As long as a copy is on its way.
    let future = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    assert_eq!(told.take(), ["abort t-0: t-0 ends at 1, is there: true"]);
    let mut bytes = Vec::new();
    let fetched = log.read(Offset::new(0), 1000, Isolation::LogEnd, true).unwrap();
    fetched.slice.unwrap().read_to(&mut bytes).unwrap();
    future.append_as_follower(&bytes, LeaderEpoch::new(0)).unwrap();
    manager.promote_future(&t(0)).unwrap();
    let mut moved = told.take();
    assert_eq!(moved.pop().unwrap(), "resume t-0", "of the copy");
    assert_eq!(moved, kept_off(1, "Some(1)"));

    manager.truncate_fully_and_start_at(&t(0), Offset::new(7), None).unwrap();
    assert_eq!(told.take(), kept_off(1, "Some(7)"));

    manager.delete(&t(0)).unwrap();
    assert_eq!(told.take(), kept_off(7, "None"));

    manager.get_or_create(&t(0), &new).unwrap();
    told.take();
    manager.set_aside(&t(0)).unwrap();
    assert_eq!(told.take(), kept_off(0, "None"));
}

/// Moves the log when the first one wants it left alone, as another thread may.
#[derive(Debug, Default)]
struct MovesMeanwhile(Mutex<Option<LogManager>>);

impl CleaningGate for MovesMeanwhile {
    fn pause(&self, _partition: &TopicPartition) {}

    fn abort_and_pause(&self, partition: &TopicPartition) {
        let manager = self.0.lock().unwrap().take();
        if let Some(manager) = manager {
            manager.promote_future(partition).unwrap();
        }
    }

    fn resume(&self, _partition: &TopicPartition) {}
}

#[test]
fn a_cut_beside_a_move_cuts_the_log_where_it_is_then_and_keeps_how_far_it_is_clean() {
    let cluster = Cluster::new(2);
    let moves = Arc::new(MovesMeanwhile::default());
    let gate: Arc<dyn CleaningGate> = Arc::<MovesMeanwhile>::clone(&moves);
    let (manager, _) = cluster.options().cleaning_gate(gate).start().unwrap();
    let log =
        manager.get_or_create(&t(0), &NewLog::new().is_new().dir(cluster.path("d1"))).unwrap();
    let copy = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    for log in [&log, &copy] {
        for _ in 0..3 {
            append(log, &batch(&[(None, NOW.get())]));
            log.roll().unwrap();
        }
    }
    manager.set_cleaner_checkpoint(&t(0), Offset::new(1)).unwrap();
    *moves.0.lock().unwrap() = Some(manager.clone());
    assert!(manager.truncate_to(&t(0), Offset::new(2)).unwrap());
    assert_eq!(copy.log_end_offset(), Offset::new(2));
    assert_eq!(manager.dir_of(&t(0)).unwrap(), cluster.path("d2"));
    assert_eq!(manager.cleaner_checkpoint(&t(0)).unwrap(), Some(Offset::new(1)));
}
