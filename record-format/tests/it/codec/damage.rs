//! Compressed payloads that break rules, or look as if they did.

use alluvium_record_format::{
    Codec, CorruptClass, CorruptKind, Corruption, Decompressor, Offset, Position,
};

use super::packed::{CODECS, batch, parse};
use crate::heap::peak_of;
use crate::hex;

const LIMIT: usize = 1 << 20;

/// Reads all records in one go and one by one, which must come to the same: the bytes of key and
/// value of each.
fn read(hex: &str) -> Result<Vec<(usize, usize)>, Corruption> {
    read_bytes(&hex::bytes(hex))
}

fn read_bytes(bytes: &[u8]) -> Result<Vec<(usize, usize)>, Corruption> {
    let batch = parse(bytes);
    let mut decompressor = Decompressor::new();
    let mut buffer = Vec::new();
    let len = |field: Option<&[u8]>| field.unwrap_or_default().len();
    let whole: Result<Vec<_>, _> = decompressor
        .inflate(&batch, LIMIT, &mut buffer)
        .and_then(|records| records.map(|r| r.map(|r| (len(r.key()), len(r.value())))).collect());
    assert_eq!(one_by_one(&mut decompressor, bytes).is_ok(), whole.is_ok());
    if let Ok(whole) = &whole {
        assert_eq!(one_by_one(&mut decompressor, bytes).as_ref(), Ok(whole));
    }
    whole
}

fn one_by_one(
    decompressor: &mut Decompressor,
    bytes: &[u8],
) -> Result<Vec<(usize, usize)>, Corruption> {
    let mut sizes = Vec::new();
    let mut records = decompressor.records(&parse(bytes), LIMIT)?;
    while let Some(record) = records.next_record() {
        let record = record?;
        let len = |field: Option<&[u8]>| field.unwrap_or_default().len();
        sizes.push((len(record.key()), len(record.value())));
    }
    Ok(sizes)
}

#[track_caller]
fn assert_refused(hex: &str, codec: Codec) {
    let error = read(hex).unwrap_err();
    assert!(matches!(error.kind(), CorruptKind::Compressed { codec: c, .. } if c == codec));
    assert_eq!(error.position(), Position::new(61));
    assert_eq!(error.class(), CorruptClass::Invalid);
}

/// FR-002
#[test]
fn a_huge_record_count_over_a_short_gzip_payload_takes_less_than_a_mebibyte() {
    let (peak, result) = peak_of(|| read(GZIP_OF_MANY));
    assert!(matches!(result.unwrap_err().kind(), CorruptKind::RecordCount { found: i32::MAX, .. }));
    assert!(peak < 1 << 20, "{peak} bytes");
}

/// FR-010
#[test]
fn snappy_is_read_raw_and_framed() {
    assert_eq!(read(SNAPPY_RAW_LONG), Ok(vec![(14, 22)]));
    assert_eq!(read(SNAPPY_RAW_SHORT), Ok(vec![(1, 32)]));
    assert_eq!(read(SNAPPY_FRAMED), Ok(vec![(14, 22)]));
}

/// FR-011
#[test]
fn a_snappy_length_beyond_what_the_bytes_can_hold_is_refused_unallocated() {
    for hex in [SNAPPY_RAW_CLAIM, SNAPPY_FRAMED_CLAIM] {
        let (peak, ()) = peak_of(|| assert_refused(hex, Codec::Snappy));
        assert!(peak < 1 << 20, "{peak} bytes");
    }
}

/// FR-013
#[test]
fn an_lz4_header_checksum_must_be_the_right_one() {
    assert_eq!(read(LZ4_SOUND), Ok(vec![(1, 5), (1, 6)]));
    assert_refused(LZ4_HISTORIC, Codec::Lz4);
    assert_refused(LZ4_RANDOM, Codec::Lz4);
}

/// FR-014
#[test]
fn an_lz4_frame_may_have_a_content_size_and_a_wrong_content_checksum() {
    assert_eq!(read(LZ4_CONTENT_SIZE), Ok(vec![(1, 5), (1, 6)]));
    assert_eq!(read(LZ4_CONTENT_CHECKSUM), Ok(vec![(1, 5), (1, 6)]));
}

/// FR-014
#[test]
fn an_lz4_frame_with_linked_blocks_or_no_end_or_an_oversized_block_is_refused() {
    for hex in [LZ4_LINKED, LZ4_NO_END, LZ4_OVERSIZED] {
        let (peak, ()) = peak_of(|| assert_refused(hex, Codec::Lz4));
        assert!(peak < 1 << 20, "{peak} bytes");
    }
}

