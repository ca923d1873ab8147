//! Zstd frames with the headers that other writers choose.

use alluvium_record_format::{Codec, CorruptKind, Decompressor, decompress};
use zstd::bulk::Compressor;
use zstd::zstd_safe::CParameter;

use crate::heap::left_of;

/// The content, or `None` where it is refused as no such stream: at once and in pieces alike.
fn read(payload: &[u8]) -> Option<Vec<u8>> {
    let mut decompressor = Decompressor::new();
    let mut out = Vec::new();
    let whole = decompressor.decompress(Codec::Zstd, payload, 1 << 20, &mut out);
    let mut roomy = Vec::with_capacity(1 << 20);
    assert_eq!(decompressor.decompress(Codec::Zstd, payload, 1 << 20, &mut roomy), whole);
    assert!(roomy == out);
    let mut pieces = Vec::new();
    let mut decoder = decompressor.decoder(Codec::Zstd, payload).unwrap();
    let streamed = loop {
        match decoder.pull(&mut pieces) {
            Ok(0) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    assert_eq!(whole, streamed);
    match whole {
        Ok(()) => {
            assert!(out == pieces);
            Some(out)
        }
        Err(CorruptKind::Compressed { codec: Codec::Zstd, .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// The descriptor and the fields that follow it.
struct Header<'h> {
    descriptor: u8,
    fields: &'h [u8],
}

const fn header(descriptor: u8, fields: &[u8]) -> Header<'_> {
    Header { descriptor, fields }
}

const CHECKSUM: u8 = 0x04;
const RESERVED: u8 = 0x08;
const SINGLE_SEGMENT: u8 = 0x20;

/// A frame of stored blocks of at most `block_len` bytes.
fn frame(header: &Header<'_>, content: &[u8], block_len: usize) -> Vec<u8> {
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, header.descriptor];
    bytes.extend(header.fields);
    let mut blocks = content.chunks(block_len).peekable();
    while let Some(block) = blocks.next() {
        let is_last = u32::from(blocks.peek().is_none());
        let word = u32::try_from(block.len()).unwrap() << 3 | is_last;
        bytes.extend(&word.to_le_bytes()[..3]);
        bytes.extend(block);
    }
    if header.descriptor & CHECKSUM != 0 {
        bytes.extend(checksum(content));
    }
    bytes
}

/// The checksum with which zstd ends a frame of this content.
fn checksum(content: &[u8]) -> [u8; 4] {
    let mut compressor = Compressor::new(1).unwrap();
    compressor.set_parameter(CParameter::ChecksumFlag(true)).unwrap();
    *compressor.compress(content).unwrap().last_chunk().unwrap()
}

#[test]
fn a_zstd_header_names_the_content_size_in_any_width_or_not_at_all() {
    let content = vec![7; 300];
    for header in [
        header(0x00, &[0x00]),
        header(0x40, &[0x00, 44, 0]),
        header(0x60, &[44, 0]),
        header(0x80, &[0x00, 44, 1, 0, 0]),
        header(0xa0, &[44, 1, 0, 0]),
        header(0xc0, &[0x00, 44, 1, 0, 0, 0, 0, 0, 0]),
        header(0xe0, &[44, 1, 0, 0, 0, 0, 0, 0]),
        // A dictionary of number 0 is none.
        header(0x61, &[0, 44, 0]),
        header(0x62, &[0, 0, 44, 0]),
        header(0x63, &[0, 0, 0, 0, 44, 0]),
        header(0x64, &[44, 0]),
    ] {
        let whole = frame(&header, &content, 100);
        let shape = format!("{:#x} {:?}", header.descriptor, header.fields);
        assert_eq!(read(&whole).as_ref(), Some(&content), "{shape}");
        for len in 1..whole.len() {
            assert_eq!(read(&whole[..len]), None, "{shape}, {len} bytes of it");
        }
        let twice = whole.repeat(2);
        assert_eq!(read(&twice), Some(content.repeat(2)), "{shape}");
    }
    let short = header(SINGLE_SEGMENT, &[200]);
    assert_eq!(read(&frame(&short, &content[..200], 200)), Some(content[..200].to_vec()));
}

#[test]
fn a_zstd_frame_that_asks_for_a_dictionary_or_a_later_format_is_refused() {
    assert_eq!(read(&frame(&header(0x61, &[1, 44, 0]), &[7; 300], 300)), None);
    assert_eq!(read(&frame(&header(0x63, &[0, 0, 0, 1, 44, 0]), &[7; 300], 300)), None);
    assert_eq!(read(&frame(&header(0x60 | RESERVED, &[44, 0]), &[7; 300], 300)), None);
    let mut other = frame(&header(0x60, &[44, 0]), &[7; 300], 300);
    other[0] ^= 1;
    assert_eq!(read(&other), None);
}

#[test]
fn the_checksum_of_a_zstd_frame_is_compared_with_the_content() {
    let sound = frame(&header(SINGLE_SEGMENT | CHECKSUM, &[3]), b"one", 3);
    assert_eq!(read(&sound), Some(b"one".to_vec()));
    for back in 1..=4 {
        let mut damaged = sound.clone();
        damaged[sound.len() - back] ^= 1;
        assert_eq!(read(&damaged), None, "byte {back} from the end");
        // Not for want of room, which is as much as the content takes.
        let refused = decompress(Codec::Zstd, &damaged, 3, &mut Vec::new()).unwrap_err();
        assert!(matches!(refused, CorruptKind::Compressed { .. }), "{refused}");
    }
}

#[test]
fn a_zstd_block_is_no_larger_than_the_window_nor_than_128_kib() {
    let content = vec![7; (128 << 10) + 1];
    // Windows of 1 KiB, of 1 KiB and an eighth, of 256 KiB.
    for (window, max) in [(0x00, 1024), (0x01, 1152), (0x40, 128 << 10)] {
        let header = header(0x00, std::slice::from_ref(&window));
        assert!(read(&frame(&header, &content[..max], max)).is_some(), "{window:#x}");
        assert!(read(&frame(&header, &content[..=max], max + 1)).is_none(), "{window:#x}");
        assert!(read(&frame(&header, &content[..=max], max)).is_some(), "{window:#x}");
    }
}

/// A run of 7 as a compressed block: two times a literal and one long match at distance 1.
fn run_block(match_code: u8, bits: &[u8]) -> Vec<u8> {
    // Two literals as they are; two sequences, whose codes do not change.
    [&[2 << 3, 7, 7, 2, 0x54, 1, 0, match_code], bits].concat()
}

/// A frame of `blocks`, each with its kind.
fn frame_of(header: &Header<'_>, blocks: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, header.descriptor];
    bytes.extend(header.fields);
    for (index, (kind, block)) in blocks.iter().enumerate() {
        let is_last = u32::from(index + 1 == blocks.len());
        let word = u32::try_from(block.len()).unwrap() << 3 | kind << 1 | is_last;
        bytes.extend(&word.to_le_bytes()[..3]);
        bytes.extend(block);
    }
    bytes
}

/// The library looks at the size of a block only when it reads a frame in pieces.
#[test]
fn a_compressed_zstd_block_inflates_to_no_more_than_128_kib() {
    // Matches of 32,771 and of 65,539 bytes: with their literals 65,544 and 131,080.
    let sound = (2, run_block(51, &[0, 0, 0, 0x40]));
    let long = (2, run_block(52, &[0, 0, 0, 0, 1]));
    let stored = (0, vec![7; 100]);
    for tail in [vec![], vec![stored.clone()], vec![sound.clone(), stored]] {
        let rest_len: usize = tail.iter().map(|(kind, _)| [100, 0, 65_544][*kind as usize]).sum();
        for (block, len) in [(&sound, 65_544), (&long, 131_080)] {
            let blocks = [std::slice::from_ref(block), &tail].concat();
            let content = vec![7; len + rest_len];
            let expected = (len <= 128 << 10).then_some(&content);
            let shape = format!("{len} and {} blocks", tail.len());
            let unnamed = frame_of(&header(0x00, &[0x58]), &blocks);
            assert_eq!(read(&unnamed).as_ref(), expected, "{shape}");
            let size = u32::try_from(content.len()).unwrap().to_le_bytes();
            let named = frame_of(&header(0xa0, &size), &blocks);
            assert_eq!(read(&named).as_ref(), expected, "{shape}, the size named");
            let behind = [frame(&header(0x20, &[1]), &[1], 1), unnamed].concat();
            assert_eq!(read(&behind).is_some(), expected.is_some(), "{shape}, behind a frame");
        }
    }
}

#[test]
fn a_zstd_window_may_be_of_128_mib_and_no_larger() {
    assert_eq!(read(&frame(&header(0x00, &[0x88]), b"one", 3)), Some(b"one".to_vec()));
    assert_eq!(read(&frame(&header(0x00, &[0x89]), b"one", 3)), None);
}

#[test]
fn a_zstd_block_of_one_byte_repeated_is_read_and_one_of_no_kind_is_refused() {
    let block = |kind: u32| {
        let word = 300_u32 << 3 | kind << 1 | 1;
        let mut bytes = vec![0x28, 0xb5, 0x2f, 0xfd, 0x60, 44, 0];
        bytes.extend(&word.to_le_bytes()[..3]);
        bytes.push(7);
        bytes
    };
    assert_eq!(read(&block(1)), Some(vec![7; 300]));
    assert_eq!(read(&block(3)), None);
}

#[test]
fn skippable_zstd_frames_of_all_sixteen_numbers_are_stepped_over() {
    let content = frame(&header(SINGLE_SEGMENT, &[3]), b"one", 3);
    for number in 0..16 {
        let skippable = [&[0x50 | number, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"any"].concat();
        assert_eq!(read(&[&skippable[..], &content].concat()), Some(b"one".to_vec()));
        assert_eq!(read(&[&content[..], &skippable].concat()), Some(b"one".to_vec()));
        assert_eq!(read(&[&content[..], &skippable[..10]].concat()), None);
    }
}

#[test]
fn a_trimmed_decompressor_keeps_no_large_window_of_zstd() {
    let payload = frame(&header(0x00, &[0x80]), b"one", 3); // a window of 64 MiB
    let mut decompressor = Decompressor::new();
    let (left, ()) = left_of(|| {
        let mut decoder = decompressor.decoder(Codec::Zstd, &payload).unwrap();
        let mut out = Vec::new();
        while decoder.pull(&mut out).unwrap() > 0 {}
        decompressor.trim();
    });
    assert!(left < 5 << 20, "keeps {left} bytes");
}

/// The library looks at the size of what it reads at once; in pieces it misses it where the last
/// block is empty.
#[test]
fn a_zstd_frame_of_less_than_it_names_is_refused_at_once_and_in_pieces() {
    let mut payload = frame(&header(0xa0, &100_000_u32.to_le_bytes()), &[7; 300], 300);
    payload[9] &= !1; // not the last block
    payload.extend([1, 0, 0]);
    assert_eq!(read(&payload), None);
    payload[5..9].copy_from_slice(&300_u32.to_le_bytes());
    assert_eq!(read(&payload), Some(vec![7; 300]));
}
