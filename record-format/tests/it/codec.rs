//! Compressed payloads.

mod damage;
mod golden;
mod heap;
mod limits;
mod packed;
