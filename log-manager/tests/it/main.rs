//! What a log does, behaviour by behaviour.

mod append_checks;
mod batches;
mod old_formats;
