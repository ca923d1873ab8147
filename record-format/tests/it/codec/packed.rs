//! Compressed batches to test with.

use alluvium_record_format::{Batch, BatchMut, Codec, Position, compress};

/// A batch of `record_count` records with this payload, whatever is in it.
pub(crate) fn batch(codec: Codec, record_count: i32, payload: &[u8]) -> Vec<u8> {
    let length = i32::try_from(49 + payload.len()).unwrap();
    let mut bytes = [0; 61].to_vec();
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[16] = 2;
    bytes[22] = codec.id();
    bytes[23..27].copy_from_slice(&(record_count - 1).max(0).to_be_bytes());
    bytes[43..57].fill(0xff);
    bytes[57..61].copy_from_slice(&record_count.to_be_bytes());
    bytes.extend_from_slice(payload);
    BatchMut::parse(&mut bytes, Position::new(0)).unwrap().rewrite_crc();
    bytes
}

/// The batch at the start of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Batch<'_> {
    let batch = Batch::parse(bytes, Position::new(0)).unwrap();
    batch.verify_crc().unwrap();
    batch
}

/// `content` as `codec` packs it.
pub(crate) fn pack(codec: Codec, content: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    compress(codec, None, content, &mut payload).unwrap();
    payload
}

/// One record without key, whose value is `value`.
pub(crate) fn record(value: &[u8]) -> Vec<u8> {
    field(&[&[0, 0, 0, 1], field(value).as_slice(), &[0]].concat())
}

/// Bytes behind their length.
pub(crate) fn field(bytes: &[u8]) -> Vec<u8> {
    [varint(i32::try_from(bytes.len()).unwrap()).as_slice(), bytes].concat()
}

pub(crate) fn varint(value: i32) -> Vec<u8> {
    let mut rest = (value << 1 ^ value >> 31).cast_unsigned();
    let mut bytes = Vec::new();
    while rest >= 0x80 {
        bytes.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    bytes.push(u8::try_from(rest).unwrap());
    bytes
}

/// The codecs that compress.
pub(crate) const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
