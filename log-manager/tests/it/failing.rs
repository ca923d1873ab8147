//! What is left when the disk fails.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;

use alluvium_log_manager::{AppendError, ErrorCode, LogError};
use alluvium_record_format::Offset;
use alluvium_segment::{IoCall, IoVerdict};

use crate::batches::{NOW, batch, l3, marker, transactional};
use crate::disk::{Disk, append, append_marker, bases, follow, is_about, read};

/// FR-046: the write stops after 50 of 118 bytes.
#[test]
fn a_write_that_stops_half_way_is_cut_and_can_be_tried_again() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let [first, second, _] = l3();
    follow(&log, &first);
    let mut writes = 0;
    disk.faults.set(move |call| match call {
        IoCall::Write { path, .. } if path.extension().is_some_and(|it| it == "log") => {
            writes += 1;
            match writes {
                1 => IoVerdict::Limit(50),
                2 => IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull)),
                _ => IoVerdict::Proceed,
            }
        }
        _ => IoVerdict::Proceed,
    });
    let epoch = alluvium_record_format::LeaderEpoch::new(9);
    let failed = log.append_as_follower(&second, epoch).unwrap_err();
    assert_eq!(failed.code(), ErrorCode::KafkaStorageError);
    assert_eq!(log.log_end_offset(), Offset::new(3));
    assert_eq!(disk.file("00000000000000000000.log"), first);
    follow(&log, &second);
    assert_eq!(disk.file("00000000000000000000.log"), [first, second].concat());
    assert_eq!(read(&log, 0).unwrap(), [(0, 2), (3, 5)]);
    drop(log);
    assert_eq!(disk.open_unclean().log_end_offset(), Offset::new(6));
}

/// FR-046: where the cut fails too, nothing of the directory can be trusted.
#[test]
fn a_torn_write_that_cannot_be_cut_takes_the_directory_offline() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3()[0]);
    disk.faults.set(|call| match call {
        IoCall::Write { .. } | IoCall::SetLen { .. } if is_about(call, "log") => {
            IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull))
        }
        _ => IoVerdict::Proceed,
    });
    let epoch = alluvium_record_format::LeaderEpoch::new(9);
    log.append_as_follower(&l3()[1], epoch).unwrap_err();
    disk.faults.clear();
    let refused = log.append_as_follower(&l3()[1], epoch).unwrap_err();
    let offline = matches!(refused, AppendError::Log { source: LogError::Offline { .. }, .. });
    assert!(offline, "{refused:?}");
    assert!(matches!(read(&log, 0), Err(LogError::Offline { .. })));
    drop(log);
    let log = disk.open_unclean();
    assert_eq!(log.log_end_offset(), Offset::new(3));
}

/// Its disk may have failed, or its directory may be another's by now.
#[test]
fn an_abandoned_log_is_left_as_it_is() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let key = vec![b'k'; 700_000];
    for _ in 0..3 {
        append(&log, &batch(&[(Some(&key), NOW.get())]));
    }
    // Those behind the end too, on a file system where there are some.
    let room = || {
        let file = fs::metadata(disk.dir().join("00000000000000000000.log")).unwrap();
        (file.len(), file.blocks())
    };
    let (len, blocks) = room();
    disk.faults.set(|call| match call {
        IoCall::Write { .. } | IoCall::SetLen { .. } | IoCall::Sync { .. } => {
            panic!("an abandoned log makes a call: {call:?}")
        }
        _ => IoVerdict::Proceed,
    });
    log.abandon();
    drop(log);
    disk.faults.clear();
    assert_eq!(room().0, len);
    assert!(room().1 >= blocks, "{} of {blocks} blocks are left", room().1);
    assert_eq!(disk.open_unclean().log_end_offset(), Offset::new(3));
}

/// FR-059, third input: a file system that turned read-only.
#[test]
fn a_read_only_file_system_takes_the_directory_offline_at_the_first_append() {
    let disk = Disk::new();
    let log = disk.open_clean();
    disk.faults
        .fail_once(ErrorKind::ReadOnlyFilesystem, |call| matches!(call, IoCall::Write { .. }));
    let epoch = alluvium_record_format::LeaderEpoch::new(9);
    log.append_as_follower(&l3()[0], epoch).unwrap_err();
    let refused = log.append_as_follower(&l3()[0], epoch).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::KafkaStorageError);
    assert!(matches!(refused, AppendError::Log { source: LogError::Offline { .. }, .. }));
}

