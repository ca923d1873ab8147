//! Payloads written by Kafka 4.4.0.

use alluvium_record_format::{Codec, Decompressor, compress, decompress};

use crate::hex::bytes;

/// One record, key "k", value 200 times "a", as each codec of Kafka 4.4.0 packs it.
const PAYLOADS: [(Codec, &str); 4] = [
    (Codec::Gzip, "1f8b08000000000000ff5bc0ccc0c0c0943d81397198000600a62bde3ad2000000"),
    (
        Codec::Snappy,
        "82534e415050590000000001000000010000001ad20124a003000000026b900361fe0100fe0100fe01000d010000",
    ),
    (Codec::Lz4, "04224d1860408214000000afa003000000026b9003610100b050616161610000000000"),
    (Codec::Zstd, "28b52ffd005894000058a003000000026b900361000100440a2001010000"),
];

fn content() -> Vec<u8> {
    [bytes("a003000000026b9003"), vec![b'a'; 200], bytes("00")].concat()
}

#[test]
fn a_payload_of_each_codec_inflates_to_what_was_packed() {
    let mut out = Vec::new();
    for (codec, payload) in PAYLOADS {
        decompress(codec, &bytes(payload), 1 << 20, &mut out).unwrap();
        assert_eq!(out, content(), "{codec}");
    }
}

#[test]
fn one_decompressor_reads_payload_after_payload() {
    let mut decompressor = Decompressor::new();
    let mut out = Vec::new();
    for _ in 0..3 {
        for (codec, payload) in PAYLOADS {
            decompressor.decompress(codec, &bytes(payload), 1 << 20, &mut out).unwrap();
            assert_eq!(out, content(), "{codec}");
        }
    }
}

#[test]
fn gzip_and_snappy_pack_the_content_to_the_bytes_that_kafka_wrote() {
    for (codec, payload) in [PAYLOADS[0], PAYLOADS[1]] {
        let mut out = Vec::new();
        compress(codec, None, &content(), &mut out).unwrap();
        assert_eq!(out, bytes(payload), "{codec}");
    }
}

/// Kafka's writer flushes before it ends the frame, which costs an empty block.
#[test]
fn a_zstd_frame_begins_as_kafka_writes_it() {
    let mut out = Vec::new();
    compress(Codec::Zstd, None, &content(), &mut out).unwrap();
    assert_eq!(out[..6], bytes("28b52ffd0058"));
}

#[test]
fn an_lz4_frame_begins_and_ends_as_kafka_writes_it() {
    let mut out = Vec::new();
    compress(Codec::Lz4, None, &content(), &mut out).unwrap();
    assert_eq!(out[..7], bytes("04224d18604082"));
    assert_eq!(out[out.len() - 4..], [0; 4]);
    let block_len = u32::from_le_bytes(out[7..11].try_into().unwrap());
    assert_eq!(out.len(), 7 + 4 + usize::try_from(block_len).unwrap() + 4);
}
