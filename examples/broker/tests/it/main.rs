//! The broker over loopback, asked by a client of a few lines.

mod admin;
mod client;
mod fetch;
mod hostile;
mod list_offsets;
mod metadata;
mod produce;
mod restart;
mod zero_copy;
