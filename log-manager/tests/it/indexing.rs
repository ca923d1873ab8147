//! Offsets and times through the indexes.

use alluvium_log_manager::OffsetQuery;
use alluvium_record_format::{Offset, Timestamp};

use crate::batches::{HEX_A, at_offset, batch, hex, l3};
use crate::disk::{Disk, append, follow, read};

/// FR-034: an entry past the end, inside a batch, at the file's size.
#[test]
fn a_bad_index_entry_does_not_lose_the_log_end() {
    for entry in ["000000057fffffff", "0000000500000010", "0000000800000162"] {
        let disk = Disk::new();
        disk.put(&[
            ("00000000000000000000.log", &l3().concat()),
            ("00000000000000000000.index", &hex(entry)),
            ("00000000000000000000.timeindex", &[]),
        ]);
        let log =
            disk.options().clean(true).recovery_point(Offset::new(9)).open(disk.dir()).unwrap();
        assert_eq!(log.log_end_offset(), Offset::new(9), "{entry}");
        assert_eq!(append(&log, &batch(&[(None, 1009)])).first_offset, Some(Offset::new(9)));
        assert_eq!(read(&log, 0).unwrap(), [(0, 2), (3, 5), (6, 8), (9, 9)], "{entry}");
    }
}

/// FR-041: as leader, as follower, and by recovery.
#[test]
fn the_largest_time_belongs_to_the_first_record_that_has_it() {
    let first = batch(&[(None, 1), (None, 9), (None, 3)]);
    let second = batch(&[(None, 9), (None, 2), (None, 2)]);
    let mut files = Vec::new();
    for way in ["leader", "follower", "recovery"] {
        let disk = Disk::new();
        let log = disk.open_clean();
        if way == "leader" {
            append(&log, &first);
            append(&log, &second);
        } else {
            follow(&log, &first);
            follow(&log, &at_offset(second.clone(), 3));
        }
        let log = if way == "recovery" {
            drop(log);
            for kind in ["index", "timeindex"] {
                std::fs::remove_file(disk.dir().join(format!("00000000000000000000.{kind}")))
                    .unwrap();
            }
            disk.open_unclean()
        } else {
            log
        };
        let found = log.offset_for(OffsetQuery::MaxTimestamp).unwrap().unwrap();
        assert_eq!((found.offset, found.timestamp), (Offset::new(1), Some(Timestamp::new(9))));
        log.close().unwrap();
        files.push(disk.file("00000000000000000000.timeindex"));
    }
    let expected = hex("000000000000000900000002");
    assert_eq!(files, [expected.clone(), expected.clone(), expected]);
}

#[test]
fn a_look_up_by_time_gives_the_first_record_of_that_time_or_later() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &l3().concat());
    let at = |query| log.offset_for(query).unwrap().map(|found| found.offset.get());
    let time = |ms| OffsetQuery::AtOrAfter(Timestamp::new(ms));
    assert_eq!(at(time(0)), Some(0));
    assert_eq!(at(time(1004)), Some(4));
    assert_eq!(at(time(1008)), Some(8));
    assert_eq!(at(time(1009)), None);
    assert_eq!(at(OffsetQuery::Latest), Some(9));
    log.update_high_watermark(Offset::new(9)).unwrap();
    log.increment_log_start_offset(Offset::new(5)).unwrap();
    assert_eq!(at(time(0)), Some(5));
    assert_eq!(at(OffsetQuery::Earliest), Some(5));
}

/// FR-022: a follower trusts the header.
#[test]
fn a_follower_indexes_the_time_that_the_header_says() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &hex(HEX_A));
    let none = "00000000000000000000003a0000000002461639eb000000000000ffffffffffffffffffffffffffffff\
        ffffffffffffffffffffffffffffff0000000110000000026b027600";
    follow(&log, &at_offset(hex(none), 1));
    log.close().unwrap();
    assert_eq!(disk.file("00000000000000000000.timeindex"), hex("00000000000003e800000000"));
}

/// FR-027: such batches exist on disk, from Kafka's leaders.
#[test]
fn batches_with_odd_inner_offsets_can_be_replicated_read_and_recovered() {
    let below = "00000000000000000000003a00000000029e5a0a9000000000000000000000000003e80000000000\
        0003e8ffffffffffffffffffffffffffff0000000110000001026b027600";
    let beyond = "00000000000000000000003a0000000002cae0d95500000000000000000000000003e8000000000\
        00003e8ffffffffffffffffffffffffffff000000011000000a026b027600";
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &hex(below));
    follow(&log, &at_offset(hex(beyond), 1));
    assert_eq!(read(&log, 0).unwrap(), [(0, 0), (1, 1)]);
    drop(log);
    assert_eq!(disk.open_unclean().log_end_offset(), Offset::new(2));
}
