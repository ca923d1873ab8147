//! Ceilings on what a payload inflates to.

use alluvium_record_format::{Codec, CorruptKind, Corruption, Decompressor};

use super::packed::{CODECS, batch, pack, parse, record};
use crate::heap::{left_of, peak_of};

const MIB: usize = 1 << 20;

/// What zstd's decompressor and the other codecs hold beside the output: one block and tables.
const BLOCK: usize = 256 << 10;

/// What a codec holds of the past to read piece by piece: for zstd, what the frame asks for.
fn window(codec: Codec) -> usize {
    if codec == Codec::Zstd { 2 * MIB } else { 0 }
}

/// FR-018
#[test]
fn a_payload_of_exactly_the_limit_is_read_and_one_byte_more_is_refused() {
    let mut decompressor = Decompressor::new();
    let mut out = Vec::new();
    for codec in CODECS.into_iter().chain([Codec::None]) {
        for limit in [1, 15, 100, 32 << 10, 64 << 10, 65_537, 128 << 10, 1_000_003] {
            let mut fits = |len: usize| {
                let content: Vec<u8> = (0_u8..251).cycle().take(len).collect();
                let payload = pack(codec, &content);
                let result = decompressor.decompress(codec, &payload, limit, &mut out);
                assert_eq!(out, if result.is_ok() { content } else { vec![] });
                result
            };
            assert_eq!(fits(limit - 1), Ok(()), "{codec} {limit}");
            assert_eq!(fits(limit), Ok(()), "{codec} {limit}");
            let error = fits(limit + 1).unwrap_err();
            assert!(
                matches!(error, CorruptKind::OutputLimit { limit: l, .. } if l == limit),
                "{codec} {limit}: {error}"
            );
        }
    }
}

/// FR-018
#[test]
fn a_bomb_takes_no_more_memory_than_the_limit_and_a_block() {
    let value = vec![0; 64 * MIB];
    for codec in CODECS {
        let bytes = batch(codec, 1, &pack(codec, &record(&value)));
        let (peak, error) = peak_of(|| {
            let mut buffer = Vec::new();
            parse(&bytes).inflate(MIB, &mut buffer).map(|_| ()).unwrap_err()
        });
        assert!(matches!(error.kind(), CorruptKind::OutputLimit { limit: MIB, .. }), "{codec}");
        assert!(peak <= MIB + BLOCK, "{codec} took {peak} bytes");
    }
}

/// FR-018
#[test]
fn a_payload_that_looks_like_a_bomb_is_read_where_the_limit_allows() {
    let value = vec![0; 64 * MIB];
    for codec in CODECS {
        let bytes = batch(codec, 1, &pack(codec, &record(&value)));
        let (peak, ()) = peak_of(|| {
            let mut buffer = Vec::new();
            let mut records = parse(&bytes).inflate(80 * MIB, &mut buffer).unwrap();
            let read = records.next().unwrap().unwrap();
            assert_eq!(read.value().map(<[u8]>::len), Some(64 * MIB), "{codec}");
            assert!(records.next().is_none());
        });
        assert!(peak <= 80 * MIB + BLOCK, "{codec} took {peak} bytes");
    }
}

/// FR-018
#[test]
fn a_record_above_the_ceiling_is_refused_before_it_is_decompressed() {
    let value = vec![0; 64 * MIB];
    for codec in CODECS {
        let bytes = batch(codec, 1, &pack(codec, &record(&value)));
        let (peak, error) = peak_of(|| {
            let mut decompressor = Decompressor::new();
            let mut records = decompressor.records(&parse(&bytes), MIB).unwrap();
            records.next_record().unwrap().map(|_| ()).unwrap_err()
        });
        assert!(matches!(error.kind(), CorruptKind::RecordTooLarge { max: MIB, .. }), "{codec}");
        assert!(peak <= window(codec) + MIB, "{codec} took {peak} bytes");
    }
}

