//! When a log goes on in a new segment.

use alluvium_record_format::Offset;

use crate::batches::{HEX_A, NOW, at_offset, batch, hex, l3};
use crate::disk::{Disk, append, bases, follow, read};

/// FR-051, first input: the first batch's time against the incoming one's.
#[test]
fn old_and_mixed_times_do_not_roll_once_for_each() {
    let disk = Disk::with(|config| {
        config.segment_ms(1000).message_timestamp_before_max_ms(i64::MAX as u64)
    });
    let log = disk.open_clean();
    for time in [5000, 10, 5001, 20, 6001] {
        append(&log, &batch(&[(None, time)]));
    }
    assert_eq!(bases(&log), [0, 4]);
}

/// FR-051, third input.
#[test]
fn records_without_times_roll_by_the_age_of_the_segment() {
    let disk = Disk::with(|config| config.segment_ms(1000));
    let log = disk.open_clean();
    append(&log, &batch(&[(None, -1)]));
    disk.clock.advance_ms(1000);
    append(&log, &batch(&[(None, -1)]));
    assert_eq!(bases(&log), [0]);
    disk.clock.advance_ms(1);
    append(&log, &batch(&[(None, -1)]));
    assert_eq!(bases(&log), [0, 2]);
}

#[test]
fn a_segment_that_is_active_again_after_a_truncation_keeps_its_age_while_it_is_not_empty() {
    for (target, expected) in [(1, vec![0, 1]), (0, vec![0])] {
        let disk = Disk::with(|config| config.segment_ms(1000));
        let log = disk.open_clean();
        append(&log, &batch(&[(None, -1)]));
        append(&log, &batch(&[(None, -1)]));
        log.roll().unwrap();
        append(&log, &batch(&[(None, -1)]));
        disk.clock.advance_ms(900);
        assert!(log.truncate_to(Offset::new(target)).unwrap());
        assert_eq!(bases(&log), [0]);
        disk.clock.advance_ms(200);
        if target == 0 {
            append(&log, &batch(&[(None, -1)]));
        }
        append(&log, &batch(&[(None, -1)]));
        assert_eq!(bases(&log), expected);
    }
}

/// FR-051, fourth input.
#[test]
fn an_offset_that_does_not_fit_begins_a_segment_of_its_own() {
    let disk = Disk::new();
    let log = disk.open_clean();
    follow(&log, &batch(&[(None, 1); 11]));
    let [three, ..] = l3();
    follow(&log, &at_offset(three, 2_147_483_700));
    assert_eq!(bases(&log), [0, 2_147_483_700]);
    assert!(disk.names().contains(&"00000000002147483700.log".to_owned()));
}

/// FR-030: the last relative offset of 31 bits fits, the next one rolls.
#[test]
fn the_largest_relative_offset_fits_and_one_more_rolls() {
    for (base, expected) in [(2_147_483_647, vec![0]), (2_147_483_648, vec![0, 2_147_483_648])] {
        let disk = Disk::new();
        let log = disk.open_clean();
        let [three, ..] = l3();
        follow(&log, &three);
        follow(&log, &at_offset(hex(HEX_A), base));
        assert_eq!(bases(&log), expected);
        assert_eq!(read(&log, 5).unwrap(), [(base, base)]);
    }
}

/// FR-039, second input.
#[test]
fn empty_index_files_of_an_empty_log_do_not_roll_it() {
    let disk = Disk::new();
    let name = "00000000000000000000";
    disk.put(
        &[".log", ".index", ".timeindex"]
            .map(|kind| (format!("{name}{kind}"), ()))
            .each_ref()
            .map(|(name, ())| (name.as_str(), &[][..])),
    );
    let log = disk.open_clean();
    append(&log, &batch(&[(None, NOW.get())]));
    assert_eq!((log.log_end_offset(), bases(&log)), (Offset::new(1), vec![0]));
}

