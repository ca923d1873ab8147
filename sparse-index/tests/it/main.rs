//! Tests of the public API, one module per behaviour.

mod concurrent;
mod damage;
mod golden_answers;
mod golden_rebuild;
mod lazy;
mod map_faults;
mod offset_file;
mod prop_bytes;
mod prop_model;
mod resources;
mod rule;
mod support;
mod time_file;
mod transaction_file;
mod views;
