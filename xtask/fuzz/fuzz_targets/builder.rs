//! Builds a batch and reads it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|wanted: alluvium_fuzz::writing::Wanted| alluvium_fuzz::writing::builder(&wanted));
