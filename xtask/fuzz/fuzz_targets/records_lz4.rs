//! Records of an lz4 batch.
#![no_main]

use alluvium_record_format::Codec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| alluvium_fuzz::batches::records(Codec::Lz4, data));
