//! What the stages share that break things on purpose: `kill`, `crash`, `inject`.

mod dice;
mod stamped;

pub(crate) use self::dice::Dice;
pub(crate) use self::stamped::{Found, read_all, stamped_batch};
