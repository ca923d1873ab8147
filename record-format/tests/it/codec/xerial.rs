//! Snappy payloads in xerial's framing: headers, chunks, streams that were appended to others.

use alluvium_record_format::{Codec, CorruptKind, decompress};

/// The content, or `None` where it is refused as no such stream.
fn read(payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match decompress(Codec::Snappy, payload, 1 << 20, &mut out) {
        Ok(()) => Some(out),
        Err(CorruptKind::Compressed { codec: Codec::Snappy, .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

fn header(version: i32) -> Vec<u8> {
    [&b"\x82SNAPPY\0"[..], &version.to_be_bytes(), &1_i32.to_be_bytes()].concat()
}

fn chunk(content: &[u8]) -> Vec<u8> {
    let block = snap::raw::Encoder::new().compress_vec(content).unwrap();
    let len = u32::try_from(block.len()).unwrap();
    [&len.to_be_bytes()[..], &block].concat()
}

#[test]
fn a_snappy_stream_that_was_appended_to_another_is_read_if_its_version_is_known() {
    for (version, is_known) in [(1, true), (2, true), (i32::MAX, true), (0, false), (-1, false)] {
        let payload = [header(1), chunk(b"one"), header(version), chunk(b"two")].concat();
        let expected = is_known.then(|| b"onetwo".to_vec());
        assert_eq!(read(&payload), expected, "version {version}");
    }
    let first = [header(0), chunk(b"one")].concat();
    assert_eq!(read(&first), Some(b"one".to_vec()), "the first version is not looked at");
    let twice = [header(1), header(1), chunk(b"one")].concat();
    assert_eq!(read(&twice), Some(b"one".to_vec()));
}

#[test]
fn a_snappy_stream_that_was_appended_to_another_needs_its_whole_header() {
    let second = header(1);
    let first = [second.clone(), chunk(b"one")].concat();
    for len in 4..second.len() {
        assert_eq!(read(&[&first, &second[..len]].concat()), None, "{len} bytes of it");
    }
    for at in 4..8 {
        let mut other = second.clone();
        other[at] ^= 1;
        assert_eq!(read(&[first.clone(), other].concat()), None, "byte {at}");
    }
}

#[test]
fn three_bytes_are_no_snappy_chunk_and_a_chunk_of_nothing_or_less_is_refused() {
    let whole = [header(1), chunk(b"one")].concat();
    for len in 0..4 {
        assert_eq!(read(&[&whole[..], &[0; 3][..len]].concat()), Some(b"one".to_vec()));
    }
    for len in [0, -1, i32::MIN] {
        assert_eq!(read(&[&whole[..], &i32::to_be_bytes(len)].concat()), None, "{len}");
    }
    let chunk = chunk(b"two");
    for len in 4..chunk.len() {
        assert_eq!(read(&[&whole[..], &chunk[..len]].concat()), None, "{len} bytes of it");
    }
}

#[test]
fn a_snappy_block_fills_the_limit_and_no_more() {
    let payload = [header(1), chunk(b"one"), chunk(b"four")].concat();
    let mut out = Vec::new();
    decompress(Codec::Snappy, &payload, 7, &mut out).unwrap();
    assert_eq!(out, b"onefour");
    out.clear();
    let refused = decompress(Codec::Snappy, &payload, 6, &mut out).unwrap_err();
    assert!(matches!(refused, CorruptKind::OutputLimit { limit: 6, .. }), "{refused}");
}
