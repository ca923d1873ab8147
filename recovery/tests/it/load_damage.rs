//! Damage that was met in the field, and what a load makes of it.

use alluvium_record_format::Offset;
use alluvium_recovery::{Reason, ScanConfig, Warning};

use crate::batches::TestBatch;
use crate::directory::Disk;
use crate::logs::{
    HEX_A, L3_INDEX, L3_TIME_INDEX, NOW, all_l3, append_and_read, at_offset, batches, bytes, clean,
    epochs, l3, segments, snapshots, unclean,
};

/// FR-019, FR-096: the end offset comes from the header of the last batch, records or none.
#[test]
fn a_batch_without_records_keeps_its_offsets() {
    let empty = bytes(
        "0000000000000000000000310000000002c53ffb6b00000000000900000000000003e800000000000003e8ffffffffffffffffffffffffffff00000000",
    );
    for config in [clean(10), unclean()] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &empty);
        assert_eq!(disk.load(&config).log_end_offset.get(), 10);
    }
    let disk = Disk::new();
    disk.segment(0, &[&empty[..], &at_offset(l3(0), 10)].concat());
    let log = disk.load(&unclean());
    assert_eq!(batches(&log), [(0, 9), (10, 12)]);
}

/// FR-047.
#[test]
fn a_preallocated_tail_goes_and_a_checksum_of_zero_stays() {
    let zero_crc = bytes(
        "00000000000000000000003d00000000020000000000000000000000000000000003e800000000000003e8ffffffffffffffffffffffffffff0000000116000000026b08606aada300",
    );
    let disk = Disk::new();
    disk.segment(0, &[all_l3(), at_offset(zero_crc, 9), vec![0; 1 << 20]].concat());
    let log = disk.load(&unclean());
    assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 354 + 73)], 10));
}

/// FR-062.
#[test]
fn a_torn_tail_goes_after_an_unclean_stop() {
    let sound = all_l3();
    for (tail, kept, end) in [
        ([&sound[..], &[0; 4096]].concat(), 354, 9),
        ([&sound[..], &[0; 16]].concat(), 354, 9),
        ([&sound[..], &[0; 17]].concat(), 354, 9),
        (sound[..353].to_vec(), 236, 6),
        (sound[..294].to_vec(), 236, 6),
        (sound[..244].to_vec(), 236, 6),
    ] {
        for has_indexes in [true, false] {
            let disk = Disk::new();
            if has_indexes {
                disk.segment_with_indexes(0, &tail);
            } else {
                disk.segment(0, &tail);
            }
            let log = disk.load(&unclean());
            assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, kept)], end));
            assert_eq!(snapshots(&log), [end]);
            assert_eq!(epochs(&log), if end == 9 { vec![(0, 0), (1, 6)] } else { vec![(0, 0)] });
            let entries = usize::try_from(end / 3 - 1).unwrap();
            assert_eq!(disk.files()["00000000000000000000.index"], L3_INDEX[..entries * 8]);

            let before = disk.files();
            let again = disk.load(&unclean());
            assert_eq!((again.report.steps.len(), disk.files() == before), (0, true));
        }
    }
}

/// FR-063: Kafka appends behind the fragment.
#[test]
fn a_torn_tail_goes_although_the_stop_looks_clean() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &all_l3()[..353]);
    let log = disk.load(&clean(9));
    assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 236)], 6));
    assert_eq!(append_and_read(&disk, &clean(6)), [(0, 2), (3, 5), (6, 6)]);
}

/// FR-065: without the index, Kafka repairs the segment early, then takes it for sound.
#[test]
fn damage_in_the_middle_leaves_no_hole_with_the_index_or_without() {
    for has_index in [true, false] {
        let mut damaged = all_l3();
        damaged[118 + 116] ^= 1;
        let disk = Disk::new();
        disk.segment_with_indexes(0, &damaged);
        disk.segment_with_indexes(9, &at_offset(l3(0), 9));
        disk.write("00000000000000000009.snapshot", &alluvium_recovery::encode_snapshot([]));
        if !has_index {
            std::fs::remove_file(disk.path().join("00000000000000000000.index")).unwrap();
        }
        let log = disk.load(&unclean());
        assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 118)], 3));
        assert!(disk.has("00000000000000000009.log.deleted"));
        assert_eq!(snapshots(&log), [3]);
        let cut = Reason::AfterCut(Offset::new(3));
        assert!(log.report.steps.iter().any(|step| step.reason == cut));
    }
}

