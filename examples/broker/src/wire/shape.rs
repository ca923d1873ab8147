//! Checks that a request has the form of its kind before it is decoded.
//!
//! The decoders of `kafka-protocol` allocate as many elements as an array claims to have. Here
//! every count is compared with the bytes at hand first, and every element is walked.

use kafka_protocol::messages::ApiKey;

use super::{Malformed, Reader, shapes};

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// So many bytes.
    Fixed(usize),
    /// A string, perhaps null.
    Text,
    /// An array, perhaps null.
    Array(&'static Self),
    /// Fields in order.
    Struct(&'static [Field]),
}

/// A field, and the versions that have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub(super) from: i16,
    pub(super) to: i16,
    pub(super) kind: Kind,
}

/// The form of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) flexible_from: i16,
    pub(super) fields: &'static [Field],
}

/// Walks the body of a request from `reader` on.
pub(crate) fn check(key: ApiKey, version: i16, reader: Reader<'_>) -> Result<(), Malformed> {
    let Some(shape) = shapes::of(key) else { return Err(reader.malformed()) };
    let mut reader = reader.flexible(version >= shape.flexible_from);
    walk_fields(&mut reader, shape.fields, version)
}

fn walk_fields(reader: &mut Reader<'_>, fields: &[Field], version: i16) -> Result<(), Malformed> {
    for field in fields.iter().filter(|field| (field.from..=field.to).contains(&version)) {
        walk(reader, &field.kind, version)?;
    }
    reader.tagged_fields()
}

fn walk(reader: &mut Reader<'_>, kind: &Kind, version: i16) -> Result<(), Malformed> {
    match kind {
        Kind::Fixed(len) => reader.skip(*len).map(drop),
        Kind::Text => reader.string().map(drop),
        Kind::Struct(fields) => walk_fields(reader, fields, version),
        Kind::Array(element) => {
            for _ in 0..reader.count()?.unwrap_or(0) {
                walk(reader, element, version)?;
            }
            Ok(())
        }
    }
}