/// FR-076: on Linux a second sync may succeed although the bytes are lost.
#[test]
fn after_a_failed_sync_nothing_counts_as_durable_until_the_log_is_opened_again() {
    for extension in ["log", "index", "timeindex", "txnindex"] {
        let disk = Disk::new();
        let log = disk.open_clean();
        append(&log, &transactional(7, 0));
        append(&log, &batch(&[(None, NOW.get())]));
        append_marker(&log, &marker(7, alluvium_record_format::TxnOutcome::Abort)).unwrap();
        let wanted = extension.to_owned();
        disk.faults.fail_once(ErrorKind::Other, move |call| {
            matches!(call, IoCall::Sync { .. }) && is_about(call, &wanted)
        });
        let before = log.recovery_point();
        log.flush(false).unwrap_err();
        assert_eq!(log.recovery_point(), before, "{extension}");
        let again = log.flush(false).unwrap_err();
        assert!(matches!(again, LogError::Offline { .. }), "{extension}: {again:?}");
        assert!(matches!(log.close(), Err(LogError::Offline { .. })), "{extension}");
        drop(log);
        assert_eq!(disk.open_unclean().log_end_offset(), Offset::new(3));
    }
}

/// FR-076: the same for the directory.
#[test]
fn a_failed_sync_of_the_directory_takes_it_offline() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get())]));
    disk.faults.fail_once(ErrorKind::Other, |call| matches!(call, IoCall::SyncDir { .. }));
    log.flush(false).unwrap_err();
    assert_eq!(log.recovery_point(), Offset::new(0));
    assert!(matches!(log.flush(false), Err(LogError::Offline { .. })));
}

/// FR-077: data, then names, then the recovery point; once per new file; not in the append.
#[test]
fn names_are_synced_after_the_bytes_and_once_for_each_new_file() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let calls = || std::mem::take(&mut *disk.faults.calls.lock().unwrap());
    calls();
    append(&log, &batch(&[(None, NOW.get())]));
    assert_eq!(calls(), [""; 0], "an append syncs nothing");
    // The second batch brings the index files.
    append(&log, &batch(&[(None, NOW.get())]));
    disk.tasks.run_due();
    calls();
    log.flush(false).unwrap();
    let first = calls();
    let log_file = first.iter().position(|it| it == "sync 00000000000000000000.log").unwrap();
    let directory = first.iter().position(|it| it == "sync-dir").unwrap();
    assert!(log_file < directory, "{first:?}");
    assert_eq!(log.recovery_point(), Offset::new(2));
    append(&log, &batch(&[(None, NOW.get())]));
    log.flush(false).unwrap();
    let second = calls();
    assert!(!second.contains(&"sync-dir".to_owned()), "{second:?}");
    log.roll().unwrap();
    assert!(!calls().iter().any(|it| it.starts_with("sync")), "a roll syncs nothing");
    assert_eq!(log.recovery_point(), Offset::new(3));
}

/// FR-045: calls that move at most 7 bytes, and every third interrupted.
#[test]
fn short_and_interrupted_calls_give_the_same_files() {
    let run = |shim: bool| {
        let disk = Disk::new();
        if shim {
            let mut count = 0;
            disk.faults.set(move |call| match call {
                IoCall::Read { .. } | IoCall::Write { .. } => {
                    count += 1;
                    if count % 3 == 0 {
                        IoVerdict::Fail(io::Error::from(ErrorKind::Interrupted))
                    } else {
                        IoVerdict::Limit(7)
                    }
                }
                _ => IoVerdict::Proceed,
            });
        }
        let log = disk.open_clean();
        append(&log, &transactional(7, 0));
        append_marker(&log, &marker(7, alluvium_record_format::TxnOutcome::Abort)).unwrap();
        log.roll().unwrap();
        append(&log, &batch(&[(None, NOW.get())]));
        log.close().unwrap();
        drop(log);
        let log = disk.open_unclean();
        assert_eq!(read(&log, 0).unwrap(), [(0, 0), (1, 1)]);
        log.close().unwrap();
        let files = disk.names().into_iter().map(|name| (disk.file(&name), name));
        files.collect::<Vec<_>>()
    };
    assert_eq!(run(true), run(false));
}

