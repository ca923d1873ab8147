//! Logs that go while somebody reads, flushes or stops.

use std::sync::Arc;

use alluvium_log_manager::{Isolation, LogError, LogManager, ManagerError, NewLog, Scheduler};
use alluvium_record_format::Offset;
use alluvium_recovery::TopicPartition;

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::{append, try_append};

/// Makes a log and appends one record.
fn make(manager: &LogManager, partition: &TopicPartition) {
    let log = manager.get_or_create(partition, &NewLog::new().is_new()).unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    log.update_high_watermark(Offset::new(1)).unwrap();
}

#[test]
fn a_deleted_log_is_read_to_the_end_by_those_who_read_it_and_goes_after_the_delay() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    make(&manager, &t(0));
    let log = manager.log(&t(0)).unwrap();
    let slice = log.read(Offset::new(0), 1000, Isolation::LogEnd, true).unwrap().slice.unwrap();
    manager.delete(&t(0)).unwrap();
    assert!(matches!(manager.log(&t(0)), Err(ManagerError::Unknown { .. })));
    assert!(try_append(&log, &batch(&[(None, NOW.get())])).is_err());
    assert_eq!(cluster.read("d1/recovery-point-offset-checkpoint"), "0\n0\n");
    // The name is free again at once.
    make(&manager, &t(0));
    cluster.clock.advance_ms(999);
    manager.tick();
    assert_eq!(cluster.list("d1").iter().filter(|it| it.ends_with("-delete")).count(), 1);
    cluster.clock.advance_ms(1);
    manager.tick();
    assert_eq!(cluster.list("d1").iter().filter(|it| it.ends_with("-delete")).count(), 0);
    let mut bytes = Vec::new();
    slice.read_to(&mut bytes).unwrap();
    assert_eq!(bytes.len(), 69);
}

/// FR-056, first input, through a deletion: the flush of a roll comes when the directory has
/// another name, and when it is gone.
#[test]
fn a_flush_of_a_log_that_was_deleted_is_no_disk_fault() {
    for is_gone in [false, true] {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        make(&manager, &t(0));
        make(&manager, &t(1));
        let log = manager.log(&t(0)).unwrap();
        log.roll().unwrap();
        manager.delete(&t(0)).unwrap();
        if is_gone {
            cluster.clock.advance_ms(1000);
            manager.tick();
            assert!(!cluster.list("d1").iter().any(|name| name.ends_with("-delete")));
        }
        cluster.tasks.run_due();
        let flushed = log.flush(false);
        assert!(matches!(flushed, Err(LogError::Closed { .. })), "gone: {is_gone}: {flushed:?}");
        assert_eq!(manager.offline_dirs(), [], "gone: {is_gone}");
        append(&manager.log(&t(1)).unwrap(), &batch(&[(None, NOW.get())]));
        assert!(manager.stop(None).unwrap().dirs[0].is_clean, "gone: {is_gone}");
    }
}

/// FR-104: files go at once while a reader holds them, on threads that the stop waits for.
#[test]
fn a_stop_without_a_delay_for_files_does_not_hang() {
    let cluster = Cluster::new(1);
    let defaults = cluster.config().log_defaults().to_builder();
    let defaults = defaults.file_delete_delay_ms(0).retention_bytes(Some(0)).build().unwrap();
    let config = cluster.config().to_builder().log_defaults(defaults).build().unwrap();
    let options = LogManager::options(config).background(Arc::new(Scheduler::start(2).unwrap()));
    let (manager, _) = options.start().unwrap();
    let slices = [0, 1].map(|number| {
        make(&manager, &t(number));
        let log = manager.log(&t(number)).unwrap();
        log.read(Offset::new(0), 1000, Isolation::LogEnd, true).unwrap().slice.unwrap()
    });
    assert_eq!(manager.log(&t(0)).unwrap().delete_old_segments().unwrap(), 1);
    manager.delete(&t(1)).unwrap();
    manager.tick();
    assert!(manager.stop(None).unwrap().dirs[0].is_clean);
    drop(manager);
    assert!(!cluster.list("d1").iter().any(|name| name.starts_with("t-1")));
    for slice in slices {
        let file = Arc::downgrade(slice.file());
        let mut bytes = Vec::new();
        slice.read_to(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 69);
        drop(slice);
        assert!(file.upgrade().is_none(), "the descriptor is still open");
    }
}
