//! Reads a batch, writes it, reads it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| alluvium_fuzz::writing::reader_writer(data));
