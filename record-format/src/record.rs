//! Records of a v2 batch. Layout: `docs/format/record-batch.md#record`.

mod check;
mod decode;
mod encode;
mod iter;
mod keys;
mod shape;
mod short;
mod simple;
mod view;

pub use check::{OffsetRange, RecordsSummary};
pub(crate) use decode::RecordContext;
pub(crate) use encode::Encoded;
pub use iter::Records;
pub use keys::{RecordKey, RecordKeys};
pub use simple::SimpleRecord;
pub use view::{Header, Headers, Record};
