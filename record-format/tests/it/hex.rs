//! Batches as the format pages and field reports print them.

/// The bytes of `hex`, in which white space means nothing.
pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| u8::try_from(c.to_digit(16).unwrap()).unwrap())
        .collect();
    assert_eq!(digits.len() % 2, 0, "half a byte at the end of {hex}");
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// One batch of 70 bytes: offset 0, key `k`, value `v`, time 1000, no producer, leader epoch 0.
pub(crate) fn one_record() -> Vec<u8> {
    bytes(
        "00000000000000000000003a0000000002716a618900000000000000000000000003e800000000000003e8
         ffffffffffffffffffffffffffff0000000110000000026b027600",
    )
}

/// Three batches of 118 bytes and three records each, offsets 0 to 8, leader epochs 0, 0, 1.
pub(crate) fn three_batches() -> Vec<u8> {
    bytes(
        "00000000000000000000006a000000000206742cbf00000000000200000000000003e800000000000003ea
         ffffffffffffffffffffffffffff0000000324000000046b3014767676767676767676760024000202046b
         3114767676767676767676760024000404046b32147676767676767676767600
         00000000000000030000006a0000000002359cfb7500000000000200000000000003eb00000000000003ed
         ffffffffffffffffffffffffffff0000000324000000046b3314767676767676767676760024000202046b
         3414767676767676767676760024000404046b35147676767676767676767600
         00000000000000060000006a0000000102cb8a8a8d00000000000200000000000003ee00000000000003f0
         ffffffffffffffffffffffffffff0000000324000000046b3614767676767676767676760024000202046b
         3714767676767676767676760024000404046b38147676767676767676767600",
    )
}
