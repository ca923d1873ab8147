//! What a power cut may leave of a disk: one of many states, drawn.
//!
//! A third of the draws lets chance decide of everything. The others are about one thing that goes
//! astray while all the rest arrives, or that arrives alone: one change of a name, or the bytes of
//! one file. Most faults need no more than that, and chance alone seldom comes to it.

use std::path::{Path, PathBuf};

use super::disk::{DataChange, Disk, NameChange, Node, State, put};
use crate::proof::Dice;

/// The unit that is old or new as a whole.
const SECTOR: usize = 512;

/// The unit that a file system allots, and clears behind the end of a file.
const BLOCK: usize = 4096;

impl Disk {
    /// One of the states that a power cut at this moment may leave.
    pub(super) fn after_power_cut(&self, dice: &mut Dice) -> State {
        let mut cut = match dice.below(3) {
            0 => PowerCut::by_chance(self, dice),
            1 => PowerCut::but_one(self, Tear::Kept, dice),
            _ => PowerCut::but_one(self, Tear::Lost, dice),
        };
        let mut state = State::default();
        cut.collect(0, Path::new(""), &mut state);
        state
    }
}

/// A power cut on its way through the tree.
struct PowerCut<'d> {
    disk: &'d Disk,
    dice: &'d mut Dice,
    /// Which changes of names have reached the disk.
    chosen: Vec<bool>,
    /// What becomes of most files.
    most: Tear,
    /// Whether some file fares otherwise.
    other: Other,
}

#[derive(Clone, Copy, Debug)]
enum Other {
    None,
    /// This one, by its node.
    One(usize, Tear),
    /// One in three.
    Some,
}

impl<'d> PowerCut<'d> {
    fn by_chance(disk: &'d Disk, dice: &'d mut Dice) -> Self {
        let count = disk.names.len();
        let mut chosen = match dice.below(4) {
            0 => vec![false; count],
            1 => vec![true; count],
            2 => {
                let cut = dice.index(count + 1);
                (0..count).map(|at| at < cut).collect()
            }
            _ => (0..count).map(|_| dice.one_in(2)).collect(),
        };
        choose_tied(&disk.names, &mut chosen);
        let most = Tear::any(dice);
        Self { disk, dice, chosen, most, other: Other::Some }
    }

    /// Everything is kept but one thing, or everything is lost but one thing.
    fn but_one(disk: &'d Disk, most: Tear, dice: &'d mut Dice) -> Self {
        let is_kept = matches!(most, Tear::Kept);
        let mut chosen = vec![is_kept; disk.names.len()];
        let dirty: Vec<usize> = disk.dirty_files().collect();
        let mut other = Other::None;
        if !chosen.is_empty() && (dirty.is_empty() || dice.one_in(2)) {
            let one = dice.index(chosen.len());
            chosen[one] = !is_kept;
            if is_kept {
                lose_tied(&disk.names, &mut chosen);
            } else {
                choose_tied(&disk.names, &mut chosen);
            }
        } else if !dirty.is_empty() {
            let tear = if dice.one_in(3) { most.opposite() } else { Tear::any(dice) };
            other = Other::One(dirty[dice.index(dirty.len())], tear);
            // What goes astray in a file may show only if the names are as they were.
            chosen.fill(if dice.one_in(4) { !is_kept } else { is_kept });
        }
        Self { disk, dice, chosen, most, other }
    }

    fn collect(&mut self, node: usize, path: &Path, state: &mut State) {
        match &self.disk.nodes[node] {
            Node::File { now, durable, pending } => {
                let how = match self.other {
                    Other::One(other, tear) if other == node => tear,
                    Other::Some if self.dice.one_in(3) => Tear::any(self.dice),
                    _ => self.most,
                };
                let bytes = how.leaves(durable, now, pending, self.dice);
                state.files.insert(path.to_path_buf(), bytes);
            }
            Node::Dir { durable, .. } => {
                state.dirs.insert(path.to_path_buf());
                let mut names = durable.clone();
                for (change, is_chosen) in self.disk.names.iter().zip(&self.chosen) {
                    if *is_chosen && change.dir == node {
                        change.apply(&mut names);
                    }
                }
                for (name, child) in names {
                    let path: PathBuf = path.join(name);
                    self.collect(child, &path, state);
                }
            }
        }
    }
}

/// What is tied to a change that has reached the disk, and came before it, has reached it too.
fn choose_tied(names: &[NameChange], chosen: &mut [bool]) {
    for later in (0..chosen.len()).rev() {
        if chosen[later] {
            for (earlier, is_chosen) in chosen.iter_mut().enumerate().take(later) {
                *is_chosen |= names[later].is_tied_to(&names[earlier]);
            }
        }
    }
}

/// What is tied to a change that is lost, and came after it, is lost too.
fn lose_tied(names: &[NameChange], chosen: &mut [bool]) {
    for earlier in 0..chosen.len() {
        if !chosen[earlier] {
            for (later, is_chosen) in chosen.iter_mut().enumerate().skip(earlier + 1) {
                *is_chosen &= !names[later].is_tied_to(&names[earlier]);
            }
        }
    }
}