/// FR-045: a write that moves nothing is an error, not a loop.
#[test]
fn a_write_of_no_bytes_is_an_error() {
    let disk = Disk::new();
    let log = disk.open_clean();
    disk.faults.set(|call| match call {
        IoCall::Write { .. } => IoVerdict::Limit(0),
        _ => IoVerdict::Proceed,
    });
    let epoch = alluvium_record_format::LeaderEpoch::new(9);
    assert!(log.append_as_follower(&l3()[0], epoch).is_err());
}

/// Between the old segments and the new one the log has none to write to.
#[test]
fn a_truncation_that_stops_half_way_takes_the_directory_offline() {
    for (operation, offset) in [("cut", 1), ("start again", 9)] {
        let disk = Disk::new();
        let log = disk.open_clean();
        follow(&log, &l3()[0]);
        disk.faults.set(|call| match call {
            IoCall::Open { create: true, .. } | IoCall::SetLen { .. } => {
                IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull))
            }
            _ => IoVerdict::Proceed,
        });
        let offset = Offset::new(offset);
        let failed = match operation {
            "cut" => log.truncate_to(offset).map(drop),
            _ => log.truncate_fully_and_start_at(offset, None),
        };
        assert!(matches!(failed, Err(LogError::Offline { .. })), "{operation}: {failed:?}");
        disk.faults.clear();
        let epoch = alluvium_record_format::LeaderEpoch::new(9);
        let refused = log.append_as_follower(&l3()[1], epoch).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::KafkaStorageError, "{operation}");
        assert!(matches!(log.roll(), Err(LogError::Offline { .. })), "{operation}");
        drop(log);
        // Files that waited for their removal keep the directory in use.
        disk.clock.advance_ms(1000);
        disk.tasks.run_due();
        let log = disk.open_unclean();
        follow(&log, &l3()[1]);
    }
}

/// An empty segment is replaced by one of the same name.
#[test]
fn a_roll_that_loses_the_empty_segment_takes_the_directory_offline() {
    let disk = Disk::new();
    let log = disk.open_clean();
    disk.faults.set(|call| match call {
        IoCall::Open { create: true, .. } => {
            IoVerdict::Fail(io::Error::from(ErrorKind::StorageFull))
        }
        _ => IoVerdict::Proceed,
    });
    assert!(matches!(log.roll(), Err(LogError::Offline { .. })));
    disk.faults.clear();
    let epoch = alluvium_record_format::LeaderEpoch::new(9);
    let refused = log.append_as_follower(&l3()[0], epoch).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::KafkaStorageError);
    drop(log);
    follow(&disk.open_unclean(), &l3()[0]);
}

/// The files say what is left of them: the list of segments does not run ahead.
#[test]
fn a_rename_that_fails_in_retention_takes_the_directory_offline() {
    let disk = Disk::with(|config| config.retention_bytes(Some(0)));
    let log = disk.open_clean();
    for each in l3() {
        follow(&log, &each);
        log.roll().unwrap();
    }
    log.update_high_watermark(Offset::new(9)).unwrap();
    disk.tasks.run_due();
    let second = "00000000000000000003.log.deleted";
    disk.faults.fail_once(
        ErrorKind::PermissionDenied,
        move |call| matches!(call, IoCall::Rename { to, .. } if to.ends_with(second)),
    );
    let failed = log.delete_old_segments().unwrap_err();
    assert!(matches!(failed, LogError::Offline { .. }), "{failed:?}");
    assert_eq!(bases(&log), [3, 6, 9]);
    assert!(matches!(log.roll(), Err(LogError::Offline { .. })));
    drop(log);
    let log = disk.open_unclean();
    assert_eq!((read(&log, 3).unwrap(), read(&log, 6).unwrap()), (vec![(3, 5)], vec![(6, 8)]));
}
