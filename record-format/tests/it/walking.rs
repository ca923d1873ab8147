//! From entry to entry: lengths that lie, cuts, magic bytes that change.

use alluvium_record_format::{
    Batch, CorruptClass, CorruptKind, Corruption, Entries, Entry, Position, Prefix, Walker,
};

use crate::hex;

const START: Position = Position::new(0);
const MAGIC1: &[u8] = include_bytes!("../golden/4.4.0/magic1/00000000000000000000.log");

/// Walks a buffer: how many entries, the byte after them, and the error that ended it.
fn walk(bytes: &[u8]) -> (usize, u32, Option<Corruption>) {
    let mut entries = Entries::new(bytes, START);
    let results: Vec<_> = entries.by_ref().collect();
    let whole = results.iter().filter(|result| result.is_ok()).count();
    let error = results.into_iter().find_map(Result::err);
    (whole, entries.position().get(), error)
}

/// Walks as a file reader does, with 17 bytes at a time.
fn walk_by_prefix(bytes: &[u8]) -> (usize, u32, Option<Corruption>) {
    let mut walker = Walker::new(START, Position::saturating_from_len(bytes.len()));
    let mut whole = 0;
    loop {
        let rest = &bytes[usize::try_from(walker.position().get()).unwrap()..];
        let step = walker.step(&rest[..rest.len().min(Prefix::LEN)]);
        match step {
            Ok(Some(_)) => whole += 1,
            Ok(None) => return (whole, walker.position().get(), None),
            Err(error) => return (whole, walker.position().get(), Some(error)),
        }
    }
}

/// FR-008
#[test]
fn a_length_that_lies_is_corrupt_or_incomplete() {
    for (length, class) in [
        (0, CorruptClass::Corrupt),
        (13, CorruptClass::Corrupt),
        (14, CorruptClass::Corrupt),
        (48, CorruptClass::Corrupt),
        (-1, CorruptClass::Corrupt),
        (i32::MAX, CorruptClass::Incomplete),
        (i32::MAX - 11, CorruptClass::Incomplete),
    ] {
        let mut bytes = hex::one_record();
        bytes[8..12].copy_from_slice(&i32::to_be_bytes(length));
        for (whole, position, error) in [walk(&bytes), walk_by_prefix(&bytes)] {
            assert_eq!((whole, position), (0, 0));
            assert_eq!(error.unwrap().class(), class, "{length}");
        }
        assert_eq!(Batch::parse(&bytes, START).unwrap_err().class(), class, "{length}");
    }
}

/// FR-008
#[test]
fn the_shortest_length_parses_and_fails_the_crc() {
    let mut bytes = hex::one_record();
    bytes[8..12].copy_from_slice(&49_i32.to_be_bytes());
    let batch = Batch::parse(&bytes, START).unwrap();
    assert!(matches!(batch.verify_crc().unwrap_err().kind(), CorruptKind::Crc { .. }));
}

/// FR-009
#[test]
fn the_crc_ends_where_the_batch_does() {
    let mut bytes = hex::one_record();
    bytes.push(0xaa);
    Batch::parse(&bytes, START).unwrap().verify_crc().unwrap();
}

/// FR-009
#[test]
fn an_unknown_magic_is_refused_by_its_value() {
    for magic in [0x03, 0x7f, 0x80, 0xff] {
        let mut bytes = hex::one_record();
        bytes[16] = magic;
        let error = Batch::parse(&bytes, START).unwrap_err();
        assert!(matches!(error.kind(), CorruptKind::Magic { .. }));
        assert_eq!(error.position(), Position::new(16));
    }
}

/// FR-025
#[test]
fn a_cut_buffer_yields_the_whole_batches_before_the_cut() {
    let whole = hex::three_batches();
    for len in 0..whole.len() {
        let mut with_neighbour = whole[..len].to_vec();
        with_neighbour.extend([0xaa; 64]);
        let cut = &with_neighbour[..len];
        assert_eq!(walk(cut), walk_by_prefix(cut));
        let (count, position, error) = walk(cut);
        assert_eq!(count, len / 118, "cut at {len}");
        assert_eq!(position, u32::try_from(len / 118 * 118).unwrap());
        if len % 118 == 0 {
            assert_eq!(error, None);
        } else {
            let error = error.unwrap();
            assert_eq!(error.class(), CorruptClass::Incomplete);
            assert_eq!(error.position(), Position::new(position));
        }
    }
}

