//! Operations on a log beside a model.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|operations: Vec<alluvium_fuzz::logs::Operation>| alluvium_fuzz::logs::operations(
    &operations
));
