//! The transaction index as a file.

use std::fs;

use alluvium_record_format::{CorruptKind, Offset, Position, ProducerId};
use alluvium_sparse_index::{
    AbortedTxn, CollectedTxns, IndexError, Refusal, TransactionIndex, TransactionIndexFile,
};

use crate::support::{Dir, hex, refusal};

fn txn(producer: i64, first: i64, last: i64, stable: i64) -> AbortedTxn {
    let [first, last, stable] = [first, last, stable].map(Offset::new);
    AbortedTxn::new(ProducerId::new(producer), first, last, stable)
}

fn producers(collected: &CollectedTxns) -> Vec<i64> {
    collected.txns.iter().map(|txn| txn.producer_id.get()).collect()
}

fn open(dir: &Dir) -> TransactionIndexFile {
    TransactionIndexFile::open(&dir.path("0.txnindex"), Offset::new(0)).unwrap()
}

#[test]
fn the_file_appears_with_the_first_entry_which_is_stored_as_kafka_stores_it() {
    let dir = Dir::new();
    let index = open(&dir);
    index.flush().unwrap();
    index.truncate_to(Offset::new(5)).unwrap();
    index.reset().unwrap();
    assert!(!dir.path("0.txnindex").exists());
    index.append(txn(7, 100, 200, 201)).unwrap();
    index.flush().unwrap();
    let golden = "0000 0000000000000007 0000000000000064 00000000000000c8 00000000000000c9";
    assert_eq!(fs::read(dir.path("0.txnindex")).unwrap(), hex(golden));
}

/// No entries would mean: no transaction of the segment was aborted.
#[test]
fn an_index_that_cannot_be_opened_is_an_error_and_not_an_empty_one() {
    let dir = Dir::new();
    let path = dir.file("no-directory", &[]).join("0.txnindex");
    let error = TransactionIndexFile::open(&path, Offset::new(0)).unwrap_err();
    assert!(matches!(error, IndexError::Io { .. }), "{error}");
    let error = TransactionIndexFile::open_reset(&path, Offset::new(0)).unwrap_err();
    assert!(matches!(error, IndexError::Io { .. }), "{error}");
}

#[test]
fn a_flush_that_does_not_reach_its_file_is_an_error() {
    let dir = Dir::new();
    let index = open(&dir);
    index.append(txn(7, 100, 200, 201)).unwrap();
    fs::remove_file(dir.path("0.txnindex")).unwrap();
    fs::create_dir(dir.path("0.txnindex")).unwrap();
    let error = index.flush().unwrap_err();
    assert!(matches!(error, IndexError::Io { .. }), "{error}");
}

/// FR-043: last offsets rise strictly, also against what was there before the index was opened.
#[test]
fn a_repeated_last_offset_is_refused_before_a_byte_is_written() {
    let dir = Dir::new();
    open(&dir).append(txn(7, 100, 200, 201)).unwrap();
    let index = open(&dir);
    assert!(!index.is_empty());
    let refused = refusal(index.append(txn(8, 150, 200, 201)));
    assert!(matches!(refused, Refusal::OutOfOrder { .. }), "{refused}");
    assert_eq!((index.len(), fs::read(dir.path("0.txnindex")).unwrap().len()), (1, 34));
    index.append(txn(8, 150, 201, 202)).unwrap();
}

/// FR-043: 40 bytes of zeros.
#[test]
fn a_torn_entry_is_written_over_so_that_the_next_one_is_aligned() {
    let dir = Dir::new();
    dir.file("0.txnindex", &[0; 40]);
    let index = open(&dir);
    assert_eq!(index.len(), 1);
    index.append(txn(7, 100, 200, 201)).unwrap();
    let bytes = fs::read(dir.path("0.txnindex")).unwrap();
    assert_eq!(bytes.len(), 68);
    let view = TransactionIndex::new(Offset::new(0), &bytes);
    assert_eq!(view.last_entry(), Ok(Some(txn(7, 100, 200, 201))));
}

