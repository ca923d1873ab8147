//! Large records that are checked while they pass.

use alluvium_record_format::{
    Codec, Corruption, Decompressor, Offset, PartialRecord, RecordPiece, RecordStream, Timestamp,
};

use super::packed::{CODECS, batch, field, pack, parse, varint};

/// Above what is held whole.
const LARGE: usize = 70_000;

type Seen = (Offset, Option<Timestamp>, Option<usize>, Option<usize>);

/// A record with a large key and value and two headers, one of them large.
fn large() -> Vec<u8> {
    large_at(1)
}

/// The same with this timestamp delta.
fn large_at(timestamp_delta: i32) -> Vec<u8> {
    let parts = [
        vec![0],
        varint(timestamp_delta),
        vec![0],
        field(&vec![b'k'; LARGE]),
        field(&vec![b'v'; LARGE]),
        varint(2),
        field(b"h"),
        varint(-1),
        field(&vec![b'h'; LARGE]),
        field(b"x"),
    ];
    field(&parts.concat())
}

fn read(
    codec: Codec,
    payload: &[u8],
    next: impl Fn(&mut RecordStream<'_>) -> Option<Result<Seen, Corruption>>,
) -> Vec<Result<Seen, Corruption>> {
    let bytes = batch(codec, 1, payload);
    let mut decompressor = Decompressor::new();
    let mut records = decompressor.records(&parse(&bytes), usize::MAX).unwrap();
    std::iter::from_fn(|| next(&mut records)).collect()
}

fn held(codec: Codec, payload: &[u8]) -> Vec<Result<Seen, Corruption>> {
    read(codec, payload, |records| {
        Some(records.next_record()?.map(|record| {
            let [key_bytes, value_bytes] =
                [record.key(), record.value()].map(|f| f.map(<[u8]>::len));
            (record.offset(), record.timestamp(), key_bytes, value_bytes)
        }))
    })
}

fn passed(codec: Codec, payload: &[u8]) -> Vec<Result<Seen, Corruption>> {
    read(codec, payload, |records| {
        let record = records.next_checked()?;
        Some(record.map(|it| (it.offset, it.timestamp, it.key_bytes, it.value_bytes)))
    })
}

/// As it passes piece by piece. What the pieces tell must be what the record tells.
fn pieced(codec: Codec, payload: &[u8]) -> Vec<Result<Seen, Corruption>> {
    read(codec, payload, |records| {
        let (mut told, mut key, mut left) = (None, 0, 0);
        let record = records.next_pieces(&mut |piece| match piece {
            RecordPiece::Start { offset, timestamp, key_bytes, rest_bytes } => {
                told = Some((offset, timestamp, key_bytes));
                left = key_bytes.unwrap_or(0) + rest_bytes;
            }
            RecordPiece::Key(bytes) => {
                key += bytes.len();
                left -= bytes.len();
            }
            RecordPiece::Rest(bytes) => left -= bytes.len(),
        })?;
        Some(record.map(|record| {
            let PartialRecord { offset, timestamp, key_bytes, value_bytes, .. } = record;
            assert_eq!((told, left), (Some((offset, timestamp, key_bytes)), 0));
            assert_eq!(key_bytes.unwrap_or(0), key);
            (offset, timestamp, key_bytes, value_bytes)
        }))
    })
}

#[test]
fn a_large_record_that_passes_is_seen_as_one_that_is_held() {
    for codec in CODECS {
        for (timestamp_delta, timestamp) in [(-1, None), (0, Some(0)), (1, Some(1))] {
            let payload = pack(codec, &large_at(timestamp_delta));
            let timestamp = timestamp.map(Timestamp::new);
            let seen = (Offset::new(0), timestamp, Some(LARGE), Some(LARGE));
            assert_eq!(held(codec, &payload), [Ok(seen)], "{codec}");
            assert_eq!(passed(codec, &payload), [Ok(seen)], "{codec}");
            assert_eq!(pieced(codec, &payload), [Ok(seen)], "{codec}");
        }
    }
}

/// The bytes of lengths and counts, each with every value that matters, and every cut beside one.
#[test]
fn what_is_wrong_with_a_large_record_is_found_as_in_one_that_is_held() {
    let sound = large();
    let second = 6 + 3 + LARGE; // the length of the value
    let third = second + 3 + LARGE; // the count of headers
    let spots = (0..10).chain(second..second + 4).chain(third..third + 8);
    let spots: Vec<usize> = spots.chain(sound.len() - 3..sound.len()).collect();
    let mut wrong = 0;
    for at in spots {
        for value in [0, 1, 2, 0x7e, 0x7f, 0x80, 0xff] {
            let mut bad = sound.clone();
            bad[at] = value;
            let payload = pack(Codec::Lz4, &bad);
            let expected = held(Codec::Lz4, &payload);
            assert_eq!(passed(Codec::Lz4, &payload), expected, "{value:#x} at {at}");
            assert_eq!(pieced(Codec::Lz4, &payload), expected, "{value:#x} at {at}");
            wrong += usize::from(expected.iter().any(Result::is_err));
        }
        for len in [at, at + 1] {
            let payload = pack(Codec::Lz4, &sound[..len]);
            assert_eq!(passed(Codec::Lz4, &payload), held(Codec::Lz4, &payload), "cut at {len}");
            assert_eq!(pieced(Codec::Lz4, &payload), held(Codec::Lz4, &payload), "cut at {len}");
        }
        let more = [&sound[..at], &[0xff; 12], &sound[at..]].concat();
        let payload = pack(Codec::Lz4, &more);
        assert_eq!(passed(Codec::Lz4, &payload), held(Codec::Lz4, &payload), "more at {at}");
    }
    assert!(wrong > 50, "{wrong}");
}

#[test]
fn a_stream_that_breaks_within_a_large_record_is_refused_alike() {
    for codec in CODECS {
        let payload = pack(codec, &large());
        for len in (1..payload.len()).step_by(payload.len() / 40 + 1) {
            let cut = &payload[..len];
            let bytes = batch(codec, 1, cut);
            if Decompressor::new().records(&parse(&bytes), usize::MAX).is_ok() {
                assert_eq!(passed(codec, cut), held(codec, cut), "{codec} {len}");
                assert_eq!(pieced(codec, cut), held(codec, cut), "{codec} {len}");
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_small_record_is_found_in_its_pieces_too() {
    let parts =
        [vec![0, 2, 0], field(b"key"), field(b"v"), varint(1), field(b"h"), varint(-1)].concat();
    let sound = field(&parts);
    for codec in [Codec::None, Codec::Lz4] {
        let mut wrong = 0;
        for at in 0..sound.len() {
            for value in 0..=255 {
                let mut bad = sound.clone();
                bad[at] = value;
                let payload = pack(codec, &bad);
                let expected = held(codec, &payload);
                assert_eq!(pieced(codec, &payload), expected, "{codec} {value:#x} at {at}");
                wrong += usize::from(expected.iter().any(Result::is_err));
            }
            let payload = pack(codec, &sound[..at]);
            assert_eq!(pieced(codec, &payload), held(codec, &payload), "{codec} cut at {at}");
        }
        assert!(wrong > 1000, "{wrong}");
    }
}