#[test]
fn the_record_ceiling_counts_the_bytes_after_the_length_field() {
    for codec in CODECS {
        let one = record(&[7; 1000]);
        let body_len = one.len() - 2;
        let bytes = batch(codec, 3, &pack(codec, &one.repeat(3)));
        let mut decompressor = Decompressor::new();
        let mut read = |max| -> Result<usize, Corruption> {
            let mut records = decompressor.records(&parse(&bytes), max)?;
            let mut count = 0;
            while let Some(record) = records.next_record() {
                count += record.map(|_| 1)?;
            }
            Ok(count)
        };
        assert_eq!(read(body_len), Ok(3), "{codec}");
        let error = read(body_len - 1).unwrap_err();
        let CorruptKind::RecordTooLarge { length, max, .. } = error.kind() else {
            panic!("{codec}: {error}")
        };
        assert_eq!((length, max), (body_len, body_len - 1));
    }
}

#[test]
fn records_are_read_one_by_one_in_a_fraction_of_the_payload() {
    let one = record(&[7; 10_000]);
    let count = 5_000;
    for codec in CODECS {
        let payload = pack(codec, &one.repeat(count));
        let bytes = batch(codec, i32::try_from(count).unwrap(), &payload);
        let (peak, read) = peak_of(|| {
            let mut decompressor = Decompressor::new();
            let mut records = decompressor.records(&parse(&bytes), MIB).unwrap();
            let mut read = 0;
            while let Some(record) = records.next_record() {
                read += usize::from(record.unwrap().value() == Some(&[7; 10_000]));
            }
            read
        });
        assert_eq!(read, count, "{codec}");
        assert!(peak <= window(codec) + MIB, "{codec} took {peak} bytes of {}", one.len() * count);
    }
}

/// The length of a record is a claim like any other.
#[test]
fn a_record_that_claims_two_gibibytes_allocates_what_is_there() {
    let claim = [0xfe, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 1];
    for codec in CODECS {
        let bytes = batch(codec, 1, &pack(codec, &claim));
        let (peak, error) = peak_of(|| {
            let mut decompressor = Decompressor::new();
            let mut records = decompressor.records(&parse(&bytes), usize::MAX).unwrap();
            records.next_record().unwrap().map(|_| ()).unwrap_err()
        });
        assert!(matches!(error.kind(), CorruptKind::RecordLength { have: 4, .. }), "{codec}");
        assert!(peak <= window(codec) + MIB, "{codec} took {peak} bytes");
    }
}

#[test]
fn a_bomb_in_one_record_is_checked_in_little_memory_and_leaves_less() {
    let bytes = batch(Codec::Zstd, 1, &pack(Codec::Zstd, &record(&vec![0; 256 * MIB])));
    assert!(bytes.len() < MIB);
    let mut decompressor = Decompressor::new();
    let (left, ()) = left_of(|| {
        let (peak, summary) = peak_of(|| {
            let records = decompressor.records(&parse(&bytes), usize::MAX).unwrap();
            records.check().unwrap()
        });
        assert_eq!((summary.record_count, summary.all_keyed), (1, false));
        assert!(peak < 16 * MIB, "took {peak} bytes");
        decompressor.trim();
    });
    assert!(left < isize::try_from(5 * MIB).unwrap(), "keeps {left} bytes");
}

#[test]
fn a_trimmed_decompressor_keeps_no_large_record() {
    for codec in CODECS {
        let bytes = batch(codec, 1, &pack(codec, &record(&vec![3; 40 * MIB])));
        let mut decompressor = Decompressor::new();
        let (left, ()) = left_of(|| {
            let mut records = decompressor.records(&parse(&bytes), usize::MAX).unwrap();
            records.next_record().unwrap().unwrap();
            decompressor.trim();
        });
        assert!(left <= isize::try_from(5 * MIB).unwrap(), "{codec} keeps {left} bytes");
    }
}

#[test]
fn a_decompressor_gives_the_memory_of_a_large_record_back() {
    let large = record(&vec![3; 40 * MIB]);
    for codec in CODECS {
        let large = batch(codec, 1, &pack(codec, &large));
        let small = batch(codec, 1, &pack(codec, &record(b"small")));
        let mut decompressor = Decompressor::new();
        let mut read = |bytes: &[u8]| {
            let mut records = decompressor.records(&parse(bytes), usize::MAX).unwrap();
            records.next_record().unwrap().unwrap();
        };
        read(&small);
        let (left, ()) = left_of(|| {
            read(&large);
            read(&small);
        });
        assert!(left <= isize::try_from(MIB).unwrap(), "{codec} keeps {left} bytes");
    }
}
