//! Damage that lies behind the key of a record: who wants keys alone is told of it, too.

use alluvium_record_format::{Batch, Codec, CorruptKind, Decompressor, RecordStream};

use super::packed::{CODECS, batch, field, pack, parse, record};

/// Records without their length: no attributes, both deltas 0, then key, value and headers.
const DAMAGED: [(&str, &[u8]); 7] = [
    ("the header count is negative", &[0, 0, 0, 2, b'k', 2, b'v', 1]),
    ("there is no header count", &[0, 0, 0, 2, b'k', 2, b'v']),
    ("a header key is null", &[0, 0, 0, 2, b'k', 2, b'v', 2, 1, 1]),
    ("a header value is longer than the record", &[0, 0, 0, 2, b'k', 2, b'v', 2, 2, b'h', 9 << 1]),
    ("bytes are left behind a header", &[0, 0, 0, 2, b'k', 2, b'v', 2, 2, b'h', 1, 7]),
    ("bytes are left where no header is", &[0, 0, 0, 2, b'k', 2, b'v', 0, b'z', b'z']),
    ("bytes are left behind a null key", &[0, 0, 0, 3, 2, b'v', 0, b'z']),
];

/// A batch of three records, of which this is the second.
fn around(codec: Codec, body: &[u8]) -> Vec<u8> {
    let payload = [record(b"first"), field(body), record(b"last")].concat();
    batch(codec, 3, &if codec == Codec::None { payload } else { pack(codec, &payload) })
}

fn all_codecs() -> impl Iterator<Item = Codec> {
    CODECS.into_iter().chain([Codec::None])
}

/// The error of a stream, after one record.
fn streamed<T>(
    batch: &Batch<'_>,
    mut next: impl FnMut(&mut RecordStream<'_>) -> Option<Result<T, CorruptKind>>,
) -> CorruptKind {
    let mut decompressor = Decompressor::new();
    let mut records = decompressor.records(batch, 1 << 20).unwrap();
    assert!(next(&mut records).is_some_and(|record| record.is_ok()));
    next(&mut records).unwrap().err().expect("an error")
}

#[test]
fn damage_behind_a_key_is_told_with_keys_alone_in_every_codec() {
    let mut decompressor = Decompressor::new();
    for (codec, (name, body)) in all_codecs().flat_map(|codec| DAMAGED.map(|body| (codec, body))) {
        let bytes = around(codec, body);
        let mut buffer = Vec::new();
        let records = decompressor.inflate(&parse(&bytes), 1 << 20, &mut buffer).unwrap();
        let error = records.clone().find_map(Result::err).expect(name);
        let mut keys = records.keys();
        assert_eq!(keys.next().unwrap().unwrap().value_bytes(), Some(5));
        assert_eq!(keys.next(), Some(Err(error)), "{codec}, {name}");
        assert_eq!(keys.next(), None, "one error at most");
    }
}

#[test]
fn damage_behind_a_key_is_told_by_streams_in_every_codec() {
    for (codec, (name, body)) in all_codecs().flat_map(|codec| DAMAGED.map(|body| (codec, body))) {
        let bytes = around(codec, body);
        let batch = parse(&bytes);
        let kind = |error: alluvium_record_format::Corruption| error.kind();
        let whole = streamed(&batch, |all| Some(all.next_record()?.map(drop).map_err(kind)));
        let checked = streamed(&batch, |all| Some(all.next_checked()?.map_err(kind)));
        let pieces = streamed(&batch, |all| Some(all.next_pieces(&mut |_| {})?.map_err(kind)));
        assert_eq!((checked, pieces), (whole, whole), "{codec}, {name}");
    }
}

/// As Kafka reads it.
#[test]
fn a_key_length_below_minus_one_is_a_null_key_in_every_codec() {
    let mut decompressor = Decompressor::new();
    for codec in all_codecs() {
        let bytes = around(codec, &[0, 0, 0, 3, 2, b'v', 0]);
        let mut buffer = Vec::new();
        let records = decompressor.inflate(&parse(&bytes), 1 << 20, &mut buffer).unwrap();
        let keys: Vec<_> = records.keys().map(Result::unwrap).collect();
        let found = keys.iter().map(|key| (key.key(), key.value_bytes()));
        assert!(found.eq([(None, Some(5)), (None, Some(1)), (None, Some(4))]), "{codec}");
    }
}