/// FR-067.
#[test]
fn a_flipped_magic_byte_is_damage_for_every_reader() {
    for magic in [0x03, 0x00, 0x01, 0xff] {
        let mut damaged = all_l3();
        damaged[118 + 16] = magic;
        let disk = Disk::new();
        disk.segment(0, &damaged);
        let log = disk.load(&unclean());
        assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 118)], 3), "{magic}");
    }
}

/// FR-069.
#[test]
fn left_overs_of_a_replacement_are_finished_or_undone() {
    let strays = |disk: &Disk| {
        disk.segment_with_indexes(0, &l3(0));
        disk.segment_with_indexes(3, &l3(1));
        disk.segment_with_indexes(6, &l3(2));
        disk.write("00000000000000000000.log.swap", &[l3(0), l3(1)].concat());
        disk.write("00000000000000000050.index", b"");
        disk.write("00000000000000000060.log.deleted", b"");
    };
    for has_cleaned in [false, true] {
        let disk = Disk::new();
        strays(&disk);
        if has_cleaned {
            disk.write("00000000000000000006.log.cleaned", &l3(2));
        }
        let log = disk.load(&unclean());
        assert_eq!(segments(&log), [(0, 236), (6, 118)]);
        assert_eq!(batches(&log), [(0, 2), (3, 5), (6, 8)]);
        let in_use = |name: &String| name.ends_with("log") || name.ends_with("index");
        assert_eq!(disk.names().into_iter().filter(in_use).count(), 6);
    }

    let disk = Disk::new();
    disk.segment_with_indexes(0, &all_l3());
    disk.write("00000000000000000000.log.cleaned", &l3(0));
    disk.write("00000000000000000003.log.swap", &l3(1));
    let log = disk.load(&unclean());
    assert_eq!(segments(&log), [(0, 354)]);
    assert!(disk.names().iter().all(|name| !name.contains(".log.")));

    let disk = Disk::new();
    disk.segment(0, &all_l3());
    disk.write("00000000000000000000.index.swap", &L3_INDEX);
    disk.write("00000000000000000000.timeindex.swap", &L3_TIME_INDEX);
    let log = disk.load(&clean(9));
    assert_eq!(log.report.scanned_bytes(), 0, "the indexes are used as they are");
    assert_eq!(disk.files()["00000000000000000000.index"], L3_INDEX);
}

/// FR-069: snapshots are not dropped by a replacement, wherever they lie.
#[test]
fn a_replacement_keeps_the_snapshots_of_segments_that_stay() {
    let disk = Disk::new();
    disk.segment_with_indexes(3, &l3(1));
    disk.segment_with_indexes(6, &l3(2));
    disk.write("00000000000000000003.log.swap", &l3(1));
    for offset in [3, 6, 9] {
        let empty = alluvium_recovery::encode_snapshot([]);
        disk.write(&format!("{offset:020}.snapshot"), &empty);
    }
    let log = disk.load(&clean(9));
    assert_eq!(snapshots(&log), [6, 9], "a snapshot at the log start is of no use");
    let disk = Disk::new();
    disk.segment_with_indexes(0, &l3(0));
    disk.segment_with_indexes(3, &l3(1));
    disk.segment_with_indexes(6, &l3(2));
    disk.write("00000000000000000003.log.swap", &l3(1));
    for offset in [3, 6, 9] {
        let empty = alluvium_recovery::encode_snapshot([]);
        disk.write(&format!("{offset:020}.snapshot"), &empty);
    }
    assert_eq!(snapshots(&disk.load(&clean(9))), [3, 6, 9]);
}

