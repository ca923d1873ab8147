//! Varints against their table, against another crate, and at their edges.

use alloc::vec::Vec;

use integer_encoding::VarInt;
use proptest::prelude::*;

use super::*;

fn written(value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    write_i64(&mut out, value);
    out
}

#[test]
fn values_are_written_as_kafka_writes_them() {
    let table: [(i64, &[u8]); 14] = [
        (0, &[0x00]),
        (-1, &[0x01]),
        (1, &[0x02]),
        (63, &[0x7e]),
        (64, &[0x80, 0x01]),
        (-64, &[0x7f]),
        (-65, &[0x81, 0x01]),
        (8191, &[0xfe, 0x7f]),
        (8192, &[0x80, 0x80, 0x01]),
        (i64::from(i32::MAX), &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
        (i64::from(i32::MIN), &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        (i64::MAX, &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        (i64::MIN, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]),
        (1_787_086_231_121, &[0xa2, 0xd9, 0x9e, 0xea, 0x82, 0x68]),
    ];
    for (value, bytes) in table {
        assert_eq!(written(value), bytes, "{value}");
        assert_eq!(len_i64(value), bytes.len(), "{value}");
        assert_eq!(read_i64(bytes), Ok((value, &[][..])));
        if let Ok(value) = i32::try_from(value) {
            assert_eq!(read_i32(bytes), Ok((value, &[][..])));
        }
    }
}

/// FR-005: where integer-encoding and Kafka part ways. We go with Kafka, but for bits beyond 32.
#[test]
fn padded_and_overlong_forms_are_read_as_kafka_reads_them() {
    let padded_to_five = [0x90, 0x80, 0x80, 0x80, 0x00];
    assert_eq!(read_i32(&padded_to_five), Ok((8, &[][..])));
    let padded_to_six = [0x90, 0x80, 0x80, 0x80, 0x80, 0x00];
    assert_eq!(read_i32(&padded_to_six), Err(VarintError::TooLong));
    assert_eq!(i32::decode_var(&padded_to_six), Some((8, 6)), "the other crate accepts it");
    let beyond = [0xff, 0xff, 0xff, 0xff, 0x7f];
    assert_eq!(read_i32(&beyond), Err(VarintError::TooLong));
    assert_eq!(read_i64(&[0xff; 11]), Err(VarintError::TooLong));
    assert_eq!(read_i64(&[0xff; 9]), Err(VarintError::Ended));
    assert_eq!(read_i32(&[]), Err(VarintError::Ended));
}

proptest! {
    #[test]
    fn the_shortest_form_is_that_of_integer_encoding(value in any::<i64>(), shift in 0_u32..64) {
        let value = value >> shift;
        let bytes = written(value);
        prop_assert_eq!(&bytes, &value.encode_var_vec());
        prop_assert_eq!(len_i64(value), bytes.len());
        prop_assert_eq!(read_i64(&bytes), Ok((value, &[][..])));
    }

    #[test]
    fn what_is_read_depends_on_the_varint_alone(value in any::<i32>(), shift in 0_u32..32, after: [u8; 3]) {
        let value = value >> shift;
        let mut bytes = written(i64::from(value));
        bytes.extend(after);
        prop_assert_eq!(read_i32(&bytes), Ok((value, &after[..])));
    }
}
