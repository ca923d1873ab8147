//! Properties of compressed payloads.

use alluvium_record_format::{Codec, Compressor, CorruptKind, Decompressor, crc32c};
use proptest::collection::vec;
use proptest::prelude::*;

use super::packed::{CODECS, batch, pack, parse};

const LIMIT: usize = 1 << 20;

fn codec() -> impl Strategy<Value = Codec> {
    proptest::sample::select(CODECS.to_vec())
}

fn level(codec: Codec) -> BoxedStrategy<Option<i32>> {
    match codec {
        Codec::Gzip => proptest::option::of(prop_oneof![Just(-1), 1..=9]).boxed(),
        Codec::Lz4 => proptest::option::of(1..=17).boxed(),
        Codec::Zstd => proptest::option::of(prop_oneof![-131_072..=22, 1..=9]).boxed(),
        _ => Just(None).boxed(),
    }
}

/// Noise, runs and repeats, over several blocks of the codecs that have blocks.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        vec(any::<u8>(), 0..300),
        (any::<u8>(), 0..90_000_usize).prop_map(|(byte, len)| vec![byte; len]),
        (vec(any::<u8>(), 1..40), 1..200_usize).prop_map(|(part, times)| part.repeat(times)),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

/// Reads `payload` at once and piece by piece, which must come to the same.
fn read(codec: Codec, payload: &[u8]) -> Result<Vec<u8>, CorruptKind> {
    let mut decompressor = Decompressor::new();
    let mut whole = Vec::new();
    let result = decompressor.decompress(codec, payload, LIMIT, &mut whole);
    let mut pieces = Vec::new();
    let streamed = decompressor.decoder(codec, payload).and_then(|mut decoder| {
        while pieces.len() <= LIMIT {
            let mut piece = Vec::with_capacity(1_000);
            if decoder.pull(&mut piece)? == 0 {
                return Ok(());
            }
            pieces.append(&mut piece);
        }
        Ok(())
    });
    if matches!(result, Err(CorruptKind::OutputLimit { .. })) {
        assert!(pieces.len() > LIMIT || streamed.is_err());
    } else {
        assert_eq!(result, streamed);
    }
    if result.is_ok() {
        assert_eq!(whole, pieces);
    }
    result.map(|()| whole)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_packed_in_any_pieces_at_any_level_comes_back(
        (codec, level) in codec().prop_flat_map(|codec| (Just(codec), level(codec))),
        content in content(),
        cuts in vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let mut compressor = Compressor::new(codec, level).unwrap();
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(content.len() + 1)).collect();
        cuts.extend([0, content.len()]);
        cuts.sort_unstable();
        // The first payload is thrown away half way, the second and third must not notice.
        compressor.write(&content, &mut Vec::new()).unwrap();
        compressor.reset();
        let mut payloads = [b"kept".to_vec(), vec![]];
        for payload in &mut payloads {
            for pair in cuts.windows(2) {
                compressor.write(&content[pair[0]..pair[1]], payload).unwrap();
            }
            compressor.finish(payload).unwrap();
        }
        prop_assert!(payloads[0].starts_with(b"kept"));
        prop_assert_eq!(&read(codec, &payloads[0][4..]), &Ok(content.clone()));
        prop_assert_eq!(read(codec, &payloads[1]), Ok(content));
    }

    #[test]
    fn any_bytes_are_read_or_refused(codec in codec(), bytes in vec(any::<u8>(), 0..2_000)) {
        let _either = read(codec, &bytes);
    }

    /// Most bytes are refused for their first ones: these have sound ones.
    #[test]
    fn any_bytes_behind_a_sound_header_are_read_or_refused(
        codec in codec(),
        bytes in vec(any::<u8>(), 0..2_000),
    ) {
        let header_len = match codec {
            Codec::Gzip => 10,
            Codec::Snappy => 16,
            Codec::Lz4 => 7,
            _ => 6,
        };
        let header = &pack(codec, b"x")[..header_len];
        let _either = read(codec, &[header, &bytes].concat());
    }

    #[test]
    fn a_changed_payload_is_read_or_refused_the_same_by_both_readers(
        codec in codec(),
        content in content(),
        at in any::<prop::sample::Index>(),
        mask in 1..=255_u8,
    ) {
        let mut payload = pack(codec, &content);
        let at = at.index(payload.len());
        payload[at] ^= mask;
        let result = read(codec, &payload);
        if codec == Codec::Gzip && result.is_ok() {
            // Its checksum covers the content.
            prop_assert_eq!(crc32c(&result.unwrap()), crc32c(&content));
        }
    }

    #[test]
    fn any_inflated_bytes_are_records_or_an_error_and_the_readers_agree(
        codec in codec(),
        content in vec(prop_oneof![0..8_u8, any::<u8>()], 0..200),
        record_count in 0..20_i32,
        ceiling in 0..100_usize,
    ) {
        let bytes = batch(codec, record_count, &pack(codec, &content));
        let batch = parse(&bytes);
        let mut buffer = Vec::new();
        let records = batch.inflate(LIMIT, &mut buffer).unwrap();
        let at_once: Vec<_> = records.map(|r| format!("{r:?}")).collect();
        let mut decompressor = Decompressor::new();
        let mut one_by_one = Vec::new();
        let mut records = decompressor.records(&batch, usize::MAX).unwrap();
        while let Some(record) = records.next_record() {
            one_by_one.push(format!("{record:?}"));
        }
        prop_assert_eq!(one_by_one, at_once);
        let mut records = decompressor.records(&batch, ceiling).unwrap();
        while let Some(partial) = records.next_partial() {
            prop_assert!(partial.is_err() || partial.unwrap().size_bytes <= ceiling + 5);
        }
    }
}