/// FR-017
#[test]
fn zstd_frames_follow_one_another_with_skippable_ones_between() {
    assert_eq!(read(ZSTD_TWO_FRAMES), Ok(vec![(1, 5), (1, 6)]));
    assert_eq!(read(ZSTD_SKIPPABLE), Ok(vec![(1, 5), (1, 6)]));
}

/// FR-017
#[test]
fn zstd_with_junk_behind_or_a_byte_missing_is_refused() {
    assert_refused(ZSTD_JUNK, Codec::Zstd);
    assert_refused(ZSTD_CUT, Codec::Zstd);
}

/// The library checks the size when it reads a frame at once, and not always when it streams.
#[test]
fn a_zstd_frame_with_a_false_content_size_or_an_empty_compressed_block_is_refused() {
    let mut decompressor = Decompressor::new();
    let mut read = |hex: &str| {
        let payload = hex::bytes(hex);
        let mut out = Vec::new();
        let whole = decompressor.decompress(Codec::Zstd, &payload, LIMIT, &mut out);
        let mut decoder = decompressor.decoder(Codec::Zstd, &payload).unwrap();
        let mut pieces = Vec::new();
        let streamed = loop {
            match decoder.pull(&mut pieces) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        assert_eq!(whole, streamed, "{hex}");
        whole.map(|()| out)
    };
    assert_eq!(read("28b52ffd 2001 090000 41"), Ok(b"A".to_vec()));
    assert_eq!(read("28b52ffd 2001 080000 41 010000"), Ok(b"A".to_vec()));
    assert_eq!(read("28b52ffd 0058 080000 41 010000"), Ok(b"A".to_vec()));
    read("28b52ffd 2005 090000 41").unwrap_err();
    read("28b52ffd 2005 080000 41 010000").unwrap_err();
    read("28b52ffd 0058 080000 41 050000").unwrap_err();
}

/// FR-017
#[test]
fn a_zstd_window_of_two_gibibytes_is_refused_unallocated() {
    let (peak, ()) = peak_of(|| assert_refused(ZSTD_WINDOW, Codec::Zstd));
    assert!(peak < 1 << 20, "{peak} bytes");
}

/// FR-019
#[test]
fn a_batch_without_records_makes_no_decompressor() {
    let bytes = hex::bytes(EMPTY_ZSTD);
    let batch = parse(&bytes);
    assert_eq!(batch.header().last_offset(), Offset::new(9));
    assert_eq!(batch.header().next_offset(), Offset::new(10));
    let (peak, records) = peak_of(|| read_bytes(&bytes));
    assert_eq!((peak, records), (0, Ok(vec![])));
}

/// FR-019
#[test]
fn a_count_of_one_over_an_empty_payload_is_an_error_in_every_codec() {
    for codec in CODECS {
        let bytes = batch(codec, 1, &[]);
        assert!(read_bytes(&bytes).is_err(), "{codec}");
    }
}

/// FR-024
#[test]
fn codecs_five_to_seven_are_named_by_both_readers_and_the_header_still_works() {
    for id in 5..=7 {
        let mut bytes = batch(Codec::None, 1, &[0]);
        bytes[22] = id;
        let batch = alluvium_record_format::Batch::parse(&bytes, Position::new(0)).unwrap();
        let mut decompressor = Decompressor::new();
        let mut buffer = Vec::new();
        let whole = decompressor.inflate(&batch, LIMIT, &mut buffer).map(|_| ()).unwrap_err();
        let stream = decompressor.records(&batch, LIMIT).map(|_| ()).unwrap_err();
        assert!(matches!(whole.kind(), CorruptKind::UnknownCodec { id: found, .. } if found == id));
        assert_eq!((whole, whole.position()), (stream, Position::new(21)));
        assert_eq!(batch.header().next_offset(), Offset::new(1));
    }
}

/// One record in gzip, of 2^31 - 1 that the header counts.
const GZIP_OF_MANY: &str = "00000000000000000000004e00000000028daa2c5c00010000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff7fffffff1f8b08000000000000ff1360606060\
     ca662a630000a37fcfa609000000";

/// A raw snappy block of 46 bytes.
const SNAPPY_RAW_LONG: &str = "00000000000000000000005e00000000023743369d00020000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff000000012ba8540000001c6b65792d30313233\
     3435363738392c76616c75652d6162636465666768696a6b6c6d6e6f7000";

/// A raw snappy block of 15 bytes, less than a xerial header.
const SNAPPY_RAW_SHORT: &str = "000000000000000000000040000000000270f09b8900020000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff00000001281c4e000000026b40617a01000000";

/// The same block as the first, in xerial framing.
const SNAPPY_FRAMED: &str = "0000000000000000000000720000000002bad7087900020000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000182534e415050590000000001000000\
     010000002d2ba8540000001c6b65792d303132333435363738392c76616c75652d6162636465\
     666768696a6b6c6d6e6f7000";

/// Six bytes of raw snappy that claim 2^32 - 1.
const SNAPPY_RAW_CLAIM: &str = "0000000000000000000000370000000002f0e1063900020000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff00000001ffffffff0f00";

/// A snappy chunk of five bytes that claims 2^31 - 1.
const SNAPPY_FRAMED_CLAIM: &str = "00000000000000000000004a00000000026c17e35500020000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000182534e415050590000000001000000\
     0100000005ffffffff07";

/// Two records in a stored lz4 block.
const LZ4_SOUND: &str = "00000000000000000000005b0000000002290892b800030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d186040821b00008018000000\
     026b0a6669727374001a000002026b0c7365636f6e640000000000";

/// The header checksum as old writers computed it, over the magic number too.
const LZ4_HISTORIC: &str = "00000000000000000000005b0000000002126b691300030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d1860401a1b00008018000000\
     026b0a6669727374001a000002026b0c7365636f6e640000000000";

/// Any other header checksum.
const LZ4_RANDOM: &str = "00000000000000000000005b00000000022c1bed4e00030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d186040d81b00008018000000\
     026b0a6669727374001a000002026b0c7365636f6e640000000000";

/// The size of the content stands in the header.
const LZ4_CONTENT_SIZE: &str = "0000000000000000000000630000000002f8561a8800030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d1868401b00000000000000fa\
     1b00008018000000026b0a6669727374001a000002026b0c7365636f6e640000000000";

/// A content checksum that does not match.
const LZ4_CONTENT_CHECKSUM: &str = "00000000000000000000005f000000000239655cbe00030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d186440a71b00008018000000\
     026b0a6669727374001a000002026b0c7365636f6e640000000000fdeb1863";

/// Blocks may refer to one another.
const LZ4_LINKED: &str = "00000000000000000000005b0000000002dbfad50400030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d184040c01b00008018000000\
     026b0a6669727374001a000002026b0c7365636f6e640000000000";

/// No end mark.
const LZ4_NO_END: &str = "000000000000000000000057000000000211cc075300030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d186040821b00008018000000\
     026b0a6669727374001a000002026b0c7365636f6e6400";

/// A block longer than the frame allows.
const LZ4_OVERSIZED: &str = "00000000000000000000005b000000000211730d2100030000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000204224d186040820100018118000000\
     026b0a6669727374001a000002026b0c7365636f6e640000000000";

/// A record a frame.
const ZSTD_TWO_FRAMES: &str = "00000000000000000000005e0000000002394d7c0900040000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000228b52ffd200d69000018000000026b\
     0a66697273740028b52ffd200e7100001a000002026b0c7365636f6e6400";

/// The same with a skippable frame between.
const ZSTD_SKIPPABLE: &str = "00000000000000000000006a0000000002e1402d8900040000000100000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000228b52ffd200d69000018000000026b\
     0a666972737400502a4d18040000000102030428b52ffd200e7100001a000002026b0c736563\
     6f6e6400";

/// One frame, then four bytes that are none.
const ZSTD_JUNK: &str = "00000000000000000000004b0000000002af33204900040000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000128b52ffd200d69000018000000026b\
     0a666972737400deadbeef";

/// One frame without its last byte.
const ZSTD_CUT: &str = "0000000000000000000000460000000002fc3d189700040000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000128b52ffd200d69000018000000026b\
     0a6669727374";

/// A frame that asks for a window of 2 GiB.
const ZSTD_WINDOW: &str = "00000000000000000000003a000000000220ed938b00040000000000000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff0000000128b52ffd00a8010000";

/// No record and no payload, with the bits of zstd.
const EMPTY_ZSTD: &str = "000000000000000000000031000000000246c7fe9300040000000900000000000003e8000000\
     00000003e8ffffffffffffffffffffffffffff00000000";
