//! Steps from entry to entry. Rules: `docs/format/record-batch.md#walking`.

use super::Prefix;
use crate::{CorruptKind, Corruption, Position};

/// Decides where the entries of a file or buffer begin and end, from their first 17 bytes.
///
/// One set of rules for readers of files and of memory, which bring the bytes themselves:
/// magic 0, 1 or 2, and no magic below 2 after a batch of magic 2, where only a damaged byte can
/// have put it. Kafka's two readers differ there: its file reader takes any magic.
///
/// # Examples
///
/// ```
/// # use alluvium_record_format::{BatchBuilder, BatchSettings, Offset, Position, SimpleRecord,
/// Walker};
/// # let mut builder = BatchBuilder::new(BatchSettings::new(Offset::new(0)));
/// # builder.append(&SimpleRecord::new().value(b"v"))?;
/// let mut file = builder.finish()?.to_vec();
/// file.extend([0; 5]); // a torn tail
///
/// let mut walker = Walker::new(Position::new(0), Position::new(74));
/// let first = walker.step(&file)?.expect("an entry");
/// assert_eq!((first.magic(), first.size_bytes()), (2, 69));
/// assert!(walker.step(&file[69..]).is_err());
/// assert_eq!(walker.position(), Position::new(69));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Walker {
    position: Position,
    end: Position,
    seen_batch: bool,
}

impl Walker {
    /// Walks the bytes from `start` up to `end`, both of one file or buffer.
    #[must_use]
    pub const fn new(start: Position, end: Position) -> Self {
        Self { position: start, end, seen_batch: false }
    }

    /// The byte after the last whole entry, where the next one begins.
    #[must_use]
    pub const fn position(&self) -> Position {
        self.position
    }

    /// Looks at the entry at [`position`](Self::position) and steps over it; `None` at the end.
    ///
    /// `head` begins there. It holds 17 bytes or more, or all that there are. The entry is
    /// whole: it ends at or before the end.
    ///
    /// # Errors
    ///
    /// As [`Prefix::parse`], `Magic` for one below 2 after a batch of magic 2, and `Truncated`
    /// where the end comes before that of the entry. The walker stays where it is.
    pub fn step<'h>(&mut self, head: &'h [u8]) -> Result<Option<&'h Prefix>, Corruption> {
        let have = self.end.get().saturating_sub(self.position.get());
        if have == 0 {
            return Ok(None);
        }
        let prefix = Prefix::parse(head, self.position)?;
        if self.seen_batch && prefix.magic() != 2 {
            return Err(prefix.refused(self.position));
        }
        // In 64 bits: a length field near 2^31 must not wrap.
        let next = u32::try_from(prefix.size_bytes())
            .ok()
            .filter(|size| *size <= have)
            .and_then(|size| self.position.checked_add(size));
        let Some(next) = next else {
            let need = usize::try_from(prefix.size_bytes()).unwrap_or(usize::MAX);
            let have = usize::try_from(have).unwrap_or(usize::MAX);
            return Err(CorruptKind::Truncated { need, have }.at(self.position));
        };
        self.position = next;
        self.seen_batch = prefix.magic() == 2;
        Ok(Some(prefix))
    }
}