/// FR-025
#[test]
fn a_walk_ends_after_its_error() {
    let whole = hex::three_batches();
    let mut entries = Entries::new(&whole[..200], START);
    assert!(entries.next().unwrap().is_ok());
    assert!(entries.next().unwrap().is_err());
    assert!(entries.next().is_none());
}

/// FR-067
#[test]
fn another_magic_after_a_batch_of_magic_2_is_corruption() {
    for magic in [0x00, 0x01, 0x03, 0xff] {
        let mut bytes = hex::three_batches();
        bytes[118 + 16] = magic;
        assert_eq!(walk(&bytes), walk_by_prefix(&bytes));
        let (count, position, error) = walk(&bytes);
        assert_eq!((count, position), (1, 118));
        let error = error.unwrap();
        assert!(matches!(error.kind(), CorruptKind::Magic { .. }), "{error}");
        assert_eq!(error.class(), CorruptClass::Corrupt);
        assert_eq!(error.position(), Position::new(118 + 16));
    }
}

/// FR-067: a topic whose message format was raised.
#[test]
fn batches_may_follow_on_older_messages() {
    let mut bytes = MAGIC1.to_vec();
    let older = walk(&bytes);
    assert_eq!(older.2, None);
    bytes.extend(hex::three_batches());
    assert_eq!(walk(&bytes), walk_by_prefix(&bytes));
    let (count, position, error) = walk(&bytes);
    assert_eq!((count, error), (older.0 + 3, None));
    assert_eq!(position, u32::try_from(bytes.len()).unwrap());
}

/// FR-047
#[test]
fn a_zero_tail_is_a_length_of_zero() {
    let mut bytes = hex::three_batches();
    bytes.extend([0; 40]);
    let (count, position, error) = walk(&bytes);
    assert_eq!((count, position), (3, 354));
    assert!(matches!(error.unwrap().kind(), CorruptKind::BatchLength { found: 0, .. }));
}

#[test]
fn positions_count_from_the_place_in_the_file() {
    let bytes = hex::three_batches();
    let at: Vec<_> = Entries::new(&bytes, Position::new(1000))
        .map(|entry| match entry.unwrap() {
            Entry::Batch(batch) => (batch.position().get(), batch.header().base_offset().get()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(at, [(1000, 0), (1118, 3), (1236, 6)]);
}

#[test]
fn a_message_of_magic_1_has_room_for_its_timestamp() {
    let mut bytes = MAGIC1.to_vec();
    bytes[8..12].copy_from_slice(&21_i32.to_be_bytes());
    let error = walk(&bytes).2.unwrap();
    assert!(matches!(error.kind(), CorruptKind::BatchLength { found: 21, min: 22, .. }));
}

#[test]
fn an_entry_alone_is_the_one_of_the_walk() {
    let bytes = [MAGIC1, &hex::three_batches()].concat();
    let older = walk(MAGIC1).0;
    let mut last_offsets = Vec::new();
    for walked in Entries::new(&bytes, START) {
        let walked = walked.unwrap();
        let at = walked.position();
        let from = &bytes[usize::try_from(at.get()).unwrap()..];
        let alone = Entry::parse(from, at).unwrap();
        assert_eq!((alone.bytes(), alone.position()), (walked.bytes(), at));
        assert_eq!((alone.magic(), alone.last_offset()), (walked.magic(), walked.last_offset()));
        assert!(alone.verify_crc().is_ok());
        last_offsets.push((alone.magic(), alone.last_offset().get()));
        let cut = &alone.bytes()[..alone.bytes().len() - 1];
        let error = Entry::parse(cut, at).unwrap_err();
        assert_eq!((error.class(), error.position()), (CorruptClass::Incomplete, at));
    }
    assert_eq!(last_offsets[older..], [(2, 2), (2, 5), (2, 8)]);
    let (first, last) = (last_offsets[0], last_offsets[older - 1]);
    assert_eq!((first, last), ((1, 0), (1, 67)));
}
