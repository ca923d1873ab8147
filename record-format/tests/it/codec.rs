//! Compressed payloads.

mod cuts;
mod damage;
mod golden;
mod heap;
mod limits;
mod packed;
mod prop_codec;
