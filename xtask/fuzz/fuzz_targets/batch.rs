//! A log file of batches and old messages.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| alluvium_fuzz::batches::batch(data));
