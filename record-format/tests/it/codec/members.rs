//! Gzip payloads that other writers make: header fields, and members one after the other.

use alluvium_record_format::{Codec, CorruptKind, decompress};

const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;
const HEADER_CRC: u8 = 2;

/// The content, or `None` where it is refused as no such stream.
fn read(payload: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    match decompress(Codec::Gzip, payload, 1 << 20, &mut out) {
        Ok(()) => Some(out),
        Err(CorruptKind::Compressed { codec: Codec::Gzip, .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// The header of a member with the fields that the flags name.
fn header(flags: u8) -> Vec<u8> {
    let mut bytes = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 0xff];
    let fields: [(u8, &[u8]); 3] =
        [(EXTRA, &[3, 0, 0, 1, 0]), (NAME, b"name\0"), (COMMENT, b"a comment\0")];
    for (flag, field) in fields {
        if flags & flag != 0 {
            bytes.extend(field);
        }
    }
    if flags & HEADER_CRC != 0 {
        let crc = crc32fast::hash(&bytes);
        bytes.extend(&crc.to_le_bytes()[..2]);
    }
    bytes
}

/// One stored block with this content, and the trailer.
fn body(content: &[u8]) -> Vec<u8> {
    let len = u16::try_from(content.len()).unwrap();
    let mut bytes = vec![1];
    bytes.extend(len.to_le_bytes());
    bytes.extend((!len).to_le_bytes());
    bytes.extend(content);
    bytes.extend(crc32fast::hash(content).to_le_bytes());
    bytes.extend(u32::from(len).to_le_bytes());
    bytes
}

#[test]
fn a_gzip_header_may_have_any_of_its_fields() {
    for flags in (0..32).step_by(2) {
        let header = header(flags);
        let whole = [header.clone(), body(b"content")].concat();
        assert_eq!(read(&whole), Some(b"content".to_vec()), "{flags:#b}");
        for len in 0..=header.len() {
            assert_eq!(read(&header[..len]), None, "{flags:#b}, {len} bytes of it");
        }
    }
}

#[test]
fn a_gzip_header_with_a_checksum_is_compared_with_it() {
    let header = header(HEADER_CRC | NAME);
    for at in [4, 10, header.len() - 2, header.len() - 1] {
        let mut damaged = header.clone();
        damaged[at] ^= 1;
        assert_eq!(read(&[damaged, body(b"content")].concat()), None, "byte {at}");
    }
}

#[test]
fn a_gzip_payload_with_another_magic_or_method_is_refused() {
    for at in 0..3 {
        let mut damaged = header(0);
        damaged[at] ^= 1;
        assert_eq!(read(&[damaged, body(b"content")].concat()), None, "byte {at}");
    }
}

#[test]
fn checksum_and_size_of_a_gzip_member_are_compared_with_the_content() {
    let whole = [header(0), body(b"content")].concat();
    for back in 1..=8 {
        let mut damaged = whole.clone();
        damaged[whole.len() - back] ^= 1;
        assert_eq!(read(&damaged), None, "byte {back} from the end");
    }
}

/// Java leaves alone what it takes for no member: 18 bytes and less, where they came with the end
/// of the member before, and what does not begin with a header.
#[test]
fn gzip_members_are_read_as_java_reads_them() {
    let first = [header(0), body(b"one")].concat();
    let second = [header(0), body(b"two")].concat();
    for len in 0..=second.len() {
        let expected = match len {
            ..=18 => Some(b"one".to_vec()),
            26 => Some(b"onetwo".to_vec()),
            _ => None,
        };
        let payload = [&first, &second[..len]].concat();
        assert_eq!(read(&payload), expected, "{len} bytes of the second");
    }
    let junk = [&first[..], &[0xaa; 40]].concat();
    assert_eq!(read(&junk), Some(b"one".to_vec()));
    let three = [&first[..], &second, &first].concat();
    assert_eq!(read(&three), Some(b"onetwoone".to_vec()));
}

/// Java's buffer of 8 KiB begins behind the header. What lies beyond it is looked at in any case.
#[test]
fn a_gzip_member_beyond_javas_buffer_is_looked_for() {
    let second = [header(0), body(b"two")].concat();
    // The buffer, two of them, or three end with the trailer of the first member and two bytes.
    for buffers in 1..=3 {
        let content = vec![7; buffers * 8192 - 10 - 5];
        let first = [header(0), body(&content)].concat();
        for (len, is_sound) in [(0, true), (2, true), (3, true), (10, false), (18, false)] {
            let payload = [&first, &second[..len]].concat();
            let expected = if is_sound { Some(content.clone()) } else { None };
            assert!(read(&payload) == expected, "{buffers} buffers, {len} bytes of the second");
        }
        let both = [&content[..], b"two"].concat();
        assert!(read(&[first, second.clone()].concat()) == Some(both), "{buffers} buffers");
    }
}
