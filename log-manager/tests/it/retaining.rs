//! Which old segments go.

use std::fs::{File, FileTimes};
use std::time::{Duration, UNIX_EPOCH};

use alluvium_log_manager::{
    CleanupPolicy, ErrorCode, Log, LogConfig, RetentionFinding, RetentionRule, SegmentFate,
};
use alluvium_record_format::Offset;

use crate::batches::{NOW, batch, l3, sequenced};
use crate::disk::{Disk, append, bases, follow};

const MIB: u64 = 1 << 20;

/// A log with segments of these sizes, the last one active; watermark at the end.
fn sized(disk: &Disk, sizes: &[u64]) -> Log {
    let log = disk.open_clean();
    for (index, size) in sizes.iter().enumerate() {
        if index > 0 {
            log.roll().unwrap();
        }
        append(&log, &batch_of(usize::try_from(*size).unwrap()));
    }
    log.update_high_watermark(log.log_end_offset()).unwrap();
    log
}

/// How many segments the plan drops.
fn planned(log: &Log) -> usize {
    log.retention_plan().unwrap().dropped().count()
}

/// A batch of exactly so many bytes.
fn batch_of(size: usize) -> Vec<u8> {
    let mut key = vec![7; size - 100];
    loop {
        let made = batch(&[(Some(&key), NOW.get())]);
        match size.checked_sub(made.len()) {
            Some(0) => return made,
            Some(missing) => key.resize(key.len() + missing, 7),
            None => key.truncate(key.len() + size - made.len()),
        }
    }
}

/// FR-053.
#[test]
fn size_retention_keeps_at_least_the_limit() {
    let cases: [(Option<u64>, &[i64]); 5] = [
        (Some(2 * MIB), &[1, 2]),
        (Some(3 * MIB), &[1, 2]),
        (Some(4 * MIB), &[0, 1, 2]),
        (Some(0), &[3]),
        (None, &[0, 1, 2]),
    ];
    for (keep, expected) in cases {
        let disk = Disk::with(|config| config.retention_bytes(keep).max_message_bytes(8 << 20));
        let log = sized(&disk, &[MIB, 2 * MIB, MIB]);
        assert_eq!(log.size_bytes(), 4 * MIB);
        let goes = planned(&log);
        assert_eq!(log.delete_old_segments().unwrap(), goes, "{keep:?}");
        assert_eq!(bases(&log), expected, "{keep:?}");
        assert_eq!(log.log_start_offset().get(), expected[0]);
        assert_eq!(log.log_end_offset(), Offset::new(3));
    }
}

/// FR-053, the second log: three segments as large as they can be, with holes on the disk. Their
/// sum does not fit into 32 bits.
#[test]
fn size_retention_counts_beyond_32_bits() {
    const LARGEST: u64 = 0x7fff_ffff;
    for (keep, expected) in [
        (5_000_000_000, [0, 3, 6, 9].as_slice()),
        (2 * LARGEST + 1, &[0, 3, 6, 9]),
        (2 * LARGEST, &[3, 6, 9]),
        (LARGEST, &[6, 9]),
    ] {
        let disk = Disk::with(|config| config.retention_bytes(Some(keep)));
        let log = disk.open_clean();
        for each in l3() {
            follow(&log, &each);
            log.roll().unwrap();
        }
        let closed = log.close().unwrap();
        drop(log);
        for base in [0, 3, 6] {
            let path = disk.dir().join(format!("{base:020}.log"));
            File::options().write(true).open(path).unwrap().set_len(LARGEST).unwrap();
        }
        let log = disk.options().after_close(&closed).open(disk.dir()).unwrap();
        assert_eq!(log.size_bytes(), 3 * LARGEST);
        log.update_high_watermark(Offset::new(9)).unwrap();
        log.delete_old_segments().unwrap();
        assert_eq!(bases(&log), expected, "{keep}");
    }
}

