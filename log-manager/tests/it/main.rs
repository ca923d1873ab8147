//! What a log does, behaviour by behaviour.

mod append_checks;
mod batches;
