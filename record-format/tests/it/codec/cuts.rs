//! Payloads that end early, at every byte.

use alluvium_record_format::{Codec, CorruptKind, Decompressor};

use super::packed::{CODECS, batch, pack, parse, record};

/// Three records that pack to several blocks in no codec but snappy, whose stream does not say
/// where it ends.
fn content() -> Vec<u8> {
    let value: Vec<u8> = (0..20_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
    [record(b"first"), record(&value), record(b"last")].concat()
}

#[test]
fn a_batch_whose_payload_is_cut_anywhere_is_an_error_by_both_readers() {
    let mut decompressor = Decompressor::new();
    for codec in CODECS {
        let payload = pack(codec, &content());
        let step = 1 + payload.len() / 1_500;
        let ends = (0..payload.len()).filter(|len| len % step == 0 || payload.len() - len < 100);
        for end in ends {
            let bytes = batch(codec, 3, &payload[..end]);
            let mut buffer = Vec::new();
            let whole = decompressor
                .inflate(&parse(&bytes), 1 << 20, &mut buffer)
                .and_then(|mut records| records.try_for_each(|record| record.map(drop)));
            assert!(whole.is_err(), "{codec} cut at {end} of {}", payload.len());
            let Ok(mut records) = decompressor.records(&parse(&bytes), 1 << 20) else { continue };
            let mut last = None;
            while let Some(record) = records.next_record() {
                last = Some(record.map(drop));
            }
            assert!(last.is_some_and(|last| last.is_err()), "{codec} cut at {end}");
        }
    }
}

#[test]
fn a_stream_with_an_end_of_its_own_is_refused_when_cut() {
    let mut out = Vec::new();
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
        let payload = pack(codec, b"some text, some more text");
        let mut decompressor = Decompressor::new();
        for end in 1..payload.len() {
            let error = decompressor.decompress(codec, &payload[..end], 1 << 20, &mut out);
            assert!(matches!(error, Err(CorruptKind::Compressed { .. })), "{codec} cut at {end}");
        }
    }
}

#[test]
fn bytes_after_the_last_record_are_refused_by_both_readers() {
    for codec in CODECS {
        let bytes = batch(codec, 2, &pack(codec, &content()));
        let mut buffer = Vec::new();
        let batch = parse(&bytes);
        let records = batch.inflate(1 << 20, &mut buffer).unwrap();
        let error = records.last().unwrap().unwrap_err();
        assert!(matches!(error.kind(), CorruptKind::TrailingBytes { .. }), "{codec}");
        let mut decompressor = Decompressor::new();
        let mut records = decompressor.records(&batch, 1 << 20).unwrap();
        records.next_record().unwrap().unwrap();
        records.next_partial().unwrap().unwrap();
        let error = records.next_record().unwrap().unwrap_err();
        assert!(matches!(error.kind(), CorruptKind::TrailingBytes { .. }), "{codec}");
        assert!(records.next_record().is_none(), "one error at most");
        assert!(records.next_partial().is_none(), "one error at most");
    }
}
