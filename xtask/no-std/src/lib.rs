//! Builds only while nothing below it links `std`: a second panic handler is an error.
#![no_std]

use core::panic::PanicInfo;

pub use alluvium_record_format::Batch;

#[panic_handler]
fn halt(_info: &PanicInfo<'_>) -> ! {
    loop {}
}
