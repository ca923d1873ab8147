//! Index files as a crash, a copy or an old broker left them.

use std::fs;

use alluvium_record_format::{Offset, Position};
use alluvium_sparse_index::{IndexError, OffsetIndexFile, Refusal, TimeIndexFile};

use crate::support::{Dir, at, hex, refusal, time};

fn open(dir: &Dir, bytes: &[u8]) -> OffsetIndexFile {
    let path = dir.file("0.index", bytes);
    OffsetIndexFile::open(&path, Offset::new(0), 1024, &dir.permit).unwrap()
}

/// FR-033: zeros, a single zero entry, half an entry, an entry and a half.
#[test]
fn zeros_and_torn_entries_do_not_count_and_the_index_goes_on() {
    let torn = hex("00000005");
    let one_and_a_half = hex("00000005 00000076 00000000");
    let cases: [(&[u8], usize); 4] =
        [(&[0; 1024], 0), (&[0; 8], 0), (&torn, 0), (&one_and_a_half, 1)];
    for (bytes, entries) in cases {
        let dir = Dir::new();
        let index = open(&dir, bytes);
        assert_eq!(index.len(), entries);
        assert_eq!(index.lookup(Offset::new(3)), at(0, 0));
        let path = dir.path("0.index");
        let peeked = OffsetIndexFile::peek_last_entry(&path, Offset::new(0)).unwrap();
        assert_eq!(peeked, index.last_entry());

        index.resize(1024).unwrap();
        index.append(at(8, 0xec)).unwrap();
        index.trim_to_valid_size().unwrap();
        index.sanity_check().unwrap();
        let stored = fs::read(&path).unwrap();
        assert_eq!(stored.len(), 8 * (entries + 1));
        assert!(stored.ends_with(&hex("00000008 000000ec")));
    }
}

#[test]
fn the_end_of_the_entries_is_found_whatever_follows_of_zeros() {
    for entries in 0..20_u32 {
        for zeros in 0..20_u32 {
            let dir = Dir::new();
            let mut bytes = Vec::new();
            for entry in 1..=entries {
                bytes.extend_from_slice(&entry.to_be_bytes());
                bytes.extend_from_slice(&(entry * 100).to_be_bytes());
            }
            bytes.resize(usize::try_from(8 * (entries + zeros)).unwrap(), 0);
            let index = open(&dir, &bytes);
            assert_eq!(index.len(), usize::try_from(entries).unwrap());
            let path = dir.path("0.index");
            let peeked = OffsetIndexFile::peek_last_entry(&path, Offset::new(0)).unwrap();
            assert_eq!(peeked, index.last_entry(), "{entries} entries, {zeros} zeros");
        }
    }
}

/// A page that was never written, with later entries behind it.
#[test]
fn a_hole_of_zeros_does_not_hide_the_entries_behind_it() {
    let dir = Dir::new();
    let holed = [hex("00000005 00000076"), vec![0; 80], hex("00000008 000000ec")].concat();
    let index = open(&dir, &holed);
    assert_eq!((index.len(), index.last_entry()), (12, Some(at(8, 0xec))));
    let path = dir.path("0.index");
    let peeked = OffsetIndexFile::peek_last_entry(&path, Offset::new(0)).unwrap();
    assert_eq!(peeked, index.last_entry());

    let first = hex("0000000000000009 00000002");
    let holed = [first, vec![0; 120], hex("000000000000000a 00000005")].concat();
    let path = dir.file("0.timeindex", &holed);
    let times = TimeIndexFile::open(&path, Offset::new(0), 1024, &dir.permit).unwrap();
    assert_eq!((times.len(), times.last_entry()), (12, Some(time(10, 5))));
}

#[test]
fn a_misaligned_file_fails_the_check_until_it_is_trimmed() {
    let dir = Dir::new();
    let index = open(&dir, &hex("00000005 00000076 00000000"));
    let error = index.sanity_check().unwrap_err();
    assert!(matches!(error, IndexError::Corrupt { .. }), "{error}");
    index.trim_to_valid_size().unwrap();
    index.sanity_check().unwrap();
}

#[test]
fn a_last_entry_that_cannot_be_fails_the_check_of_the_file_at_its_byte() {
    let dir = Dir::new();
    let at_byte = |result: Result<(), IndexError>| {
        let Err(IndexError::Corrupt { source, .. }) = result else { panic!("{result:?}") };
        source.position()
    };
    let below_base = hex("00000005 00000076 | fffffffe 000000ec");
    assert_eq!(at_byte(open(&dir, &below_base).sanity_check()), Position::new(8));
    for goes_back in ["0000000000000008 00000003", "000000000000000a ffffffff"] {
        let path = dir.file("0.timeindex", &hex(&format!("0000000000000009 00000002{goes_back}")));
        let times = TimeIndexFile::open(&path, Offset::new(0), 0, &dir.permit).unwrap();
        assert_eq!(at_byte(times.sanity_check()), Position::new(12), "{goes_back}");
    }
}

