//! The short way takes nothing that the full way refuses, and reads the same.

use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Key, Part, Whole};
use crate::record::decode::Fields;
use crate::{Header, Headers};

/// A varint of any length, shortest or padded, of a value near the edges.
fn varint() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => (0_u8..0x80).prop_map(|byte| vec![byte]),
        4 => (0x80_u8.., 0_u8..0x80).prop_map(|(a, b)| vec![a, b]),
        1 => (vec(0x80_u8.., 0..11), 0_u8..0x80).prop_map(|(more, last)| [more, vec![last]].concat()),
    ]
}

/// Bytes with the look of a record: fields of the right length or almost.
fn record() -> impl Strategy<Value = Vec<u8>> {
    let field = || {
        prop_oneof![
            1 => Just(vec![1]),
            6 => vec(any::<u8>(), 0..90).prop_map(sized),
            1 => (varint(), vec(any::<u8>(), 0..20)).prop_map(|(len, bytes)| [len, bytes].concat()),
        ]
    };
    let headers = prop_oneof![
        4 => Just(vec![0]),
        2 => vec((field(), field()), 0..4).prop_map(|pairs| {
            let count = u8::try_from(pairs.len() << 1).unwrap();
            pairs.into_iter().fold(vec![count], |all, (key, value)| [all, key, value].concat())
        }),
        1 => varint(),
    ];
    let parts = (any::<u8>(), varint(), varint(), field(), field(), headers);
    let body = parts.prop_map(|(attributes, timestamp, offset, key, value, headers)| {
        [vec![attributes], timestamp, offset, key, value, headers].concat()
    });
    (body, proptest::option::weighted(0.1, varint())).prop_map(|(body, length)| match length {
        Some(length) => [length, body].concat(),
        None => sized(body),
    })
}

/// The bytes after their length.
fn sized(bytes: Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    crate::varint::write_len(&mut out, bytes.len());
    out.extend(bytes);
    out
}

fn headers(headers: &Headers<'_>) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let own = |header: Header<'_>| (header.key.to_vec(), header.value.map(<[u8]>::to_vec));
    headers.clone().map(own).collect()
}

fn assert_same(payload: &[u8]) -> bool {
    let key = Key::find(payload);
    let Some((found, rest)) = Whole::find(payload) else {
        assert!(key.is_none(), "keys are taken where the whole record is");
        return false;
    };
    let short = Whole::make(found, payload);
    let (full, full_rest) = Fields::read(payload).expect("the full way reads it");
    assert_eq!(short.start.timestamp_delta, full.start.timestamp_delta);
    assert_eq!(short.start.offset_delta, full.start.offset_delta);
    assert_eq!((short.start.key, short.value, rest), (full.start.key, full.value, full_rest));
    assert_eq!(headers(&short.headers), headers(&full.headers));

    let (found, rest) = key.expect("the whole record is taken where its key is");
    let (start, value_bytes) = Key::make(found, payload);
    assert_eq!(start.timestamp_delta, full.start.timestamp_delta);
    assert_eq!(start.offset_delta, full.start.offset_delta);
    let full_bytes = full.value.map(<[u8]>::len);
    assert_eq!((start.key, value_bytes, rest), (full.start.key, full_bytes, full_rest));
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn both_ways_read_the_same(
        record in record(),
        next in vec(any::<u8>(), 0..20),
        cut in any::<proptest::sample::Index>(),
        flip in any::<(proptest::sample::Index, u8)>(),
    ) {
        let mut payload = record;
        payload.extend(next);
        assert_same(&payload);
        assert_same(&payload[..cut.index(payload.len())]);
        let at = flip.0.index(payload.len());
        payload[at] ^= flip.1;
        assert_same(&payload);
    }
}

#[test]
fn the_short_way_takes_what_is_common() {
    let value = sized(vec![b'v'; 100]);
    let long_time = vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x01];
    for (timestamp, header_bytes) in [
        (vec![0], vec![0]),
        (vec![0xff, 0x01], vec![2, 2, b'h', 1]),
        (vec![0xff, 0xff, 0x7f], vec![2, 0, 2, b'v']),
        (long_time, vec![0]),
    ] {
        let body = [
            vec![0],
            timestamp,
            vec![0x80, 0x02],
            sized(vec![b'k'; 9]),
            value.clone(),
            header_bytes,
        ];
        assert!(assert_same(&sized(body.concat())));
    }
}

#[test]
fn the_short_way_finds_the_next_record_behind_one_of_any_length() {
    let lens = [0, 1, 20, 48, 49, 50, 63, 64, 100, 4000, 4090, 8170, 8184, 8185, 8186, 8191];
    for (key, value) in lens.iter().flat_map(|key| lens.map(|value| (*key, value))) {
        let fields = [sized(vec![b'k'; key]), sized(vec![b'v'; value])].concat();
        let mut payload = sized([&[0, 0, 0][..], &fields, &[0]].concat());
        payload.extend([20; 16]);
        assert!(assert_same(&payload) || key > 63, "key of {key} bytes, value of {value}");
    }
}