#[test]
fn nothing_goes_that_is_not_below_the_high_watermark() {
    let disk = Disk::with(|config| config.retention_bytes(Some(0)));
    let log = disk.open_clean();
    for each in l3() {
        follow(&log, &each);
        log.roll().unwrap();
    }
    for (watermark, expected) in [(2, vec![0, 3, 6, 9]), (3, vec![3, 6, 9]), (8, vec![6, 9])] {
        log.update_high_watermark(Offset::new(watermark)).unwrap();
        log.delete_old_segments().unwrap();
        assert_eq!(bases(&log), expected);
    }
}

/// FR-054, first log.
#[test]
fn a_record_from_the_future_keeps_its_segment_and_all_later_ones() {
    const FAR: i64 = 75 * 365 * 86_400_000;
    let limits = |config: alluvium_log_manager::LogConfigBuilder| {
        config.retention_ms(Some(1000)).message_timestamp_after_max_ms(FAR.unsigned_abs())
    };
    let disk = Disk::with(limits);
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get() + FAR)]));
    log.roll().unwrap();
    append(&log, &batch(&[(None, NOW.get() - 1001)]));
    log.roll().unwrap();
    log.update_high_watermark(Offset::new(2)).unwrap();
    assert_eq!(log.delete_old_segments().unwrap(), 0);
}

#[test]
fn a_segment_goes_once_it_is_older_than_the_limit_and_not_before() {
    let disk = Disk::with(|config| config.retention_ms(Some(1000)));
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get())]));
    log.update_high_watermark(Offset::new(1)).unwrap();
    disk.clock.advance_ms(1000);
    assert_eq!(log.delete_old_segments().unwrap(), 0);
    disk.clock.advance_ms(1);
    assert_eq!(log.delete_old_segments().unwrap(), 1);
    assert_eq!(bases(&log), [1]);
}

/// FR-054, second log; FR-022: -1 is no time at all, not 1970.
#[test]
fn records_without_times_go_by_the_time_of_the_last_write() {
    const HOUR: u64 = 3_600_000;
    let disk = Disk::with(|config| config.retention_ms(Some(HOUR)));
    let log = disk.open_clean();
    append(&log, &batch(&[(None, -1)]));
    append(&log, &batch(&[(None, -1)]));
    log.roll().unwrap();
    assert_eq!(disk.file("00000000000000000000.timeindex"), [0; 0]);
    log.update_high_watermark(Offset::new(2)).unwrap();
    let path = disk.dir().join("00000000000000000000.log");
    let written = |hours: u64| {
        let now = Duration::from_millis(NOW.get().unsigned_abs());
        let time = UNIX_EPOCH + now - Duration::from_millis(hours * HOUR);
        let file = File::options().write(true).open(&path).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    };
    written(1);
    let log = disk.reopen(log);
    let modified = path.metadata().unwrap().modified().unwrap();
    let age = UNIX_EPOCH + Duration::from_millis(NOW.get().unsigned_abs())
        - modified.duration_since(UNIX_EPOCH).unwrap();
    assert_eq!(
        age.duration_since(UNIX_EPOCH).unwrap(),
        Duration::from_millis(HOUR),
        "reopening must not touch it"
    );
    log.update_high_watermark(Offset::new(2)).unwrap();
    assert_eq!(log.delete_old_segments().unwrap(), 0);
    written(2);
    assert_eq!(log.delete_old_segments().unwrap(), 1);
}

#[test]
fn files_go_after_the_delay_and_not_before() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3()[0]);
    log.roll().unwrap();
    disk.tasks.run_due();
    log.update_high_watermark(Offset::new(3)).unwrap();
    log.increment_log_start_offset(Offset::new(3)).unwrap();
    assert_eq!(log.delete_old_segments().unwrap(), 1);
    disk.clock.advance_ms(999);
    disk.tasks.run_due();
    let waits = "00000000000000000000.log.deleted".to_owned();
    assert!(disk.names().contains(&waits));
    disk.clock.advance_ms(1);
    disk.tasks.run_due();
    assert!(!disk.names().iter().any(|name| name.ends_with(".deleted")), "{:?}", disk.names());
}