/// What becomes of the bytes that were not synced.
#[derive(Clone, Copy, Debug)]
enum Tear {
    Lost,
    Kept,
    /// The first changes are there, and the next one up to some byte.
    Cut,
    /// All is there but one sector.
    Hole,
    /// Each sector is old, new or zeros; the file ends anywhere between its lengths.
    Sectors,
}

impl Tear {
    const fn any(dice: &mut Dice) -> Self {
        match dice.below(8) {
            0 => Self::Lost,
            1 => Self::Kept,
            2 | 3 => Self::Cut,
            4 | 5 => Self::Hole,
            _ => Self::Sectors,
        }
    }

    const fn opposite(self) -> Self {
        if matches!(self, Self::Lost) { Self::Kept } else { Self::Lost }
    }

    fn leaves(
        self,
        durable: &[u8],
        now: &[u8],
        pending: &[DataChange],
        dice: &mut Dice,
    ) -> Vec<u8> {
        match self {
            _ if pending.is_empty() => durable.to_vec(),
            Self::Lost => durable.to_vec(),
            Self::Kept => now.to_vec(),
            // The rest of the block behind a cut is zeroed before the new length is written down.
            _ if dice.one_in(3)
                && let Some(cut) = shortened(pending, durable.len()) =>
            {
                zeroed_behind(durable, cut)
            }
            Self::Cut => cut(durable, pending, dice),
            Self::Hole => hole(durable, now, pending, dice),
            Self::Sectors => sectors(durable, now, pending, dice),
        }
    }
}

/// The shortest length that the file was cut to, where that is inside of what was synced.
fn shortened(pending: &[DataChange], len: usize) -> Option<usize> {
    let cut = |change: &DataChange| match change {
        DataChange::SetLen(new) if *new < len => Some(*new),
        _ => None,
    };
    pending.iter().filter_map(cut).min()
}

/// The file has its old length, and zeros from the cut to the end of a block.
fn zeroed_behind(durable: &[u8], cut: usize) -> Vec<u8> {
    let mut bytes = durable.to_vec();
    let end = (cut + 1).next_multiple_of(BLOCK).min(bytes.len());
    bytes[cut..end].fill(0);
    bytes
}

fn cut(durable: &[u8], pending: &[DataChange], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = durable.to_vec();
    let whole = dice.index(pending.len());
    for change in &pending[..whole] {
        put(&mut bytes, change);
    }
    match &pending[whole] {
        DataChange::Write(at, new) => {
            let part = new[..dice.index(new.len() + 1)].to_vec();
            put(&mut bytes, &DataChange::Write(*at, part));
        }
        change => put(&mut bytes, change),
    }
    bytes
}

fn hole(durable: &[u8], now: &[u8], pending: &[DataChange], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = now.to_vec();
    let dirty: Vec<usize> = (0..bytes.len())
        .step_by(SECTOR)
        .filter(|start| is_dirty(pending, *start, (start + SECTOR).min(now.len()), durable))
        .collect();
    if !dirty.is_empty() {
        let start = dirty[dice.index(dirty.len())];
        let end = (start + SECTOR).min(bytes.len());
        copy_padded(durable, start, &mut bytes[start..end]);
    }
    bytes
}

fn sectors(durable: &[u8], now: &[u8], pending: &[DataChange], dice: &mut Dice) -> Vec<u8> {
    let (short, long) = (durable.len().min(now.len()), durable.len().max(now.len()));
    let len = match dice.below(3) {
        0 => now.len(),
        1 => long,
        _ => short + dice.index(long - short + 1),
    };
    let mut bytes = vec![0; len];
    for start in (0..len).step_by(SECTOR) {
        let end = (start + SECTOR).min(len);
        let target = &mut bytes[start..end];
        match if is_dirty(pending, start, end, durable) { dice.below(5) } else { 0 } {
            0 | 1 => copy_padded(durable, start, target),
            // Zeros are what a new block held before; one with synced bytes never becomes zeros.
            2 if start < durable.len() => copy_padded(durable, start, target),
            2 => {}
            _ => copy_padded(now, start, target),
        }
    }
    bytes
}

/// What lies from `start` on; zeros behind the end.
fn copy_padded(source: &[u8], start: usize, target: &mut [u8]) {
    for (at, byte) in target.iter_mut().enumerate() {
        *byte = source.get(start + at).copied().unwrap_or(0);
    }
}

fn is_dirty(pending: &[DataChange], start: usize, end: usize, durable: &[u8]) -> bool {
    pending.iter().any(|change| match change {
        DataChange::Write(at, bytes) => *at < end && at + bytes.len() > start,
        DataChange::SetLen(len) => end > *len || end > durable.len(),
        DataChange::Mapped(new) => new.get(start..end) != durable.get(start..end),
    })
}
