//! Records of a zstd batch.
#![no_main]

use alluvium_record_format::Codec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| alluvium_fuzz::batches::records(Codec::Zstd, data));
