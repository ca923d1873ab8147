//! Indexes that grew beside those that are rebuilt.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|appends: alluvium_fuzz::writing::Appends| alluvium_fuzz::writing::index_rebuild(
    &appends
));