/// FR-071: Kafka makes a phantom segment of the first, and fails for others.
#[test]
fn names_that_only_look_like_segments_are_left_alone() {
    let foreign = [
        "5.log",
        "junk.log",
        "99999999999999999999.log",
        "-0000000000000000001.log",
        "00000000000000000000.log.bak",
        "notes.txt",
    ];
    for config in [clean(3), unclean()] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &l3(0));
        for name in foreign {
            disk.write(name, b"any");
        }
        std::fs::create_dir(disk.path().join("00000000000000000003.log")).unwrap();
        let log = disk.load(&config);
        assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 118)], 3));
        for name in foreign {
            assert!(disk.has(name), "{name}");
            let warned = Warning::ForeignName(name.to_owned());
            assert!(log.report.warnings.contains(&warned), "{name}");
        }
        assert!(disk.path().join("00000000000000000003.log").is_dir());
    }
}

/// FR-071: unlike a directory that has the name of a log and nothing beside it, this one stands
/// where a segment was.
#[test]
fn a_log_that_is_a_directory_beside_its_indexes_fails_the_load_before_anything_is_changed() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &l3(0));
    disk.segment_with_indexes(3, &l3(1));
    disk.write("00000000000000000003.snapshot.tmp", b"torn");
    let log = disk.path().join("00000000000000000003.log");
    std::fs::remove_file(&log).unwrap();
    std::fs::create_dir(&log).unwrap();
    let mut progress = |_| std::ops::ControlFlow::Continue(());
    let before = disk.names();
    for config in [clean(6), unclean()] {
        let error = alluvium_recovery::load(disk.dir(), &config, &mut progress).unwrap_err();
        let alluvium_recovery::LoadError::File { source, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(source.path(), log);
        let planned = alluvium_recovery::plan(disk.dir(), &config, &mut progress).unwrap_err();
        assert_eq!(planned.to_string(), error.to_string());
        assert_eq!(disk.names(), before);
    }
}

/// FR-071.
#[test]
fn an_index_that_is_a_directory_fails_the_load_of_its_log() {
    let disk = Disk::new();
    disk.segment(0, &l3(0));
    std::fs::create_dir(disk.path().join("00000000000000000000.index")).unwrap();
    let mut progress = |_| std::ops::ControlFlow::Continue(());
    let before = disk.names();
    for config in [clean(3), unclean()] {
        let error = alluvium_recovery::load(disk.dir(), &config, &mut progress).unwrap_err();
        assert!(matches!(error, alluvium_recovery::LoadError::File { .. }), "{error:?}");
        let planned = alluvium_recovery::plan(disk.dir(), &config, &mut progress).unwrap_err();
        assert_eq!(planned.to_string(), error.to_string());
        assert_eq!(disk.names(), before);
    }
}

/// FR-075.
#[test]
fn a_segment_whose_offsets_do_not_fit_is_split() {
    const FAR: i64 = 2_147_483_648;
    let far = at_offset(bytes(HEX_A), FAR);
    let two = at_offset(l3(1), FAR + 1);
    for config in [unclean(), clean(FAR + 4)] {
        let disk = Disk::new();
        disk.segment_with_indexes(0, &[l3(0), far.clone(), two.clone()].concat());
        let log = disk.load(&config);
        assert_eq!(segments(&log), [(0, 118), (FAR, 188)]);
        assert_eq!(log.log_end_offset.get(), FAR + 4);
        assert_eq!(batches(&log), [(0, 2), (FAR, FAR), (FAR + 1, FAR + 3)]);
        assert!(log.deleted.iter().any(|name| disk.has(&name.to_string())));

        let disk = Disk::new();
        disk.segment_with_indexes(0, &far);
        let log = disk.load(&config);
        assert_eq!(segments(&log), [(FAR, 70)]);
        assert_eq!(log.log_start_offset.get(), FAR);

        // Sealed, with a torn tail nowhere and a segment behind it.
        let disk = Disk::new();
        disk.segment_with_indexes(0, &[l3(0), far.clone()].concat());
        disk.segment_with_indexes(FAR + 1, &two);
        let log = disk.load(&config);
        assert_eq!(segments(&log), [(0, 118), (FAR, 70), (FAR + 1, 118)]);
    }
}

