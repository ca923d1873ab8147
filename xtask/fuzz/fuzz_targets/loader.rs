//! The loader on any directory.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|directory: alluvium_fuzz::loading::Directory| alluvium_fuzz::loading::loader(
    &directory
));
