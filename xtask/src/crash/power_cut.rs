//! What a power cut may leave of a disk: one of many states, drawn.
//!
//! A third of the draws lets chance decide of everything. The others are about one thing that goes
//! astray while all the rest arrives, or that arrives alone: one change of a name, or the bytes of
//! one file. Most faults need no more than that, and chance alone seldom comes to it.

use std::path::{Path, PathBuf};

use super::disk::{DataChange, Disk, NameChange, Node, State, put};
use super::moments::is_log;
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

    /// A file with bytes that no sync has followed: that which has changed last, a log, or any.
    fn some_dirty_file(&self, dice: &mut Dice) -> Option<usize> {
        let last = self.last_changed.filter(|last| self.nodes[*last].is_dirty());
        if last.is_some() && dice.one_in(3) {
            return last;
        }
        let (mut dirty, mut logs) = (Vec::new(), Vec::new());
        let mut dirs = vec![0];
        while let Some(Node::Dir { now, .. }) = dirs.pop().map(|dir| &self.nodes[dir]) {
            for (name, node) in now {
                match &self.nodes[*node] {
                    Node::Dir { .. } => dirs.push(*node),
                    file if file.is_dirty() && is_log(Path::new(name)) => logs.push(*node),
                    file if file.is_dirty() => dirty.push(*node),
                    Node::File { .. } => {}
                }
            }
        }
        if logs.is_empty() || (!dirty.is_empty() && dice.one_in(2)) {
            logs = dirty;
        }
        (!logs.is_empty()).then(|| logs[dice.index(logs.len())])
    }
}

impl Node {
    const fn is_dirty(&self) -> bool {
        matches!(self, Self::File { pending, .. } if !pending.is_empty())
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
        let file = disk.some_dirty_file(dice);
        let mut other = Other::None;
        match file {
            Some(file) if chosen.is_empty() || dice.one_in(2) => {
                let tear = if dice.one_in(3) { most.opposite() } else { Tear::any(dice) };
                other = Other::One(file, tear);
                // It may show only if the names fare otherwise than the bytes.
                chosen.fill(if dice.one_in(4) { !is_kept } else { is_kept });
            }
            _ if chosen.is_empty() => {}
            _ => {
                let one = dice.index(chosen.len());
                chosen[one] = !is_kept;
                if is_kept {
                    lose_tied(&disk.names, &mut chosen);
                } else {
                    choose_tied(&disk.names, &mut chosen);
                }
            }
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::trace::Event;
    use super::*;

    /// A log with a durable sector, and two sectors and a folder that are not.
    fn disk() -> Disk {
        let mut disk = Disk::new();
        let (dir, log) = (PathBuf::from("a"), PathBuf::from("a/0.log"));
        let write = |at| Event::Write { path: log.clone(), at, bytes: vec![1; SECTOR] };
        for event in [
            Event::Mkdir { path: dir.clone() },
            Event::Open { path: log.clone(), cut: false },
            write(0),
            Event::Sync { path: log.clone() },
            Event::Sync { path: dir },
            Event::Sync { path: PathBuf::new() },
            write(SECTOR),
            write(2 * SECTOR),
            Event::Mkdir { path: "b".into() },
        ] {
            disk.apply(&event).unwrap();
        }
        disk
    }

    #[test]
    fn no_power_cut_takes_what_was_synced() {
        let (disk, mut dice) = (disk(), Dice::new(1));
        for _ in 0..500 {
            let state = disk.after_power_cut(&mut dice);
            let log = &state.files[Path::new("a/0.log")];
            assert_eq!(log[..SECTOR], [1; SECTOR]);
        }
    }

    #[test]
    fn each_single_thing_goes_astray_before_long() {
        let (disk, mut dice) = (disk(), Dice::new(1));
        let states: Vec<_> = (0..100).map(|_| disk.after_power_cut(&mut dice)).collect();
        let seen = |has_folder: bool, log: &[u8]| {
            let is_so = |state: &State| {
                state.dirs.contains(Path::new("b")) == has_folder
                    && state.files[Path::new("a/0.log")] == log
            };
            states.iter().any(is_so)
        };
        let (old, new) = (vec![1; SECTOR], vec![1; 3 * SECTOR]);
        let mut hole = new.clone();
        hole[SECTOR..2 * SECTOR].fill(0);
        assert!(seen(false, &new), "the folder alone is lost");
        assert!(seen(true, &old), "the folder alone is kept");
        assert!(seen(true, &hole), "one sector alone is lost");
    }
}