#[test]
fn a_segment_with_a_torn_tail_is_cut_before_it_is_split() {
    const FAR: i64 = 2_147_483_648;
    for config in [unclean(), clean(FAR + 1)] {
        let disk = Disk::new();
        let far = at_offset(bytes(HEX_A), FAR);
        disk.segment_with_indexes(0, &[l3(0), far, vec![0; 100]].concat());
        let log = disk.load(&config);
        assert_eq!(segments(&log), [(0, 118), (FAR, 70)]);
        assert_eq!(log.log_end_offset.get(), FAR + 1);
    }
}

/// FR-079.
#[test]
fn silent_damage_in_sealed_data_does_not_hide_what_follows() {
    let mut damaged = all_l3();
    damaged[118 + 100] ^= 1;
    let disk = Disk::new();
    disk.segment_with_indexes(0, &damaged);
    disk.segment_with_indexes(9, &at_offset(l3(0), 9));
    let log = disk.load(&unclean().recovery_point(Offset::new(9)));
    assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 354), (9, 118)], 12));
    assert_eq!(disk.files()["00000000000000000000.log"], damaged);
}

/// FR-060, FR-087: the file can be rebuilt from the log, so its damage fails nothing.
#[test]
fn damaged_leader_epochs_are_rebuilt_from_all_batches() {
    for text in ["0\n1\n", "0\n2\n0 0\n", "1\n1\n0 0\n", "junk", "\0\0\0\0"] {
        for config in [clean(12), unclean(), unclean().recovery_point(Offset::new(9))] {
            let disk = Disk::new();
            disk.segment_with_indexes(0, &all_l3());
            disk.segment_with_indexes(9, &at_offset(l3(2), 9));
            disk.write("00000000000000000000.index", &L3_INDEX);
            disk.write("leader-epoch-checkpoint", text.as_bytes());
            let log = disk.load(&config);
            assert_eq!(epochs(&log), [(0, 0), (1, 6)], "{text:?}");
            assert!(log.epochs.is_dirty(), "the file is to be replaced");
            let rebuilt = |warning: &Warning| matches!(warning, Warning::EpochsRebuilt(_));
            assert!(log.report.warnings.iter().any(rebuilt));
        }
    }
}

/// FR-087.
#[test]
fn without_a_file_the_epochs_of_unsynced_batches_are_found() {
    let disk = Disk::new();
    let no_epoch = TestBatch::new(9, 1).bytes();
    let mut no_epoch = no_epoch;
    no_epoch[12..16].copy_from_slice(&(-1_i32).to_be_bytes());
    disk.segment(0, &[all_l3(), no_epoch].concat());
    let log = disk.load(&unclean());
    assert_eq!(epochs(&log), [(0, 0), (1, 6)]);
    assert_eq!(log.log_end_offset.get(), 10);
}

#[test]
fn epochs_are_trimmed_to_the_log() {
    let disk = Disk::new();
    disk.segment_with_indexes(0, &all_l3());
    disk.write("leader-epoch-checkpoint", b"0\n3\n0 0\n1 6\n5 9\n");
    let log = disk.load(&clean(9).log_start_offset(Offset::new(7)));
    assert_eq!(epochs(&log), [(1, 7)]);
    assert_eq!(log.log_start_offset.get(), 7);
}

