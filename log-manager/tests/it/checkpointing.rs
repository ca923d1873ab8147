//! Checkpoints of a directory, written by several threads.

use std::thread;

use alluvium_log_manager::NewLog;

use crate::cluster::{Cluster, t};

/// Found by `cargo xtask clients --soak`: a tick and the deletion of a topic wrote the same
/// checkpoint at the same time, one renamed the other's temporary file, and the disk went offline.
#[test]
fn checkpoints_that_are_written_at_the_same_time_leave_the_disk_in_service() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    thread::scope(|scope| {
        for worker in 0..3 {
            let manager = &manager;
            scope.spawn(move || {
                for round in 0..8 {
                    let partition = t(worker * 100 + round);
                    manager.get_or_create(&partition, &NewLog::new().is_new()).unwrap();
                    manager.write_checkpoints();
                    manager.delete(&partition).unwrap();
                }
            });
        }
    });
    assert_eq!(manager.offline_dirs(), []);
}