/// FR-030.
#[test]
fn the_largest_relative_offset_fits_and_the_next_does_not() {
    let dir = Dir::new();
    for base in [0, (1 << 32) + 5, i64::MAX - (1 << 31)] {
        let index = dir.offset_index(base, 1024);
        let last = base + 0x7fff_ffff;
        assert!(index.can_append_offset(Offset::new(last)));
        assert!(!index.can_append_offset(Offset::new(last + 1)));
        assert!(!index.can_append_offset(Offset::new(base - 1)));
        let overflow = refusal(index.append(at(last + 1, 70)));
        assert!(matches!(overflow, Refusal::OffsetOverflow { .. }), "{overflow}");
        index.append(at(last, 70)).unwrap();
        assert_eq!(index.lookup(Offset::new(i64::MAX)), at(last, 70));

        let times = dir.time_index(base, 1024);
        let overflow = refusal(times.maybe_append(time(5, last + 1)));
        assert!(matches!(overflow, Refusal::OffsetOverflow { .. }), "{overflow}");
        times.maybe_append(time(5, last)).unwrap();
    }
}

/// FR-039: a closed empty segment has files of no bytes; it looks full until it is resized.
#[test]
fn an_empty_file_opens_is_full_and_takes_entries_after_a_resize() {
    let dir = Dir::new();
    let index = open(&dir, &[]);
    assert_eq!((index.len(), index.max_entries(), index.is_full()), (0, 0, true));
    assert_eq!(index.lookup(Offset::new(9)), at(0, 0));
    assert!(matches!(refusal(index.append(at(1, 1))), Refusal::Full { .. }));
    assert!(index.resize(1024).unwrap());
    assert!(!index.is_full());
    index.append(at(1, 1)).unwrap();

    let path = dir.file("0.timeindex", &[]);
    let times = TimeIndexFile::open(&path, Offset::new(0), 1024, &dir.permit).unwrap();
    assert!(times.is_full());
    assert!(matches!(refusal(times.append_final(time(1, 1))), Refusal::Full { .. }));
    times.resize(1024).unwrap();
    assert!(times.maybe_append(time(1, 1)).unwrap());
}

/// FR-039: where nothing can ever be mapped, nothing is.
#[test]
fn an_empty_file_without_room_to_grow_answers_and_refuses() {
    let dir = Dir::new();
    let path = dir.file("0.index", &[]);
    for index in [
        OffsetIndexFile::open(&path, Offset::new(0), 7, &dir.permit).unwrap(),
        OffsetIndexFile::open_sealed(&path, Offset::new(0), &dir.permit).unwrap(),
    ] {
        assert_eq!(
            (index.last_entry(), index.upper_bound_offset(Position::new(0), 5)),
            (None, None)
        );
        assert!(matches!(refusal(index.resize(8)), Refusal::Length { .. } | Refusal::Sealed));
        index.flush().unwrap();
    }
}

#[test]
fn an_index_cannot_be_created_without_room_for_an_entry_nor_over_a_file() {
    let dir = Dir::new();
    let (path, base) = (dir.path("0.index"), Offset::new(0));
    let create = |max_bytes| OffsetIndexFile::create(&path, base, max_bytes, &dir.permit);
    assert!(matches!(refusal(create(7)), Refusal::Length { bytes: 7, .. }));
    assert!(!path.exists());
    create(8).unwrap();
    let error = create(8).unwrap_err();
    assert!(matches!(error, IndexError::Io { .. }), "{error}");
}

/// A hole of the largest length: nothing of it is read but a few slots.
#[test]
fn a_file_of_a_byte_less_than_2_gib_opens() {
    let dir = Dir::new();
    let path = dir.path("0.index");
    fs::File::create(&path).unwrap().set_len((1 << 31) - 1).unwrap();
    let index = OffsetIndexFile::open(&path, Offset::new(0), 0, &dir.permit).unwrap();
    assert_eq!((index.len(), index.max_entries()), (0, (1 << 28) - 1));
    assert_eq!(OffsetIndexFile::peek_last_entry(&path, Offset::new(0)).unwrap(), None);
}

#[test]
fn a_missing_file_and_one_of_2_gib_are_errors_that_name_it() {
    let dir = Dir::new();
    let path = dir.path("0.index");
    let open = || OffsetIndexFile::open(&path, Offset::new(0), 1024, &dir.permit);
    let error = open().unwrap_err();
    assert!(matches!(error, IndexError::Io { .. }), "{error}");
    assert!(error.to_string().contains("0.index"), "{error}");
    fs::File::create(&path).unwrap().set_len(1 << 31).unwrap();
    for error in [
        open().unwrap_err(),
        OffsetIndexFile::open_sealed(&path, Offset::new(0), &dir.permit).unwrap_err(),
        OffsetIndexFile::peek_last_entry(&path, Offset::new(0)).unwrap_err(),
    ] {
        assert!(matches!(error, IndexError::Corrupt { .. }), "{error}");
    }
}
