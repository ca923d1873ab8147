//! Payloads and batches written by Kafka 4.4.0: `tests/golden/4.4.0/README.md`.

use alluvium_record_format::{
    Batch, Codec, Decompressor, Entries, Entry, Position, compress, decompress,
};

use crate::dump;

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

macro_rules! golden {
    ($name:literal) => {
        (
            include_bytes!(concat!("../../golden/4.4.0/", $name, "/00000000000000000000.log")),
            include_str!(concat!("../../golden/4.4.0/", $name, "/dump.txt")),
        )
    };
}

const LOGS: [(&[u8], &str); 4] =
    [golden!("codec-gzip"), golden!("codec-snappy"), golden!("codec-lz4"), golden!("codec-zstd")];

/// A batch of text and a batch of noise for each of these.
const BLOCKS: &[u8] = include_bytes!("../../golden/4.4.0/codec-blocks/00000000000000000000.log");
const BLOCK_CODECS: [Codec; 9] = [
    Codec::Gzip,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Lz4,
    Codec::Lz4,
    Codec::Zstd,
    Codec::Zstd,
    Codec::Zstd,
];

fn batches(log: &[u8]) -> impl Iterator<Item = Batch<'_>> {
    Entries::new(log, Position::new(0)).map(|entry| match entry.unwrap() {
        Entry::Batch(batch) => batch,
        other => panic!("{other:?}"),
    })
}

/// What the records of `BLOCKS` hold, in turn.
fn text_and_noise() -> [Vec<u8>; 2] {
    let mut text = Vec::new();
    for line in (0..100).cycle() {
        if text.len() >= 150_000 {
            break;
        }
        text.extend_from_slice(format!("line {line}\n").as_bytes());
    }
    let mut state = 1_u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        state.to_be_bytes()[1]
    });
    [text, noise.take(500).collect()]
}

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

#[test]
fn compressed_batches_say_what_kafka_says_about_them() {
    for (log, dump) in LOGS {
        let ours: Vec<_> = batches(log).flat_map(|batch| dump::batch_lines(&batch)).collect();
        let kafkas: Vec<_> = dump.lines().skip(2).collect(); // file name, first offset
        assert_eq!(ours, kafkas);
    }
}

#[test]
fn blocks_of_every_kind_of_level_inflate_to_what_was_packed() {
    let values = text_and_noise();
    let mut decompressor = Decompressor::new();
    let mut seen = 0;
    for (index, batch) in batches(BLOCKS).enumerate() {
        let value = values[index % 2].as_slice();
        assert_eq!(batch.header().attributes().codec(), Some(BLOCK_CODECS[index / 2]));
        let mut buffer = Vec::new();
        let mut records = decompressor.inflate(&batch, 1 << 20, &mut buffer).unwrap();
        assert_eq!(records.next().unwrap().unwrap().value(), Some(value));
        assert!(records.next().is_none());
        let mut records = decompressor.records(&batch, 1 << 20).unwrap();
        assert_eq!(records.next_record().unwrap().unwrap().value(), Some(value));
        assert!(records.next_record().is_none());
        let mut records = decompressor.records(&batch, 1 << 20).unwrap();
        let partial = records.next_partial().unwrap().unwrap();
        assert_eq!((partial.key_bytes, partial.value_bytes), (None, Some(value.len())));
        assert!(records.next_partial().is_none());
        seen += 1;
    }
    assert_eq!(seen, 2 * BLOCK_CODECS.len());
}

#[test]
fn records_read_one_by_one_are_those_read_at_once() {
    let mut decompressor = Decompressor::new();
    for (log, _) in LOGS {
        for batch in batches(log) {
            let mut buffer = Vec::new();
            let at_once: Vec<_> = batch
                .inflate(1 << 20, &mut buffer)
                .unwrap()
                .map(|record| format!("{:?}", record.unwrap()))
                .collect();
            let mut one_by_one = Vec::new();
            let mut records = decompressor.records(&batch, 1 << 20).unwrap();
            while let Some(record) = records.next_record() {
                one_by_one.push(format!("{:?}", record.unwrap()));
            }
            assert_eq!(one_by_one, at_once);
        }
    }
}
