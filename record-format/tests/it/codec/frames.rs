//! LZ4 frames with the options that other writers set.

use alluvium_record_format::{Codec, CorruptKind, decompress};
use twox_hash::XxHash32;

/// Version 1, independent blocks.
const PLAIN: u8 = 0x60;
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;

const KIB_64: u8 = 0x40;

/// The content, or `None` where it is refused as no such stream.
fn read(frame: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match decompress(Codec::Lz4, frame, 8 << 20, &mut out) {
        Ok(()) => Some(out),
        Err(CorruptKind::Compressed { codec: Codec::Lz4, .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// A frame of stored blocks, every checksum right.
fn frame(flags: u8, block_size: u8, blocks: &[&[u8]]) -> Vec<u8> {
    let content = blocks.concat();
    let mut descriptor = vec![flags, block_size];
    if flags & CONTENT_SIZE != 0 {
        descriptor.extend(u64::try_from(content.len()).unwrap().to_le_bytes());
    }
    let mut bytes = vec![0x04, 0x22, 0x4d, 0x18];
    bytes.extend(&descriptor);
    bytes.push(XxHash32::oneshot(0, &descriptor).to_le_bytes()[1]);
    for block in blocks {
        let size = u32::try_from(block.len()).unwrap() | 0x8000_0000;
        bytes.extend(size.to_le_bytes());
        bytes.extend(*block);
        if flags & BLOCK_CHECKSUMS != 0 {
            bytes.extend(XxHash32::oneshot(0, block).to_le_bytes());
        }
    }
    bytes.extend([0; 4]);
    if flags & CONTENT_CHECKSUM != 0 {
        bytes.extend(XxHash32::oneshot(0, &content).to_le_bytes());
    }
    bytes
}

#[test]
fn an_lz4_frame_may_have_any_of_its_options() {
    for options in (0..32).step_by(4) {
        let whole = frame(PLAIN | options, KIB_64, &[b"one", b"two"]);
        assert_eq!(read(&whole), Some(b"onetwo".to_vec()), "{options:#b}");
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]), None, "{options:#b}, {len} bytes of it");
        }
    }
}

#[test]
fn the_checksum_of_an_lz4_block_is_compared_with_it() {
    let sound = frame(PLAIN | BLOCK_CHECKSUMS, KIB_64, &[b"one"]);
    for at in 11..18 {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        assert_eq!(read(&damaged), None, "byte {at}");
    }
}

#[test]
fn a_block_of_an_lz4_frame_is_no_larger_than_its_header_allows() {
    for (code, max) in [(4, 64 << 10), (5, 256 << 10), (6, 1 << 20), (7, 4 << 20)] {
        let block = vec![7; max + 1];
        assert!(read(&frame(PLAIN, code << 4, &[&block[..max]])) == Some(block[..max].to_vec()));
        assert_eq!(read(&frame(PLAIN, code << 4, &[&block])), None, "{max}");
    }
}

#[test]
fn an_lz4_frame_of_another_kind_is_refused() {
    for code in 0..4 {
        assert_eq!(read(&frame(PLAIN, code << 4, &[b"one"])), None, "block size {code}");
    }
    for bit in [0x80, 0x08, 0x04, 0x02, 0x01] {
        assert_eq!(read(&frame(PLAIN, KIB_64 | bit, &[b"one"])), None, "{bit:#x}");
    }
    for bit in [0x80, 0x40, 0x20, 0x02, 0x01] {
        assert_eq!(read(&frame(PLAIN ^ bit, KIB_64, &[b"one"])), None, "{bit:#x}");
    }
    let mut skippable = frame(PLAIN, KIB_64, &[b"one"]);
    skippable[..4].copy_from_slice(&[0x50, 0x2a, 0x4d, 0x18]);
    assert_eq!(read(&skippable), None);
}

#[test]
fn a_stored_block_fills_the_limit_and_no_more() {
    let frame = frame(PLAIN, KIB_64, &[b"one", b"four"]);
    let mut out = Vec::new();
    decompress(Codec::Lz4, &frame, 7, &mut out).unwrap();
    assert_eq!(out, b"onefour");
    out.clear();
    let refused = decompress(Codec::Lz4, &frame, 6, &mut out).unwrap_err();
    assert!(matches!(refused, CorruptKind::OutputLimit { limit: 6, .. }), "{refused}");
}
