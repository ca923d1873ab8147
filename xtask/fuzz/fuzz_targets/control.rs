//! Key and value of a control record.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| alluvium_fuzz::batches::control(data));