/// FR-039, third input.
#[test]
fn an_empty_last_segment_without_indexes_opens_with_the_end_of_the_one_before() {
    let disk = Disk::new();
    let log = disk.open_clean();
    let [three, ..] = l3();
    follow(&log, &three);
    let closed = log.close().unwrap();
    drop(log);
    disk.put(&[("00000000000000000003.log", &[])]);
    let log = disk.options().after_close(&closed).open(disk.dir()).unwrap();
    assert_eq!(log.log_end_offset(), Offset::new(3));
    append(&log, &batch(&[(None, NOW.get()), (None, NOW.get())]));
    append(&log, &batch(&[(None, NOW.get())]));
    let log = disk.reopen(log);
    assert_eq!(disk.file("00000000000000000003.index").len(), 8);
    assert_eq!(read(&log, 3).unwrap(), [(3, 4), (5, 5)]);
}

#[test]
fn a_segment_that_an_append_fills_exactly_does_not_roll() {
    let disk = Disk::with(|config| config.internal_segment_bytes(Some(236)));
    let log = disk.open_clean();
    let [one, two, three] = l3();
    follow(&log, &one);
    follow(&log, &two);
    assert_eq!(bases(&log), [0]);
    follow(&log, &three);
    assert_eq!(bases(&log), [0, 6]);
}

#[test]
fn an_empty_active_segment_is_rolled_into_itself() {
    let disk = Disk::new();
    let log = disk.open_clean();
    assert_eq!(log.roll().unwrap(), Offset::new(0));
    assert_eq!(log.roll().unwrap(), Offset::new(0));
    append(&log, &batch(&[(None, NOW.get())]));
    assert_eq!(log.roll().unwrap(), Offset::new(1));
    assert_eq!(bases(&log), [0, 1]);
}

/// FR-075: what old cleaners wrote, after an unclean stop and after a clean one, which Kafka leaves
/// whole.
#[test]
fn a_segment_that_spans_too_many_offsets_is_split_when_it_is_opened() {
    const FAR: i64 = 2_147_483_648;
    let [three, ..] = l3();
    let two = batch(&[(None, 1000), (None, 1000)]);
    let wide = [three, at_offset(hex(HEX_A), FAR), at_offset(two, FAR + 1)].concat();
    for clean in [false, true] {
        let disk = Disk::new();
        disk.put(&[("00000000000000000000.log", &wide)]);
        let log = disk.options().clean(clean).open(disk.dir()).unwrap();
        assert_eq!(bases(&log), [0, FAR], "clean: {clean}");
        assert_eq!(log.log_end_offset(), Offset::new(FAR + 3));
        assert_eq!(read(&log, 5).unwrap(), [(FAR, FAR), (FAR + 1, FAR + 2)]);
    }
}

/// FR-075, third input.
#[test]
fn a_segment_whose_only_batch_does_not_fit_moves_the_log_start() {
    const FAR: i64 = 2_147_483_648;
    let disk = Disk::new();
    disk.put(&[("00000000000000000000.log", &at_offset(hex(HEX_A), FAR))]);
    let log = disk.open_unclean();
    assert_eq!((bases(&log), log.log_start_offset()), (vec![FAR], Offset::new(FAR)));
}

/// Something that is no file stands where the next segment is to be.
#[test]
fn a_roll_onto_the_name_of_a_device_or_pipe_makes_a_file() {
    for target in ["/dev/zero", "/dev/null", "/nowhere"] {
        let disk = Disk::new();
        let log = disk.open_clean();
        follow(&log, &l3()[0]);
        let path = disk.dir().join("00000000000000000003.log");
        std::os::unix::fs::symlink(target, &path).unwrap();
        log.roll().unwrap();
        assert!(path.symlink_metadata().unwrap().is_file(), "{target}");
        follow(&log, &l3()[1]);
        assert_eq!(disk.file("00000000000000000003.log"), l3()[1]);
    }
}
