//! What stands before and behind a batch: whether its offsets and its epoch, which have no
//! checksum, can be right.

use alluvium_record_format::{LeaderEpoch, Offset};

use super::scan::{Piece, Scan};
use crate::error::CliError;
use crate::log_file::LogFile;
use crate::partition::FileInfo;
use crate::walk::Head;

/// What a segment lies between.
pub(super) struct Near {
    base: Offset,
    /// Where the next segment begins.
    next_base: Option<Offset>,
    /// The leader epoch in which the next segment begins, by its first sound batch.
    next_epoch: Option<LeaderEpoch>,
}

/// A batch of a segment among the others.
pub(super) struct Place {
    position: u64,
    offsets: (Offset, Offset),
    /// The leader epoch that it is to have.
    pub(super) epoch: Option<LeaderEpoch>,
    /// Whether its offsets go on from those before, and those behind from it.
    pub(super) is_in_order: bool,
}

impl Near {
    /// For the segment at `base`, before another one.
    pub(super) fn new(base: Offset, next: Option<(Offset, &FileInfo)>) -> Result<Self, CliError> {
        let mut near = Self { base, next_base: None, next_epoch: None };
        let Some((next_base, next)) = next else { return Ok(near) };
        near.next_base = Some(next_base);
        let behind = Self { base: next_base, next_base: None, next_epoch: None };
        let file = LogFile::open(&next.path)?;
        let mut scan = Scan::new(&file);
        while let Some(piece) = scan.step()? {
            if let Piece::Sound(head) = piece
                && behind.holds(&head)
            {
                near.next_epoch = epoch_of(&head);
                break;
            }
        }
        Ok(near)
    }

    /// Whether the offsets of a batch can lie in the segment.
    pub(super) fn holds(&self, head: &Head) -> bool {
        let (base, last) = (head.base_offset, head.last_offset);
        let is_beyond = self.next_base.is_some_and(|next| last >= next);
        self.base <= base && base <= last && !is_beyond && last.relative_to(self.base).is_some()
    }

    /// The sound batches of the segment, in their order: as many as can be right keep offset and
    /// epoch. `before` is the leader epoch in which the log ends so far.
    pub(super) fn places(
        &self,
        file: &LogFile,
        before: Option<LeaderEpoch>,
    ) -> Result<Vec<Place>, CliError> {
        let mut places = Vec::new();
        let mut scan = Scan::new(file);
        while let Some(piece) = scan.step()? {
            if let Piece::Sound(head) = piece
                && head.header.is_some()
                && self.holds(&head)
            {
                let (position, epoch) = (head.position, epoch_of(&head));
                let offsets = (head.base_offset, head.last_offset);
                places.push(Place { position, offsets, epoch, is_in_order: false });
            }
        }
        let spans =
            places.iter().map(|Place { offsets: (base, last), .. }| (base.get(), last.get()));
        let is_in_order = longest_chain(spans);
        for (place, is_right) in places.iter_mut().zip(is_in_order) {
            place.is_in_order = is_right;
        }
        self.mend_epochs(&mut places, before);
        Ok(places)
    }

    /// Gives batches whose epoch does not fit in between the one of the batch before, or where
    /// there is none the next that fits.
    fn mend_epochs(&self, places: &mut [Place], before: Option<LeaderEpoch>) {
        let can_be = |epoch: &LeaderEpoch| before.is_none_or(|before| before <= *epoch);
        let in_order = |place: &&mut Place| place.is_in_order && place.epoch.is_some();
        let mut epochs: Vec<&mut LeaderEpoch> =
            places.iter_mut().filter(in_order).filter_map(|place| place.epoch.as_mut()).collect();
        let some = epochs.iter().map(|epoch| **epoch).chain(self.next_epoch);
        // They may stay as they are: each begins where the one before ends, or behind.
        let some = some.filter(can_be).map(|epoch| i64::from(epoch.get()));
        let mut rises = longest_chain(some.map(|epoch| (epoch + 1, epoch))).into_iter();
        let fits: Vec<bool> =
            epochs.iter().map(|epoch| can_be(epoch) && rises.next().unwrap_or(false)).collect();
        let first = fits.iter().position(|fits| *fits).map(|index| *epochs[index]);
        let Some(mut running) = before.or(first).or(self.next_epoch) else { return };
        for (epoch, fits) in epochs.iter_mut().zip(fits) {
            if fits {
                running = **epoch;
            } else {
                **epoch = running;
            }
        }
    }
}

impl Place {
    /// The batch at a byte, from places in order; those before are passed over.
    pub(super) fn at<'p>(
        places: &mut std::iter::Peekable<impl Iterator<Item = &'p Self>>,
        position: u64,
    ) -> Option<&'p Self> {
        while places.next_if(|place| place.position < position).is_some() {}
        places.next_if(|place| place.position == position)
    }
}

/// Which of these spans make up the longest chain, each beginning behind the end of the one before.
fn longest_chain(spans: impl IntoIterator<Item = (i64, i64)>) -> Vec<bool> {
    // By the length of a chain: the least end of such a one, and its last span.
    let mut ends: Vec<(i64, usize)> = Vec::new();
    let mut before = Vec::new();
    for (index, (start, end)) in spans.into_iter().enumerate() {
        let length = ends.partition_point(|(least, _)| *least < start);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter].1));
        match ends.get_mut(length) {
            Some(least) if end < least.0 => *least = (end, index),
            Some(_) => {}
            None => ends.push((end, index)),
        }
    }
    let mut is_link = vec![false; before.len()];
    let mut link = ends.last().map(|(_, index)| *index);
    while let Some(index) = link {
        is_link[index] = true;
        link = before[index];
    }
    is_link
}

/// The leader epoch of a batch, `None` where it has none.
fn epoch_of(head: &Head) -> Option<LeaderEpoch> {
    head.header.as_ref()?.leader_epoch()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All ways to pick some of the spans, tried one by one.
    fn longest_by_trial(spans: &[(i64, i64)]) -> usize {
        let picks = 0..1_u32 << spans.len();
        let lengths = picks.filter_map(|pick| {
            let picked = spans.iter().enumerate().filter(|(index, _)| pick >> index & 1 == 1);
            let picked: Vec<_> = picked.map(|(_, span)| *span).collect();
            picked.windows(2).all(|pair| pair[0].1 < pair[1].0).then_some(picked.len())
        });
        lengths.max().unwrap()
    }

    proptest::proptest! {
        #[test]
        fn no_chain_is_longer(spans in proptest::collection::vec((0_i64..30, 0_i64..6), 0..10)) {
            let spans: Vec<_> = spans.into_iter().map(|(start, len)| (start, start + len)).collect();
            let links = longest_chain(spans.iter().copied());
            let links: Vec<_> =
                spans.iter().zip(links).filter(|(_, is_link)| *is_link).map(|(s, _)| s).collect();
            proptest::prop_assert!(links.windows(2).all(|pair| pair[0].1 < pair[1].0));
            proptest::prop_assert_eq!(links.len(), longest_by_trial(&spans));
        }
    }
}
