//! Compressed payloads.

mod cuts;
mod damage;
mod damage_behind_keys;
mod frames;
mod golden;
mod levels;
mod limits;
mod members;
mod packed;
mod prop_codec;
mod steps;
mod xerial;
mod zstd_frames;
