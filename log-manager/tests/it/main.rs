//! What a log does, behaviour by behaviour.

mod append_checks;
mod batches;
mod checkpointing;
mod cluster;
mod committing;
mod disk;
mod edges;
mod failing;
mod full_disk;
mod indexing;
mod managing;
mod not_loaded;
mod old_formats;
mod one_bad_disk;
mod owning;
mod producing;
mod prop_log;
mod reading;
mod replacing;
mod retaining;
mod rolling;
mod scrubbing;
mod spans;
mod truncating;
mod under_load;
mod waking;
