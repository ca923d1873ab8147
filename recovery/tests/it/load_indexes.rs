//! Index files that were met in the field, and what a load makes of them.

use alluvium_record_format::{Offset, TxnOutcome};
use alluvium_segment::SegmentConfig;

use crate::batches::{TestBatch, marker};
use crate::directory::Disk;
use crate::logs::{
    HEX_A, L3_INDEX, L3_TIME_INDEX, all_l3, append_and_read, at_offset, bytes, clean, unclean,
};

/// FR-033.
#[test]
fn padded_cut_and_misaligned_indexes_are_made_new() {
    let indexes = [vec![0; 1024], vec![0; 8], vec![0, 0, 0, 5], [&L3_INDEX[..8], &[0; 4]].concat()];
    for index in indexes {
        for config in [clean(9), unclean()] {
            let disk = Disk::new();
            disk.segment_with_indexes(0, &all_l3());
            disk.write("00000000000000000000.index", &index);
            let log = disk.load(&config);
            assert_eq!(log.log_end_offset.get(), 9);
            assert_eq!(disk.files()["00000000000000000000.index"], L3_INDEX);
            assert_eq!(disk.files()["00000000000000000000.timeindex"], L3_TIME_INDEX);
            assert_eq!(append_and_read(&disk, &config), [(0, 2), (3, 5), (6, 8), (9, 9)]);
        }
    }
}

/// FR-034: Kafka gives out offset 0 again.
#[test]
fn an_index_entry_that_points_at_the_wrong_byte_is_no_more_than_a_hint() {
    for entry in ["000000057fffffff", "0000000500000010", "0000000800000162", "0000000200000076"] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &all_l3());
        disk.write("00000000000000000000.index", &bytes(entry));
        let log = disk.load(&clean(9));
        assert_eq!(log.log_end_offset.get(), 9, "{entry}");
        assert_eq!(append_and_read(&disk, &clean(9)), [(0, 2), (3, 5), (6, 8), (9, 9)]);
        assert_eq!(disk.files()["00000000000000000000.index"][..16], L3_INDEX);
    }
}

/// Older brokers stored the last offset of an append with the position of its first batch.
#[test]
fn an_index_of_an_older_broker_is_no_reason_to_read_the_log() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &all_l3());
    disk.write("00000000000000000000.index", &bytes("0000000800000076"));
    let log = disk.load(&clean(9));
    assert_eq!((log.log_end_offset.get(), log.report.scanned_bytes()), (9, 0));
}

/// FR-043: Kafka leaves the spare bytes, and refuses to open the log for the unknown version.
#[test]
fn a_transaction_index_that_cannot_be_read_is_made_new() {
    let log = [
        TestBatch::new(0, 2).producer(9, 0, 0).transactional().bytes(),
        marker(2, (9, 0), TxnOutcome::Abort, 0),
    ]
    .concat();
    let sound = bytes("00000000000000000009000000000000000000000000000000020000000000000003");
    for damaged in [vec![0; 40], [vec![0, 1], vec![0; 32]].concat(), sound[..33].to_vec()] {
        for config in [clean(3), unclean()] {
            let disk = Disk::new();
            disk.segment_with_indexes(0, &log);
            disk.write("00000000000000000000.txnindex", &damaged);
            disk.load(&config);
            assert_eq!(disk.files()["00000000000000000000.txnindex"], sound);
        }
    }
}

/// No sound one is: its entries of 34 bytes stand for markers of 78.
#[test]
fn a_transaction_index_longer_than_its_log_is_made_new_and_not_read() {
    let log = TestBatch::new(0, 1).bytes();
    let entry = |offset: u8| {
        let mut entry =
            bytes("00000000000000000009000000000000000000000000000000000000000000000000");
        for last_byte in [17, 25, 33] {
            entry[last_byte] = offset;
        }
        entry
    };
    let entries: Vec<u8> = (0..6).flat_map(entry).collect();
    for config in [clean(1), unclean()] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &log);
        disk.write("00000000000000000000.txnindex", &entries);
        let loaded = disk.load(&config);
        assert_eq!(loaded.log_end_offset.get(), 1);
        assert_eq!(disk.files()["00000000000000000000.txnindex"], b"");
    }
}

/// A length that lies in a sealed segment that counts as synced, and one index of it that must be
/// made anew: the others know what lies behind the damage.
#[test]
fn a_sealed_segment_with_damage_keeps_the_indexes_that_it_has() {
    let names = ["index", "timeindex", "txnindex"].map(|kind| format!("{:020}.{kind}", 0));
    let mut log = TestBatch::new(0, 1).producer(7, 0, 0).transactional().bytes();
    let damaged = log.len();
    log.extend(TestBatch::new(1, 1).bytes());
    log.extend(marker(2, (7, 0), TxnOutcome::Abort, 0));
    log.extend((3..6).flat_map(|base| TestBatch::new(base, 1).bytes()));
    let next = TestBatch::new(6, 1).bytes();
    let sound = Disk::new();
    sound.segment_with_indexes(0, &log);
    sound.load(&unclean());
    let indexes = sound.files();
    assert_ne!(indexes[&names[2]].len(), 0);
    log[damaged + 8..][..4].copy_from_slice(&[0; 4]);
    for lost in [0, 2] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &log);
        disk.segment_with_indexes(6, &next);
        for name in &names {
            disk.write(name, &indexes[name]);
        }
        match lost {
            2 => disk.write(&names[2], b"no index"),
            _ => std::fs::remove_file(disk.path().join(&names[0])).unwrap(),
        }
        let loaded = disk.load(&clean(7));
        assert_eq!(loaded.log_end_offset.get(), 7);
        let files = disk.files();
        for (at, name) in names.iter().enumerate().filter(|(at, _)| *at != lost) {
            assert_eq!(files[name], indexes[name], "{at}, {lost} lost");
        }
        assert_ne!(files[&names[lost]], indexes[&names[lost]], "as far as it can be walked");
    }
}

