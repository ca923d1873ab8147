//! Compressed payloads.

mod cuts;
mod damage;
mod golden;
mod levels;
mod limits;
mod packed;
mod prop_codec;
mod steps;
