//! Compression levels: `compression.gzip.level` and its like.

use alluvium_record_format::{Codec, CompressError, Compressor, compress, decompress};

use super::packed::CODECS;

#[test]
fn the_levels_that_kafka_takes_are_taken_and_no_others() {
    let taken: [(Codec, &[i32]); 3] = [
        (Codec::Gzip, &[-1, 1, 6, 9]),
        (Codec::Lz4, &[1, 9, 17]),
        (Codec::Zstd, &[-131_072, -1, 0, 3, 22]),
    ];
    for (codec, levels) in taken {
        for level in levels {
            assert_eq!(Compressor::new(codec, Some(*level)).unwrap().codec(), codec);
        }
    }
    let refused: [(Codec, &[i32]); 5] = [
        (Codec::None, &[0, 1]),
        (Codec::Gzip, &[-2, 0, 10]),
        (Codec::Snappy, &[0, 1]),
        (Codec::Lz4, &[-1, 0, 18]),
        (Codec::Zstd, &[-131_073, 23]),
    ];
    for (codec, levels) in refused {
        for level in levels {
            let error = Compressor::new(codec, Some(*level)).unwrap_err();
            let CompressError::Level { codec: c, level: l, .. } = error else { panic!("{error}") };
            assert_eq!((c, l), (codec, *level));
        }
    }
}

#[test]
fn the_default_level_is_the_one_that_codec_names() {
    let text = lines();
    for codec in CODECS {
        let (mut by_default, mut by_name) = (Vec::new(), Vec::new());
        compress(codec, None, &text, &mut by_default).unwrap();
        compress(codec, codec.default_level(), &text, &mut by_name).unwrap();
        assert_eq!(by_default, by_name, "{codec}");
    }
}

#[test]
fn a_higher_level_packs_tighter_where_there_is_one() {
    let text = lines();
    for (codec, levels) in [
        (Codec::Gzip, [1, 6, 9]),
        (Codec::Zstd, [-50, 3, 19]),
        (Codec::Lz4, [9, 3, 12]), // 9 is the fast compressor
    ] {
        let lens = levels.map(|level| {
            let (mut payload, mut out) = (Vec::new(), Vec::new());
            compress(codec, Some(level), &text, &mut payload).unwrap();
            decompress(codec, &payload, text.len(), &mut out).unwrap();
            assert!(out == text, "{codec} at level {level}");
            payload.len()
        });
        assert!(lens[0] > lens[1] && lens[1] > lens[2], "{codec}: {lens:?}");
    }
}

/// 200,000 bytes: over three blocks of lz4.
fn lines() -> Vec<u8> {
    let mut state = 1_u32;
    let mut text = Vec::new();
    while text.len() < 200_000 {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        let (user, event) = ((state >> 8) % 5_000, (state >> 16) % 40);
        text.extend(format!("user {user} saw page {event} and then {}; ", state % 97).bytes());
    }
    text
}
