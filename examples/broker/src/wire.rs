//! Bytes of the protocol: what is read and written by hand, and a check of what is not.

mod reader;
mod shape;
mod shapes;
mod writer;

pub(crate) use reader::{Malformed, Reader};
pub(crate) use shape::check;
pub(crate) use writer::Writer;