#[test]
fn a_long_segment_is_recovered_alike_by_one_thread_and_by_many() {
    let mut outcomes = Vec::new();
    let nested = TestBatch::new(0, 40).bytes();
    let log: Vec<u8> = (0..50)
        .flat_map(|n| {
            let settings = alluvium_record_format::BatchSettings::new(Offset::new(n));
            let mut builder = alluvium_record_format::BatchBuilder::new(settings);
            let record = alluvium_record_format::SimpleRecord::new().value(&nested);
            builder.append(&record).unwrap();
            builder.finish().unwrap().to_vec()
        })
        .collect();
    let torn = &log[..log.len() - 5];
    let len = u32::try_from(torn.len()).unwrap();
    for chunks in [1, 2, 7] {
        let disk = Disk::new();
        disk.segment(0, torn);
        let scan = ScanConfig::new().threads(2).chunk_bytes(len.div_ceil(chunks));
        let log = disk.load(&unclean().scan(scan));
        assert_eq!(log.log_end_offset.get(), 49);
        outcomes.push(disk.files());
    }
    assert!(outcomes.windows(2).all(|pair| pair[0] == pair[1]));
}

/// A segment that should be split and cannot be, as its offsets fall back behind the overflow.
#[test]
fn a_sealed_segment_that_cannot_be_split_is_kept_and_reported() {
    let log = [l3(0), at_offset(l3(1), 3_000_000_000), at_offset(l3(2), 7)].concat();
    let disk = Disk::new();
    disk.segment(0, &log);
    disk.segment_with_indexes(20, &at_offset(l3(0), 20));
    let loaded = disk.load(&clean(23));
    assert_eq!((segments(&loaded), loaded.log_end_offset.get()), (vec![(0, 354), (20, 118)], 23));
    let kept = |warning: &Warning| matches!(warning, Warning::DamageKept { .. });
    assert!(loaded.report.warnings.iter().any(kept));
}

/// Kafka empties such a segment.
#[test]
fn batches_that_come_twice_are_cut_and_cost_nothing_before_them() {
    for twice in 0..2 {
        let disk = Disk::new();
        let sound = all_l3();
        disk.segment_with_indexes(0, &[sound.clone(), l3(twice), l3(2)].concat());
        let log = disk.load(&unclean());
        assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 354)], 9));
        assert_eq!(disk.files()["00000000000000000000.log"], sound);
        assert_eq!(disk.files()["00000000000000000000.index"], L3_INDEX);
        assert_eq!(log.report.cut_bytes(), 236);
        assert_eq!(disk.load(&unclean()).report.cut_bytes(), 0);
    }
}

#[test]
fn batches_below_the_base_of_their_segment_are_cut() {
    for config in [clean(9), unclean()] {
        let disk = Disk::new();
        disk.segment_with_indexes(9, &[at_offset(l3(0), 9), l3(1)].concat());
        let log = disk.load(&config);
        assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(9, 118)], 12));
    }
}

#[test]
fn damage_below_the_log_start_costs_nothing_above_it() {
    let mut damaged = all_l3();
    damaged[118 + 100] ^= 1;
    let disk = Disk::new();
    disk.segment_with_indexes(0, &damaged);
    disk.segment_with_indexes(9, &at_offset(l3(0), 9));
    let log = disk.load(&unclean().log_start_offset(Offset::new(10)));
    assert_eq!((segments(&log), log.log_end_offset.get()), (vec![(0, 354), (9, 118)], 12));
    assert_eq!(log.log_start_offset.get(), 10);
}

#[test]
fn a_rebuilt_index_after_a_clean_stop_costs_no_snapshot() {
    let disk = Disk::new();
    disk.segment(0, &all_l3());
    disk.segment_with_indexes(9, &at_offset(l3(0), 9));
    // Producers whose batches the log does not hold any more.
    let mut gone = alluvium_recovery::ProducerEntry::new(
        alluvium_record_format::ProducerId::new(7),
        alluvium_record_format::ProducerEpoch::new(0),
    );
    gone.last_timestamp = NOW;
    for offset in [9, 12] {
        let snapshot = alluvium_recovery::encode_snapshot([&gone]);
        disk.write(&format!("{offset:020}.snapshot"), &snapshot);
    }
    let log = disk.load(&clean(12));
    assert_eq!(disk.files()["00000000000000000000.index"], L3_INDEX);
    assert_eq!(snapshots(&log), [9, 12]);
    assert_eq!(log.producers.producers().len(), 1);
}
