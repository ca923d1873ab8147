//! The offset map.

use std::collections::HashMap;

use alluvium_cleaner::OffsetMap;
use alluvium_record_format::Offset;
use proptest::prelude::*;

#[test]
fn a_full_map_refuses_known_keys_too() {
    let mut map = OffsetMap::new(240, 0.5);
    assert_eq!(map.capacity(), 5);
    for offset in 0..5 {
        assert!(map.put(&[b'k', u8::try_from(offset).unwrap()], Offset::new(offset)));
    }
    assert!(!map.put(b"k\x00", Offset::new(9)));
    assert_eq!(map.last_offset(b"k\x00"), Some(Offset::new(0)));
    assert_eq!(map.len(), 5);
}

#[test]
fn offsets_out_of_its_reach_fill_the_map_instead_of_wrapping() {
    let mut map = OffsetMap::new(1024, 0.9);
    map.clear(Offset::new(100));
    assert!(!map.put(b"below", Offset::new(99)));
    assert!(!map.put(b"above", Offset::new(100 + (1 << 48))));
    assert!(map.put(b"last", Offset::new(100 + (1 << 48) - 2)));
    assert_eq!(map.last_offset(b"last"), Some(Offset::new(100 + (1 << 48) - 2)));
}

#[test]
fn memory_for_no_key_is_a_map_for_no_key() {
    let mut map = OffsetMap::new(23, 0.9);
    assert_eq!(map.capacity(), 0);
    assert!(!map.put(b"key", Offset::new(0)));
    assert_eq!(map.last_offset(b"key"), None);
}

proptest! {
    #[test]
    fn the_last_offset_of_every_key_is_found(
        puts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..4), 0..400),
        bytes in 24_usize..20_000,
    ) {
        let mut map = OffsetMap::new(bytes, 0.9);
        let mut model = HashMap::new();
        for round in 0..2 {
            map.clear(Offset::new(round));
            model.clear();
            for (offset, key) in (round..).zip(&puts) {
                if !map.put(key, Offset::new(offset)) {
                    prop_assert_eq!(model.len(), map.capacity());
                    break;
                }
                model.insert(key, Offset::new(offset));
            }
            prop_assert_eq!(map.len(), model.len());
            for key in &puts {
                prop_assert_eq!(map.last_offset(key), model.get(key).copied());
            }
        }
    }
}
