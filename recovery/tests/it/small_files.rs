//! Snapshots, metadata, markers and properties, damaged and unusual.

use alluvium_record_format::{ProducerEpoch, ProducerId, Uuid};
use alluvium_recovery::{
    CleanShutdown, DamageKind, FileError, MetaConflict, MetaProperties, MetaVersion,
    PartitionMetadata, ProducerEntry, ProducerSnapshot, Properties, encode_snapshot, read_snapshot,
};
use alluvium_segment::Io;

fn one_producer() -> Vec<u8> {
    encode_snapshot([&ProducerEntry::new(ProducerId::new(7), ProducerEpoch::new(0))])
}

/// FR-083.
#[test]
fn a_snapshot_that_is_empty_junk_or_of_another_version_is_damage() {
    for (bytes, kind) in [
        (vec![], "the file ends early: 10 bytes needed, 0 there"),
        (vec![0, 0x63, 0, 0, 0, 0, 0, 0, 0, 0], "version 99 is unknown"),
        (one_producer()[..55].to_vec(), "the file ends early: 56 bytes needed, 55 there"),
        ([one_producer(), vec![0]].concat(), "1 bytes after the last entry"),
        (vec![0, 1, 0, 0, 0, 0, 255, 255, 255, 255], "entry count is not a number of its range"),
    ] {
        let damage = ProducerSnapshot::parse(&bytes).unwrap_err();
        assert_eq!(damage.kind().to_string(), kind);
    }
}

/// FR-083.
#[test]
fn every_flipped_bit_of_a_snapshot_is_noticed() {
    let good = one_producer();
    for bit in 0..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let checked = ProducerSnapshot::parse(&bytes).and_then(|s| s.verify_crc());
        assert!(checked.is_err(), "bit {bit}");
    }
}

/// FR-083.
#[test]
fn a_snapshot_file_with_a_wrong_checksum_names_file_and_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("00000000000000000009.snapshot");
    std::fs::write(&path, [0, 1, 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0]).unwrap();
    let error = read_snapshot(&Io::new(), &path).unwrap_err();
    assert_eq!(error.path(), path);
    let damage = error.damage().unwrap();
    let expected = "byte 2: stored checksum 0xdeadbeef, computed 0x48674bc7";
    assert_eq!(damage.to_string(), expected);
}

#[test]
fn partition_metadata_without_a_usable_topic_id_is_damage() {
    for text in [
        "",
        "version: 0",
        "version: x\ntopic_id: 0lWl9MJORwOvimct6ZfcPQ",
        "version: -1\ntopic_id: 0lWl9MJORwOvimct6ZfcPQ",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        "version: 0\ntopic_id: tooshort",
        "version: 0\ntopic_id:0lWl9MJORwOvimct6ZfcPQ",
        "version 0\ntopic_id 0lWl9MJORwOvimct6ZfcPQ",
    ] {
        assert!(PartitionMetadata::parse(text.as_bytes()).is_err(), "{text:?}");
    }
    let later = "version: 5\ntopic_id: 0lWl9MJORwOvimct6ZfcPQ\nmore: 1\n";
    assert_eq!(PartitionMetadata::parse(later.as_bytes()).unwrap().version, 5);
}

#[test]
fn partition_metadata_comes_back_as_written() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(PartitionMetadata::read(&Io::new(), dir.path()).unwrap(), None);
    let metadata = PartitionMetadata::new(Uuid::from_bytes([7; 16]));
    metadata.write(&Io::new(), dir.path()).unwrap();
    assert_eq!(PartitionMetadata::read(&Io::new(), dir.path()).unwrap(), Some(metadata));
}

#[test]
fn small_files_that_cannot_be_read_are_errors_and_not_missing_ones() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["partition.metadata", CleanShutdown::FILE_NAME] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let error = PartitionMetadata::read(&Io::new(), dir.path()).unwrap_err();
    assert!(matches!(error, FileError::Io { .. }), "{error}");
    let error = CleanShutdown::read(&Io::new(), dir.path()).unwrap_err();
    assert!(matches!(error, FileError::Io { .. }), "{error}");
}

