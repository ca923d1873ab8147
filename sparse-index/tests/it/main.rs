//! Tests of the public API, one module per behaviour.

mod offset_file;
mod support;
