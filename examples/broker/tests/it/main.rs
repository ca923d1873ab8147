//! The broker over loopback, asked by a client of a few lines.

mod admin;
#[path = "../../../../zerocopy-net/tests/it/calls.rs"]
mod calls;
mod client;
mod fetch;
mod hostile;
mod list_offsets;
mod metadata;
mod offline;
mod produce;
mod read_ahead;
mod restart;
#[cfg(feature = "tls")]
mod tls;
mod zero_copy;
