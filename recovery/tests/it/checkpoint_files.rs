//! Damaged checkpoint text files: FR-060.

use alluvium_record_format::{LeaderEpoch, Offset};
use alluvium_recovery::{
    CheckpointKind, Damage, DamageKind, EpochEntry, FileError, OffsetCheckpoint, TopicPartition,
    parse_epochs, read_epochs,
};
use alluvium_segment::Io;

fn epochs(text: &str) -> Result<Vec<EpochEntry>, Damage> {
    parse_epochs(text.as_bytes())
}

fn offsets(text: &str) -> Result<OffsetCheckpoint, Damage> {
    OffsetCheckpoint::parse(text.as_bytes())
}

fn one_epoch() -> Vec<EpochEntry> {
    vec![EpochEntry::new(LeaderEpoch::new(0), Offset::new(0))]
}

fn one_offset() -> OffsetCheckpoint {
    [(TopicPartition::new("t", 0), Offset::new(0))].into_iter().collect()
}

/// FR-060.
#[test]
fn an_empty_file_and_one_of_a_version_alone_have_no_entries() {
    for text in ["", "0\n", "0"] {
        assert_eq!(epochs(text), Ok(vec![]), "{text:?}");
        assert_eq!(offsets(text), Ok(OffsetCheckpoint::new()), "{text:?}");
    }
    assert_eq!(epochs("0\n0\n"), Ok(vec![]));
    assert_eq!(offsets("0\n0\n"), Ok(OffsetCheckpoint::new()));
}

/// FR-060.
#[test]
fn a_missing_final_newline_double_space_and_carriage_returns_are_accepted() {
    for text in ["0\n1\n0 0", "0\n1\n0  0\n", "0\n1\n0\t0\n", "0\r\n1\r\n0 0\r\n", "0\n1\n0 0 \n"] {
        assert_eq!(epochs(text), Ok(one_epoch()), "{text:?}");
        let text = text.replace("\n0", "\nt 0");
        assert_eq!(offsets(&text), Ok(one_offset()), "{text:?}");
    }
}

/// FR-060.
#[test]
fn a_count_that_does_not_match_is_named_with_its_line() {
    for (text, stated, found) in [
        ("0\n1\n", 1, 0),
        ("0\n2\n0 0\n", 2, 1),
        ("0\n1\n0 0\n1 5\n", 1, 2),
        ("0\n-1\n", -1, 0),
        ("0\n9223372036854775807\n0 0\n", i64::MAX, 1),
    ] {
        let damage = epochs(text).unwrap_err();
        assert!(
            matches!(damage.kind(), DamageKind::EntryCount { stated: s, found: f, .. }
                if s == stated && f == found),
            "{text:?}: {damage}"
        );
        assert_eq!((damage.line(), damage.position().get()), (Some(2), 2));
    }
}

/// FR-060.
#[test]
fn another_version_is_refused() {
    let damage = epochs("1\n1\n0 0\n").unwrap_err();
    assert!(matches!(damage.kind(), DamageKind::Version { found: 1, .. }), "{damage}");
    assert_eq!(damage.line(), Some(1));
    assert!(matches!(offsets("-1\n0\n").unwrap_err().kind(), DamageKind::Version { .. }));
}

#[test]
fn a_line_that_is_no_entry_is_named_with_its_line_and_byte() {
    for (text, line, byte) in [
        ("0\n2\n0 0\n5\n", 4, 8),
        ("0\n2\n0 0\n5 6 7\n", 4, 8),
        ("0\n1\n 0 0\n", 3, 4),
        ("0\n1\n\n", 3, 4),
        ("0\n1\nx 0\n", 3, 4),
        ("0\n1\n0 9223372036854775808\n", 3, 4),
        ("0\n1\n0 -1\n", 3, 4),
        ("x\n1\n0 0\n", 1, 0),
        ("0\n0 0\n", 2, 2),
    ] {
        let damage = epochs(text).unwrap_err();
        assert_eq!((damage.line(), damage.position().get()), (Some(line), byte), "{text:?}");
    }
    let damage = offsets("0\n1\nt 0 1 2\n").unwrap_err();
    assert_eq!(damage.to_string(), "line 3, byte 4: 4 fields where 3 are needed");
}

