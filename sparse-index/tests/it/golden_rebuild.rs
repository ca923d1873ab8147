//! Indexes of real segments, rebuilt from their batches to the same bytes.

use alluvium_record_format::Offset;
use alluvium_sparse_index::{
    AbortedTxn, BatchInfo, IndexBuilder, OffsetIndexFile, TimeIndexFile, TransactionIndex,
    TransactionIndexFile,
};

use crate::support::{Dir, batch};

struct Case {
    name: &'static str,
    base: i64,
    interval_bytes: u32,
    batches: &'static str,
    offset_index: &'static [u8],
    time_index: &'static [u8],
}

macro_rules! case {
    ($name:literal, $base:literal, $interval:literal) => {
        Case {
            name: $name,
            base: $base,
            interval_bytes: $interval,
            batches: include_str!(concat!("../golden/4.4.0/rebuild/", $name, ".batches")),
            offset_index: include_bytes!(concat!("../golden/4.4.0/rebuild/", $name, ".index")),
            time_index: include_bytes!(concat!("../golden/4.4.0/rebuild/", $name, ".timeindex")),
        }
    };
}

const CASES: [Case; 5] = [
    case!("by-time", 39, 256),
    case!("recovered", 120, 256),
    case!("append-time", 0, 128),
    case!("transactions", 4, 300),
    case!("compacted", 510, 512),
];

const TXN_INDEX: &[u8] = include_bytes!("../golden/4.4.0/rebuild/transactions.txnindex");

impl Case {
    fn batches(&self) -> impl Iterator<Item = BatchInfo> {
        self.batches.lines().map(|line| {
            let numbers: Vec<i64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
            let [last_offset, position, size, timestamp] = numbers[..] else { panic!("{line}") };
            batch(last_offset, position.try_into().unwrap(), size.try_into().unwrap(), timestamp)
        })
    }
}

#[test]
fn a_rebuild_gives_the_bytes_that_kafka_wrote() {
    for case in CASES {
        let mut builder = IndexBuilder::new(Offset::new(case.base), case.interval_bytes);
        for batch in case.batches() {
            builder.push(batch).unwrap();
        }
        let built = builder.finish().unwrap();
        assert_eq!(built.offset_index, case.offset_index, "{}", case.name);
        assert_eq!(built.time_index, case.time_index, "{}", case.name);
    }
}

#[test]
fn files_that_are_appended_to_end_with_the_bytes_that_kafka_wrote() {
    for case in CASES {
        let dir = Dir::new();
        let (offsets, times) = (dir.offset_index(case.base, 4096), dir.time_index(case.base, 4096));
        let mut rule = alluvium_sparse_index::IndexRule::new(case.interval_bytes);
        for due in case.batches().filter_map(|batch| rule.on_batch(batch)) {
            offsets.append(due.offset).unwrap();
            times.maybe_append(due.time.unwrap()).unwrap();
        }
        times.append_final(rule.max_timestamp().unwrap()).unwrap();
        offsets.trim_to_valid_size().unwrap();
        times.trim_to_valid_size().unwrap();
        let name = |suffix| dir.path(&format!("{:020}.{suffix}", case.base));
        assert_eq!(std::fs::read(name("index")).unwrap(), case.offset_index, "{}", case.name);
        assert_eq!(std::fs::read(name("timeindex")).unwrap(), case.time_index, "{}", case.name);
    }
}

#[test]
fn sealed_files_of_kafka_hold_the_entries_that_the_views_show() {
    let dir = Dir::new();
    for case in CASES {
        let base = Offset::new(case.base);
        let (offset_path, time_path) = (
            dir.file(&format!("{}.index", case.name), case.offset_index),
            dir.file(&format!("{}.timeindex", case.name), case.time_index),
        );
        let offsets = OffsetIndexFile::open_sealed(&offset_path, base, &dir.permit).unwrap();
        let times = TimeIndexFile::open_sealed(&time_path, base, &dir.permit).unwrap();
        let view = alluvium_sparse_index::OffsetIndex::new(base, case.offset_index);
        assert!(offsets.iter().eq(view.iter()));
        let view = alluvium_sparse_index::TimeIndex::new(base, case.time_index);
        assert!(times.iter().eq(view.iter()));
        offsets.sanity_check().unwrap();
        times.sanity_check().unwrap();
    }
}

#[test]
fn a_transaction_index_of_kafka_is_written_again_byte_for_byte() {
    let view = TransactionIndex::new(Offset::new(4), TXN_INDEX);
    view.sanity_check().unwrap();
    let txns: Vec<AbortedTxn> = view.iter().map(Result::unwrap).collect();
    assert_eq!(txns.len(), 7);
    let dir = Dir::new();
    let path = dir.path("4.txnindex");
    let file = TransactionIndexFile::open(&path, Offset::new(4)).unwrap();
    for txn in &txns {
        file.append(*txn).unwrap();
    }
    assert_eq!(std::fs::read(&path).unwrap(), TXN_INDEX);
    assert_eq!(txns.iter().flat_map(|txn| txn.to_bytes()).collect::<Vec<_>>(), TXN_INDEX);
    let reopened = TransactionIndexFile::open(&path, Offset::new(4)).unwrap();
    assert_eq!(reopened.entries(), txns);
}