/// FR-072.
#[test]
fn any_file_of_the_name_is_a_clean_shutdown_until_it_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(CleanShutdown::read(&Io::new(), dir.path()).unwrap(), None);
    assert!(!CleanShutdown::remove(&Io::new(), dir.path()).unwrap());
    for (content, epoch) in [
        ("", None),
        ("junk", None),
        ("{\"version\":0,\"brokerEpoch\":-1}", None),
        ("{ \"brokerEpoch\" : 42, \"version\" : 0 }", Some(42)),
    ] {
        std::fs::write(dir.path().join(CleanShutdown::FILE_NAME), content).unwrap();
        let marker = CleanShutdown::read(&Io::new(), dir.path()).unwrap().unwrap();
        assert_eq!(marker.broker_epoch, epoch, "{content:?}");
    }
    assert!(CleanShutdown::remove(&Io::new(), dir.path()).unwrap());
    assert_eq!(CleanShutdown::read(&Io::new(), dir.path()).unwrap(), None);
    CleanShutdown::new(Some(7)).write(&Io::new(), dir.path()).unwrap();
    assert_eq!(
        CleanShutdown::read(&Io::new(), dir.path()).unwrap(),
        Some(CleanShutdown::new(Some(7)))
    );
}

/// FR-072: a marker that cannot be removed must take the directory offline.
#[test]
fn a_marker_that_cannot_be_removed_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join(CleanShutdown::FILE_NAME)).unwrap();
    assert!(matches!(
        CleanShutdown::remove(&Io::new(), dir.path()).unwrap_err(),
        FileError::Io { .. }
    ));
}

#[test]
fn meta_properties_of_a_broker_with_zookeeper_are_read() {
    let meta = MetaProperties::parse(b"#\nbroker.id=3\nversion=0\nextra.key=kept\n").unwrap();
    assert_eq!((meta.version, meta.node_id), (MetaVersion::V0, Some(3)));
    assert_eq!(meta.cluster_id, None);
    assert!(meta.to_text().contains("extra.key=kept"));
    assert_eq!(MetaProperties::parse(meta.to_text().as_bytes()).unwrap(), meta);
}

#[test]
fn meta_properties_that_lack_an_id_or_reserve_one_are_damage() {
    let reserved = Uuid::from_bytes([0; 16]);
    for text in [
        "version=1\nnode.id=1\n".to_owned(),
        "version=1\ncluster.id=x\n".to_owned(),
        "version=2\ncluster.id=x\nnode.id=1\n".to_owned(),
        "version=1\ncluster.id=x\nnode.id=one\n".to_owned(),
        format!("version=1\ncluster.id=x\nnode.id=1\ndirectory.id={reserved}\n"),
    ] {
        assert!(MetaProperties::parse(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn directories_of_two_brokers_and_copies_of_one_do_not_go_together() {
    let meta = MetaProperties::new("c", 1, Uuid::from_bytes([1; 16]));
    let beside = MetaProperties::new("c", 1, Uuid::from_bytes([2; 16]));
    assert_eq!(meta.check_beside(&beside), Ok(()));
    let conflict = |other: MetaProperties| meta.check_beside(&other).unwrap_err();
    assert_eq!(
        conflict(MetaProperties::new("d", 1, Uuid::from_bytes([2; 16]))),
        MetaConflict::Cluster
    );
    assert_eq!(
        conflict(MetaProperties::new("c", 2, Uuid::from_bytes([2; 16]))),
        MetaConflict::Node
    );
    assert!(matches!(conflict(meta.clone()), MetaConflict::Directory { .. }));
}

#[test]
fn properties_are_escaped_as_java_escapes_them() {
    let mut properties = Properties::new();
    properties.set(" a b\t\r\n\u{c}=:#!\\\u{e9}~", "  c d\t\u{1f600}");
    let expected = "\\ a\\ b\\t\\r\\n\\f\\=\\:\\#\\!\\\\\\u00E9~=\\  c d\\t\\uD83D\\uDE00\n";
    assert_eq!(properties.to_text(), expected);
    assert_eq!(Properties::parse(expected.as_bytes()), Ok(properties));
}

#[test]
fn properties_follow_the_rules_of_java() {
    let text = b"# comment\n! comment\n\n  a = b \nc:d\ne f\nlong = one \\\n   two\\\\\nkey\\ with\\=all : v\\u00e9\\t\nempty\n\xe9=\xe9\na=last";
    let properties = Properties::parse(text).unwrap();
    let pairs: Vec<_> = properties.iter().collect();
    assert_eq!(
        pairs,
        [
            ("a", "b "),
            ("c", "d"),
            ("e", "f"),
            ("long", "one two\\"),
            ("key with=all", "v\u{e9}\t"),
            ("empty", ""),
            ("\u{e9}", "\u{e9}"),
            ("a", "last"),
        ]
    );
    assert_eq!(properties.value("a"), Some("last"));
    let damage = Properties::parse(b"a=b\nc=\\u00g0\n").unwrap_err();
    assert_eq!((damage.kind(), damage.line()), (DamageKind::Escape, Some(2)));
}