/// FR-043: an entry of version 1.
#[test]
fn an_unknown_version_is_corrupt_and_a_reset_makes_the_index_usable() {
    let dir = Dir::new();
    let mut bytes = vec![0; 68];
    bytes[35] = 1;
    let path = dir.file("0.txnindex", &bytes);
    let error = TransactionIndexFile::open(&path, Offset::new(0)).unwrap_err();
    let IndexError::Corrupt { source, .. } = error else { panic!("{error}") };
    assert_eq!(
        (source.position(), source.kind()),
        (Position::new(34), CorruptKind::index_version(1))
    );

    let index = TransactionIndexFile::open_reset(&path, Offset::new(0)).unwrap();
    index.append(txn(7, 100, 200, 201)).unwrap();
    assert_eq!(open(&dir).entries(), [txn(7, 100, 200, 201)]);
}

#[test]
fn an_entry_that_ends_below_the_base_offset_is_corrupt() {
    let dir = Dir::new();
    open(&dir).append(txn(7, 100, 200, 201)).unwrap();
    let path = dir.path("0.txnindex");
    TransactionIndexFile::open(&path, Offset::new(200)).unwrap();
    let error = TransactionIndexFile::open(&path, Offset::new(201)).unwrap_err();
    assert!(matches!(error, IndexError::Corrupt { .. }), "{error}");
}

#[test]
fn a_collection_takes_what_touches_the_range_and_ends_at_a_stable_offset_beyond_it() {
    let dir = Dir::new();
    let index = open(&dir);
    for entry in [txn(1, 0, 10, 11), txn(2, 5, 20, 21), txn(3, 25, 30, 31), txn(4, 8, 40, 41)] {
        index.append(entry).unwrap();
    }
    let collect = |from, to| index.collect(Offset::new(from), Offset::new(to));
    let cases: [(i64, i64, &[i64], bool); 6] = [
        (0, 100, &[1, 2, 3, 4], false),
        (0, 32, &[1, 2, 3, 4], true),
        (11, 31, &[2, 3], true),
        (10, 11, &[1], true),
        (21, 25, &[], true),
        (41, 50, &[], false),
    ];
    let bytes = fs::read(dir.path("0.txnindex")).unwrap();
    let view = TransactionIndex::new(Offset::new(0), &bytes);
    for (from, to, expected, complete) in cases {
        let collected = collect(from, to);
        assert_eq!(producers(&collected), expected, "{from}..{to}");
        assert_eq!(collected.is_complete, complete, "{from}..{to}");
        assert_eq!(view.collect(Offset::new(from), Offset::new(to)), Ok(collected));
    }
}

#[test]
fn a_truncation_cuts_at_the_first_entry_that_ends_at_the_offset_or_above() {
    let dir = Dir::new();
    let index = open(&dir);
    for entry in [txn(1, 0, 10, 11), txn(2, 5, 20, 21), txn(3, 25, 30, 31)] {
        index.append(entry).unwrap();
    }
    index.truncate_to(Offset::new(31)).unwrap();
    assert_eq!(index.len(), 3);
    index.truncate_to(Offset::new(20)).unwrap();
    assert_eq!(index.entries(), [txn(1, 0, 10, 11)]);
    assert_eq!(fs::read(dir.path("0.txnindex")).unwrap().len(), 34);
    index.append(txn(4, 12, 15, 16)).unwrap();
    index.reset().unwrap();
    assert!(index.is_empty());
    assert_eq!(fs::read(dir.path("0.txnindex")).unwrap().len(), 0);
}

#[test]
fn an_index_follows_its_file_under_a_new_name() {
    let dir = Dir::new();
    let index = open(&dir);
    index.append(txn(1, 0, 10, 11)).unwrap();
    let renamed = dir.path("0.txnindex.deleted");
    fs::copy(dir.path("0.txnindex"), &renamed).unwrap();
    index.set_path(renamed.clone());
    index.append(txn(2, 5, 20, 21)).unwrap();
    assert_eq!(fs::read(renamed).unwrap().len(), 68);
}
