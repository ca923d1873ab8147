//! Any bytes: an answer or an error, never a panic.

use std::hint::black_box;

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{
    OffsetIndex, OffsetIndexFile, TimeIndex, TimeIndexFile, TransactionIndex, TransactionIndexFile,
};
use proptest::prelude::*;

use crate::support::Dir;

/// Bytes in which numbers near the limits are frequent.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0_u8), Just(0xff), Just(0x7f), Just(0x80), any::<u8>()];
    prop::collection::vec(byte, 0..400)
}

fn any_number() -> impl Strategy<Value = i64> {
    prop_oneof![Just(0), Just(-1), Just(i64::MIN), Just(i64::MAX), any::<i64>(), 0_i64..1000]
}

proptest! {
    #[test]
    fn views_over_any_bytes_answer(
        bytes in any_bytes(), base in any_number(), target in any_number(), size in any::<u32>(),
    ) {
        let (base, target_offset) = (Offset::new(base), Offset::new(target));
        let index = OffsetIndex::new(base, &bytes);
        black_box(index.lookup(target_offset));
        black_box(index.lookup_pair(target_offset));
        black_box(index.upper_bound_offset(Position::new(size), size));
        index.sanity_check().ok();
        prop_assert_eq!(index.iter().count(), bytes.len() / 8);
        prop_assert!(index.without_padding().len() <= index.len());

        let index = TimeIndex::new(base, &bytes);
        black_box(index.lookup(Timestamp::new(target)));
        index.sanity_check().ok();
        prop_assert_eq!(index.iter().count(), bytes.len() / 12);
        prop_assert!(index.without_padding().len() <= index.len());

        let index = TransactionIndex::new(base, &bytes);
        index.collect(target_offset, Offset::new(i64::MAX)).ok();
        index.sanity_check().ok();
        prop_assert!(index.iter().count() <= bytes.len() / 34);
    }

    #[test]
    fn files_of_any_bytes_open_answer_and_trim(
        bytes in any_bytes(), base in any_number(), target in any_number(), is_sealed: bool,
    ) {
        let dir = Dir::new();
        let path = dir.file("0", &bytes);
        let (base, target_offset) = (Offset::new(base), Offset::new(target));
        let index = if is_sealed {
            OffsetIndexFile::open_sealed(&path, base, &dir.permit).unwrap()
        } else {
            OffsetIndexFile::open(&path, base, 4096, &dir.permit).unwrap()
        };
        black_box(index.lookup(target_offset));
        black_box(index.lookup_pair(target_offset));
        black_box(index.upper_bound_offset(Position::new(0), 70));
        index.sanity_check().ok();
        let peeked = OffsetIndexFile::peek_last_entry(&path, base).unwrap();
        prop_assert_eq!(peeked, index.last_entry());
        if !is_sealed {
            index.truncate_to(target_offset).unwrap();
            index.trim_to_valid_size().unwrap();
            prop_assert_eq!(index.size_bytes() % 8, 0);
        }

        let path = dir.file("1", &bytes);
        let index = TimeIndexFile::open(&path, base, 4096, &dir.permit).unwrap();
        black_box(index.lookup(Timestamp::new(target)));
        index.sanity_check().ok();
        index.truncate_to(target_offset).unwrap();
        index.trim_to_valid_size().unwrap();
        prop_assert_eq!(index.size_bytes() % 12, 0);

        if let Ok(index) = TransactionIndexFile::open(&path, base) {
            index.truncate_to(target_offset).unwrap();
        }
    }
}
