//! What a cleaner is told of a log that is cut, moved or deleted.

use std::sync::{Arc, Mutex};

use alluvium_log_manager::{CleaningGate, Isolation, LogManager, NewLog};
use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::TopicPartition;

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::append;

/// Notes what a cleaner is told.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl CleaningGate for Told {
    fn pause(&self, partition: &TopicPartition) {
        self.0.lock().unwrap().push(format!("pause {partition}"));
    }

    fn abort_and_pause(&self, partition: &TopicPartition) {
        self.0.lock().unwrap().push(format!("abort {partition}"));
    }

    fn resume(&self, partition: &TopicPartition) {
        self.0.lock().unwrap().push(format!("resume {partition}"));
    }

    fn checkpoint_moved(&self, partition: &TopicPartition, to: Option<Offset>) {
        let to = to.map(Offset::get);
        self.0.lock().unwrap().push(format!("{partition} is clean to {to:?}"));
    }
}

#[test]
fn a_cleaner_is_kept_off_a_log_that_is_cut_moved_or_deleted() {
    let cluster = Cluster::new(2);
    let told = Arc::new(Told::default());
    let gate: Arc<dyn CleaningGate> = Arc::<Told>::clone(&told);
    let options = LogManager::options(cluster.config()).cleaning_gate(gate);
    let (manager, _) = options.start().unwrap();
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    append(&log, &batch(&[(None, NOW.get())]));
    assert!(manager.truncate_to(&t(0), Offset::new(1)).unwrap());
    let future = manager.create_future(&t(0), cluster.path("d2")).unwrap();
    let mut bytes = Vec::new();
    let fetched = log.read(Offset::new(0), 1000, Isolation::LogEnd, true).unwrap();
    fetched.slice.unwrap().read_to(&mut bytes).unwrap();
    future.append_as_follower(&bytes, LeaderEpoch::new(0)).unwrap();
    manager.promote_future(&t(0)).unwrap();
    manager.delete(&t(0)).unwrap();
    let expected = [
        // Of another log of this name, if there was one.
        "t-0 is clean to None",
        "abort t-0",
        "t-0 is clean to Some(0)",
        "resume t-0",
        // A copy is made: the cleaner may come back when it has taken the place.
        "abort t-0",
        "abort t-0",
        "t-0 is clean to Some(1)",
        "resume t-0",
        "resume t-0",
        "abort t-0",
        "t-0 is clean to None",
        "resume t-0",
    ];
    assert_eq!(*told.0.lock().unwrap(), expected);
}
