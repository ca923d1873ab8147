//! Directories and numbers at the edge of what can be: opened in bounded time and memory, and
//! nothing that was acknowledged is lost.

use std::fs::File;
use std::process::Command;

use alluvium_log_manager::{AppendError, ErrorCode, LeaderRequest, Log};
use alluvium_record_format::{LeaderEpoch, Offset};

use crate::batches::{HEX_A, at_offset, hex, l3};
use crate::disk::{Disk, append, read};

const LOG: &str = "00000000000000000000.log";

/// The batch of offset 0 and the ones from 3 on, each closer to the last of all offsets.
fn near_the_end(log: &Log) -> [Result<Option<Offset>, ErrorCode>; 2] {
    [i64::MAX, i64::MAX - 1].map(|offset| {
        let given = at_offset(hex(HEX_A), offset);
        let appended = log.append_as_follower(&given, LeaderEpoch::new(0));
        appended.map(|appended| appended.last_offset).map_err(|error| error.code())
    })
}

#[test]
fn an_append_that_no_offset_can_follow_is_refused_and_nothing_is_lost() {
    let disk = Disk::new();
    let log = disk.open_clean();
    append(&log, &l3()[0]);
    let [last, before] = near_the_end(&log);
    assert_eq!(last, Err(ErrorCode::UnknownServerError));
    assert_eq!(before, Ok(Some(Offset::new(i64::MAX - 1))));

    let mut sent = hex(HEX_A);
    let refused = log.append_as_leader(&mut sent, LeaderRequest::new(LeaderEpoch::new(0)));
    assert!(matches!(refused, Err(AppendError::OffsetsExhausted { .. })), "{refused:?}");
    assert_eq!(read(&log, 0).unwrap(), [(0, 2)]);
    drop(log);
    let log = disk.open_unclean();
    assert_eq!(log.log_end_offset(), Offset::MAX);
    assert_eq!(read(&log, 0).unwrap(), [(0, 2)]);
}

/// The last offset of a batch is the last of all: with a wrapped log end the log would seem to end
/// before it starts, and all of it would go.
#[test]
fn a_batch_with_the_last_of_all_offsets_costs_no_other_one() {
    let disk = Disk::new();
    let end = at_offset(hex(HEX_A), i64::MAX);
    disk.put(&[(LOG, &l3()[0]), ("09223372036854775807.log", &end)]);
    let log = disk.open_unclean();
    assert_eq!(read(&log, 0).unwrap(), [(0, 2)]);
    assert_eq!(log.log_end_offset(), Offset::MAX);
}

/// Most of these would wait for somebody to write into the pipe.
#[test]
fn a_pipe_in_the_place_of_a_file_does_not_keep_a_log_from_opening() {
    let names = [
        "leader-epoch-checkpoint",
        "00000000000000000003.snapshot",
        "00000000000000000000.txnindex",
    ];
    for name in names {
        let disk = Disk::new();
        disk.put(&[(LOG, &l3()[0])]);
        let status = Command::new("mkfifo").arg(disk.dir().join(name)).status().unwrap();
        assert!(status.success());
        match disk.options().open(disk.dir()) {
            Ok(log) => assert_eq!(read(&log, 0).unwrap(), [(0, 2)], "{name}"),
            Err(error) => assert_eq!(error.code(), ErrorCode::KafkaStorageError, "{name}"),
        }
    }
}

/// Their length would be two thousand times the memory of any machine.
#[test]
fn small_files_of_a_huge_length_are_damage_and_take_no_memory() {
    let names = [
        "leader-epoch-checkpoint",
        "00000000000000000003.snapshot",
        "00000000000000000000.txnindex",
    ];
    for name in names {
        let disk = Disk::new();
        disk.put(&[(LOG, &l3()[0]), (name, &[])]);
        File::options().write(true).open(disk.dir().join(name)).unwrap().set_len(1 << 40).unwrap();
        let log = disk.open_unclean();
        assert_eq!(read(&log, 0).unwrap(), [(0, 2)], "{name}");
        assert_eq!(append(&log, &hex(HEX_A)).first_offset, Some(Offset::new(3)), "{name}");
    }
}