#[test]
fn a_compacted_log_loses_what_lies_below_its_start_and_nothing_by_age() {
    let policy = |policy| {
        Disk::with(move |config| {
            config.cleanup_policy(policy).retention_ms(Some(0)).retention_bytes(Some(0))
        })
    };
    for (disk, expected) in [
        (policy(CleanupPolicy::COMPACT), vec![3, 6]),
        (policy(CleanupPolicy::NONE), vec![3, 6]),
        (policy(CleanupPolicy::COMPACT_AND_DELETE), vec![9]),
    ] {
        let log = disk.open_clean();
        let [first, second, third] = l3();
        follow(&log, &first);
        log.roll().unwrap();
        follow(&log, &second);
        log.roll().unwrap();
        follow(&log, &third);
        log.update_high_watermark(Offset::new(9)).unwrap();
        log.increment_log_start_offset(Offset::new(4)).unwrap();
        let goes = planned(&log);
        assert_eq!(log.delete_old_segments().unwrap(), goes);
        assert_eq!(bases(&log), expected);
    }
}

#[test]
fn a_plan_says_which_rule_drops_a_segment_and_what_keeps_the_others() {
    let disk = Disk::new();
    let log = disk.open_clean();
    for age in [500, 2000, 2000, 0] {
        append(&log, &batch(&[(None, NOW.get() - age)]));
        log.roll().unwrap();
    }
    log.update_high_watermark(Offset::new(3)).unwrap();
    let config = LogConfig::builder().retention_ms(Some(1000));
    let keep = log.size_bytes() * 3 / 4;
    log.set_config(config.retention_bytes(Some(keep)).build().unwrap());
    let plan = log.retention_plan().unwrap();
    let by: Vec<_> = plan.segments.iter().map(SegmentFate::dropped_by).collect();
    assert_eq!(
        by,
        [
            Some(RetentionRule::Size),
            Some(RetentionRule::Time),
            Some(RetentionRule::Time),
            None,
            None
        ]
    );
    let [kept, active] = &plan.segments[3..] else { panic!("five segments") };
    for verdict in &kept.verdicts {
        let RetentionFinding::AboveHighWatermark { end, .. } = verdict.finding else {
            panic!("{verdict:?}");
        };
        assert_eq!(end, Offset::new(4));
    }
    assert_eq!(active.verdicts[2].behind, Some(Offset::new(3)));
    assert_eq!(log.delete_old_segments().unwrap(), 3);
    assert_eq!(bases(&log), [3, 4]);
}

#[test]
fn records_are_deleted_up_to_the_high_watermark_and_not_on_compacted_topics() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    log.update_high_watermark(Offset::new(6)).unwrap();
    assert_eq!(log.delete_records(Some(Offset::new(2))).unwrap(), Offset::new(2));
    for refused in [-1, 7] {
        let error = log.delete_records(Some(Offset::new(refused))).unwrap_err();
        assert_eq!(error.code(), ErrorCode::OffsetOutOfRange);
    }
    assert_eq!(log.delete_records(None).unwrap(), Offset::new(6));
    let compacted = LogConfig::builder().cleanup_policy(CleanupPolicy::COMPACT).build().unwrap();
    log.set_config(compacted);
    assert_eq!(log.delete_records(None).unwrap_err().code(), ErrorCode::PolicyViolation);
}

/// FR-056, first input: the flush after a roll finds its directory renamed.
#[test]
fn a_flush_in_the_background_beside_a_rename_is_no_disk_fault() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3()[0]);
    log.roll().unwrap();
    log.dir().rename(&format!("orders-0.{}-delete", "0".repeat(32))).unwrap();
    disk.tasks.run_due();
    follow(&log, &l3()[1]);
    assert_eq!(log.log_end_offset(), Offset::new(6));
}

