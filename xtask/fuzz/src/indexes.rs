//! Parsers of index files, each look-up beside a slow one.

use alluvium_record_format::{Offset, Position, Timestamp};
use alluvium_sparse_index::{AbortedTxn, OffsetEntry, OffsetIndex, TimeIndex, TransactionIndex};

/// An offset index.
pub fn offset(data: &[u8]) {
    let Some((base, target, bytes)) = two_numbers(data) else { return };
    let (base, target) = (Offset::new(base), Offset::new(target));
    let index = OffsetIndex::new(base, bytes);
    let entries: Vec<_> = index.iter().collect();
    assert_eq!(entries.len(), index.len());
    let _answers = (index.sanity_check().is_ok(), index.padding_start(), index.last_offset());
    let _pair = index.lookup_pair(target);
    let _bound = index.upper_bound_offset(Position::new(7), 1 << 20);
    assert!(index.without_padding().len() <= index.len());
    let found = index.lookup(target);
    if entries.is_sorted_by(|one, next| one.offset < next.offset) {
        let slow = entries.iter().rev().find(|entry| entry.offset <= target);
        let none = OffsetEntry::new(base, Position::new(0));
        assert_eq!(found, slow.copied().unwrap_or(none));
    }
}

/// A time index.
pub fn time(data: &[u8]) {
    let Some((base, target, bytes)) = two_numbers(data) else { return };
    let (base, target) = (Offset::new(base), Timestamp::new(target));
    let index = TimeIndex::new(base, bytes);
    let entries: Vec<_> = index.iter().collect();
    assert_eq!(entries.len(), index.len());
    let _answers = (index.sanity_check().is_ok(), index.padding_start(), index.last_entry());
    let found = index.lookup(target);
    if entries.is_sorted_by(|one, next| one.timestamp < next.timestamp) {
        let slow = entries.iter().rev().find(|entry| entry.timestamp <= target);
        assert_eq!(found, slow.copied());
    }
}

/// A transaction index; its entries are written and read again.
pub fn transaction(data: &[u8]) {
    let Some((base, target, bytes)) = two_numbers(data) else { return };
    let index = TransactionIndex::new(Offset::new(base), bytes);
    let _sound = index.sanity_check().is_ok();
    let _collected = index.collect(Offset::new(target), Offset::new(target.saturating_add(10)));
    let entries: Result<Vec<AbortedTxn>, _> = index.iter().collect();
    let Ok(entries) = entries else { return };
    let written: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes()).collect();
    assert_eq!(written, bytes[..written.len()]);
}

/// Two numbers and the rest.
fn two_numbers(data: &[u8]) -> Option<(i64, i64, &[u8])> {
    let (first, rest) = data.split_first_chunk()?;
    let (second, rest) = rest.split_first_chunk()?;
    Some((i64::from_be_bytes(*first), i64::from_be_bytes(*second), rest))
}