#[test]
fn bytes_that_are_no_text_are_damage() {
    let damage = OffsetCheckpoint::parse(b"0\n1\n\xff\xfe 0 0\n").unwrap_err();
    assert_eq!(damage.kind(), DamageKind::NotUtf8);
    let zeros = OffsetCheckpoint::parse(&[0; 4096]).unwrap_err();
    assert!(matches!(zeros.kind(), DamageKind::Number { field: "version", .. }), "{zeros}");
}

#[test]
fn of_two_entries_for_a_partition_the_later_counts() {
    let checkpoint = offsets("0\n2\nt 0 5\nt 0 7\n").unwrap();
    assert_eq!(checkpoint.offset(&TopicPartition::new("t", 0)), Some(Offset::new(7)));
    assert_eq!(checkpoint.len(), 1);
}

#[test]
fn a_file_comes_back_as_written_and_leaves_no_temporary_file() {
    let dir = tempfile::tempdir().unwrap();
    for kind in CheckpointKind::ALL {
        assert!(OffsetCheckpoint::read(&Io::new(), kind, dir.path()).unwrap().is_empty());
        one_offset().write(&Io::new(), kind, dir.path()).unwrap();
        one_offset().write(&Io::new(), kind, dir.path()).unwrap();
        assert_eq!(OffsetCheckpoint::read(&Io::new(), kind, dir.path()).unwrap(), one_offset());
        assert_eq!(std::fs::read(kind.path(dir.path())).unwrap(), b"0\n1\nt 0 0\n");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn a_left_over_temporary_file_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let kind = CheckpointKind::RecoveryPoint;
    let temporary = kind.path(dir.path()).with_extension("tmp");
    std::fs::write(&temporary, "half of a longer file from before the crash").unwrap();
    one_offset().write(&Io::new(), kind, dir.path()).unwrap();
    assert_eq!(OffsetCheckpoint::read(&Io::new(), kind, dir.path()).unwrap(), one_offset());
    assert!(!temporary.exists());
}

/// No entries would mean: recover everything, from offset 0 on.
#[test]
fn a_checkpoint_that_cannot_be_read_is_an_error_and_not_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    for kind in CheckpointKind::ALL {
        std::fs::create_dir(kind.path(dir.path())).unwrap();
        let error = OffsetCheckpoint::read(&Io::new(), kind, dir.path()).unwrap_err();
        assert!(matches!(error, FileError::Io { .. }), "{error}");
        assert_eq!(error.path(), kind.path(dir.path()));
    }
}

#[test]
fn a_partition_is_named_by_its_topic_and_number() {
    let checkpoint = offsets("0\n2\nb-c 11 5\na 7 6\n").unwrap();
    let found: Vec<_> = checkpoint
        .iter()
        .map(|(partition, offset)| {
            (partition.topic(), partition.partition(), partition.to_string(), offset.get())
        })
        .collect();
    let expected = [("a", 7, "a-7".to_owned(), 6), ("b-c", 11, "b-c-11".to_owned(), 5)];
    assert_eq!(found, expected);
    assert!(!checkpoint.is_empty());
}

#[test]
fn a_damaged_file_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("leader-epoch-checkpoint");
    std::fs::write(&path, "0\n1\n").unwrap();
    let error = read_epochs(&Io::new(), dir.path()).unwrap_err();
    assert_eq!(error.path(), path);
    assert!(error.damage().is_some());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(matches!(read_epochs(&Io::new(), dir.path()).unwrap_err(), FileError::Io { .. }));
}