/// Found by `cargo xtask crash`: a power failure kept the loss of the second segment and forgot
/// that of the first, so that the log came back with a hole.
#[test]
fn retention_drops_no_segment_before_the_loss_of_the_one_below_is_durable() {
    let disk = Disk::with(|config| config.retention_bytes(Some(0)));
    let log = sized(&disk, &[1000, 1000, 1000]);
    disk.faults.calls.lock().unwrap().clear();
    assert_eq!(log.delete_old_segments().unwrap(), 3);
    let calls = disk.faults.calls.lock().unwrap().clone();
    let at = |wanted: &str| calls.iter().position(|call| call == wanted).unwrap();
    for (below, above) in [(0, 1), (1, 2)] {
        let below = at(&format!("rename {below:020}.timeindex.deleted"));
        let above = at(&format!("rename {above:020}.log.deleted"));
        assert!(calls[below..above].contains(&"sync-dir".to_owned()), "{calls:?}");
    }
}

/// No checkpoint holds a log start at which the list begins: records that were deleted up to the
/// end of a segment could be read again after a power cut.
#[test]
fn the_last_loss_is_durable_when_retention_returns() {
    let disk = Disk::new();
    let log = sized(&disk, &[1000, 1000, 1000]);
    for offset in [1, 2] {
        log.delete_records(Some(Offset::new(offset))).unwrap();
        disk.faults.calls.lock().unwrap().clear();
        assert_eq!(log.delete_old_segments().unwrap(), 1);
        let calls = disk.faults.calls.lock().unwrap().clone();
        assert_eq!(calls.last().unwrap(), "sync-dir", "{calls:?}");
    }
}

/// Found by `cargo xtask crash`: with its segments gone and the later snapshots torn, a start took
/// an older one, in which a transaction was open that had ended in between.
#[test]
fn the_producers_of_what_retention_drops_are_durable_before_it_goes() {
    // A flush before the roll leaves the one behind it no record, only the snapshot's bytes.
    for is_flushed in [false, true] {
        let disk = Disk::with(|config| config.retention_bytes(Some(0)));
        let log = disk.open_clean();
        append(&log, &sequenced(1, 0, &[NOW.get()]));
        if is_flushed {
            log.flush(false).unwrap();
        }
        disk.faults.calls.lock().unwrap().clear();
        log.roll().unwrap();
        if is_flushed {
            disk.tasks.run_due();
        }
        log.update_high_watermark(log.log_end_offset()).unwrap();
        assert_eq!(log.delete_old_segments().unwrap(), 1);
        let calls = disk.faults.calls.lock().unwrap();
        let at = |wanted: &str| calls.iter().position(|call| call == wanted).unwrap();
        let (kept, named) = (at("sync 00000000000000000001.snapshot"), at("sync-dir"));
        let dropped = at("rename 00000000000000000000.log.deleted");
        assert!(kept < named && named < dropped, "{calls:?}");
    }
}

/// The log would begin anew at offset 0: a rename may last where a new file beside it does not.
#[test]
fn the_new_segment_of_a_log_that_goes_whole_is_durable_before_it_goes() {
    let disk = Disk::with(|config| config.retention_bytes(Some(0)));
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get())]));
    log.flush(true).unwrap();
    log.close().unwrap();
    drop(log);
    // Nothing is known of producers that a roll would write down.
    let log = disk.open_clean();
    log.update_high_watermark(log.log_end_offset()).unwrap();
    disk.faults.calls.lock().unwrap().clear();
    assert_eq!(log.delete_old_segments().unwrap(), 1);
    let calls = disk.faults.calls.lock().unwrap();
    let at = |wanted: &str| calls.iter().position(|call| call == wanted).unwrap();
    assert!(at("sync-dir") < at("rename 00000000000000000000.log.deleted"), "{calls:?}");
}
