//! What the stages share that break things on purpose: `kill`, `crash`, `inject`.

mod dice;
mod stamped;
mod writer;

pub(crate) use self::dice::Dice;
pub(crate) use self::stamped::{
    Contents, Found, FoundBatch, marker_batch, read_all, read_committed, read_contents,
    stamped_batch, stamped_batch_as,
};
pub(crate) use self::writer::{Kind, Writer};
