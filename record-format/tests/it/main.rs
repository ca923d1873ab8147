//! One binary for all integration tests: links are dear.

mod batch_edits;
#[cfg(feature = "codecs")]
mod builder_codecs;
mod builder_rules;
#[cfg(feature = "codecs")]
mod codec;
mod control_records;
mod dump;
mod golden_logs;
mod golden_vectors;
mod heap;
mod hex;
#[cfg(feature = "codecs")]
mod legacy;
mod memory;
#[cfg(feature = "codecs")]
mod pieces;
mod prop_batches;
#[cfg(feature = "codecs")]
mod prop_damage;
mod record_damage;
mod record_reading;
mod sequences;
mod uuid;
mod walking;
