//! `partition.metadata`, `meta.properties`, the marker of a clean stop.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| alluvium_fuzz::files::metadata(data));