/// What was open at its first offset is replayed beside the snapshots, which stay as they are.
#[test]
fn a_segment_recovered_after_a_clean_stop_knows_the_transactions_before_it() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &TestBatch::new(0, 1).producer(9, 0, 0).transactional().bytes());
    disk.segment_with_indexes(1, &marker(1, (9, 0), TxnOutcome::Abort, 0));
    disk.segment_with_indexes(2, &TestBatch::new(2, 1).bytes());
    disk.load(&unclean());
    let aborted = disk.files()["00000000000000000001.txnindex"].clone();
    assert_eq!(aborted.len(), 34);
    std::fs::remove_file(disk.path().join("00000000000000000001.index")).unwrap();
    disk.write("00000000000000000001.txnindex", b"");
    disk.load(&clean(3));
    assert_eq!(disk.files()["00000000000000000001.txnindex"], aborted);
}

/// Segments that lost their indexes in a row go on from one another, unless a snapshot lies
/// between.
#[test]
fn segments_recovered_after_a_clean_stop_in_a_row_know_the_transactions_before_them() {
    let open = |at: i64, id, sequence| {
        TestBatch::new(at, 1).producer(id, 0, sequence).transactional().bytes()
    };
    let abort = |at, id, epoch| marker(at, (id, 0), TxnOutcome::Abort, epoch);
    let segments = [
        (0, [open(0, 8, 0), open(1, 9, 0)].concat()),
        (2, [abort(2, 9, 0), open(3, 9, 1), open(4, 7, 0)].concat()),
        // Compacted: nothing is at 5 and 6.
        (7, [abort(7, 8, 1), open(8, 9, 2)].concat()),
        (9, [abort(9, 9, 2), abort(10, 7, 2)].concat()),
        (11, TestBatch::new(11, 1).bytes()),
    ];
    for kept in [None, Some(2), Some(7), Some(9)] {
        for whole in [None, Some(2), Some(7)] {
            let disk = Disk::new();
            for (base, bytes) in &segments {
                disk.segment_with_indexes(*base, bytes);
            }
            disk.load(&unclean());
            let is_kept = |name: &String| {
                let of = |base: i64, kind| *name == format!("{base:020}.{kind}");
                kept.is_some_and(|base| of(base, "snapshot"))
                    || whole.is_some_and(|base| of(base, "index"))
                    || !(name.ends_with(".snapshot") || name.ends_with("index"))
                    || name.ends_with(".txnindex") && whole.is_some_and(|base| of(base, "txnindex"))
            };
            let made = disk.files();
            for name in made.keys().filter(|name| !is_kept(name)) {
                std::fs::remove_file(disk.path().join(name)).unwrap();
            }
            disk.load(&clean(12));
            let again = disk.files();
            let aborted = made.iter().filter(|(name, _)| name.ends_with(".txnindex"));
            let mut entries = 0;
            for (name, bytes) in aborted {
                entries += bytes.len() / 34;
                assert_eq!(again.get(name), Some(bytes), "{name}: {kept:?} {whole:?}");
            }
            assert_eq!(entries, 4, "{kept:?} {whole:?}");
        }
    }
}

/// FR-041: recovery finds the same entry as an append.
#[test]
fn the_time_index_names_the_first_batch_that_reached_the_maximum() {
    let timed = |offset, times: [i64; 3]| {
        let settings = alluvium_record_format::BatchSettings::new(Offset::new(offset));
        let mut builder = alluvium_record_format::BatchBuilder::new(settings);
        for time in times {
            let record = alluvium_record_format::SimpleRecord::new()
                .timestamp(alluvium_record_format::Timestamp::new(time));
            builder.append(&record).unwrap();
        }
        builder.finish().unwrap().to_vec()
    };
    let disk = Disk::new();
    disk.segment(0, &[timed(0, [1, 9, 3]), timed(3, [9, 2, 2])].concat());
    disk.load(&unclean());
    let expected = bytes("000000000000000900000002");
    assert_eq!(disk.files()["00000000000000000000.timeindex"], expected);
}

/// FR-032: recovery's own count of bytes gives the entries that appends give.
#[test]
fn index_entries_lie_more_than_the_interval_apart() {
    let disk = Disk::new();
    let log: Vec<u8> = (0..6).flat_map(|offset| at_offset(bytes(HEX_A), offset)).collect();
    disk.segment(0, &log);
    let segment = SegmentConfig::new().index_interval_bytes(100).max_index_bytes(1024);
    disk.load(&unclean().segment(segment));
    let expected = bytes("000000020000008c0000000400000118");
    assert_eq!(disk.files()["00000000000000000000.index"], expected);
}
