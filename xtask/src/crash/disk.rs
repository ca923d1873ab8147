//! The model of a disk: what is durable, what is not yet, and what a power cut may leave of it.
//!
//! ARCHITECTURE.md, "Crash model", says the same in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::trace::Event;
use crate::proof::Dice;

/// The unit that is old or new as a whole.
const SECTOR: usize = 512;

/// The unit that a file system allots, and clears behind the end of a file.
const BLOCK: usize = 4096;

/// A disk while its events happen.
#[derive(Debug)]
pub(super) struct Disk {
    nodes: Vec<Node>,
    /// Changes of names that no sync of their directory has followed.
    names: Vec<NameChange>,
}

#[derive(Debug)]
enum Node {
    Dir { now: BTreeMap<String, usize>, durable: BTreeMap<String, usize> },
    File { now: Vec<u8>, durable: Vec<u8>, pending: Vec<DataChange> },
}

#[derive(Clone, Debug)]
enum DataChange {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Mapped(Vec<u8>),
}

/// In `dir`, the name `gone` disappears and `node` appears as `new`: both for a rename.
#[derive(Clone, Debug)]
struct NameChange {
    dir: usize,
    gone: Option<String>,
    new: Option<String>,
    node: usize,
}

impl NameChange {
    /// Whether the order of the two is certain: they are about the same name or the same file.
    fn is_tied_to(&self, earlier: &Self) -> bool {
        let names = |change: &Self| [change.gone.clone(), change.new.clone()];
        let same_name = names(self)
            .into_iter()
            .flatten()
            .any(|name| self.dir == earlier.dir && names(earlier).contains(&Some(name)));
        same_name || self.node == earlier.node
    }

    fn apply(&self, dir: &mut BTreeMap<String, usize>) {
        if let Some(gone) = &self.gone {
            dir.remove(gone);
        }
        if let Some(new) = &self.new {
            dir.insert(new.clone(), self.node);
        }
    }
}

impl Disk {
    pub(super) fn new() -> Self {
        let root = Node::Dir { now: BTreeMap::new(), durable: BTreeMap::new() };
        Self { nodes: vec![root], names: Vec::new() }
    }

    /// One that holds this, all of it durable.
    pub(super) fn holding(state: &State) -> Self {
        let mut disk = Self::new();
        for path in state.dirs.iter().filter(|path| !path.as_os_str().is_empty()) {
            let dir = Node::Dir { now: BTreeMap::new(), durable: BTreeMap::new() };
            disk.put_in_place(path, dir);
        }
        for (path, bytes) in &state.files {
            let (now, durable) = (bytes.clone(), bytes.clone());
            disk.put_in_place(path, Node::File { now, durable, pending: Vec::new() });
        }
        disk
    }

    fn put_in_place(&mut self, path: &Path, new: Node) {
        let Ok((dir, name)) = self.parent(path) else { return };
        self.nodes.push(new);
        let node = self.nodes.len() - 1;
        if let Node::Dir { now, durable } = &mut self.nodes[dir] {
            now.insert(name.clone(), node);
            durable.insert(name, node);
        }
    }

    /// Makes a change, which is durable only after a sync.
    ///
    /// # Errors
    ///
    /// When it does not fit what is there: then the record is not complete.
    pub(super) fn apply(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Mark(_) => {}
            Event::Mkdir { path } => {
                let dir = Node::Dir { now: BTreeMap::new(), durable: BTreeMap::new() };
                self.make(path, dir)?;
            }
            Event::Open { path, cut } => {
                if self.find(path).is_none() {
                    let (now, durable) = (Vec::new(), Vec::new());
                    self.make(path, Node::File { now, durable, pending: Vec::new() })?;
                } else if *cut {
                    self.change(path, DataChange::SetLen(0))?;
                }
            }
            Event::Write { path, at, bytes } => {
                self.change(path, DataChange::Write(*at, bytes.clone()))?;
            }
            Event::SetLen { path, len } => self.change(path, DataChange::SetLen(*len))?,
            Event::Mapped { path, bytes } => {
                // A file may be gone by the time it is shown.
                if self.find(path).is_some() {
                    self.change(path, DataChange::Mapped(bytes.clone()))?;
                }
            }
            Event::Sync { path } => self.sync(path),
            Event::Rename { from, to } => self.rename(from, to)?,
            Event::Unlink { path } => self.unlink(path)?,
        }
        Ok(())
    }

    fn find(&self, path: &Path) -> Option<usize> {
        let mut node = 0;
        for part in path.components() {
            let Component::Normal(name) = part else { return None };
            match &self.nodes[node] {
                Node::Dir { now, .. } => node = *now.get(name.to_str()?)?,
                Node::File { .. } => return None,
            }
        }
        Some(node)
    }

    fn parent(&self, path: &Path) -> Result<(usize, String)> {
        let dir = path.parent().and_then(|dir| self.find(dir));
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((dir.with_context(|| format!("no directory for {}", path.display()))?, name))
    }

    fn make(&mut self, path: &Path, new: Node) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.nodes.push(new);
        let node = self.nodes.len() - 1;
        self.note(NameChange { dir, gone: None, new: Some(name), node });
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<()> {
        let node = self.find(from).with_context(|| format!("{} is not there", from.display()))?;
        let ((dir, gone), (to_dir, new)) = (self.parent(from)?, self.parent(to)?);
        anyhow::ensure!(dir == to_dir, "a rename into another directory is not expected");
        self.note(NameChange { dir, gone: Some(gone), new: Some(new), node });
        Ok(())
    }

    fn unlink(&mut self, path: &Path) -> Result<()> {
        let node = self.find(path).with_context(|| format!("{} is not there", path.display()))?;
        let (dir, gone) = self.parent(path)?;
        self.note(NameChange { dir, gone: Some(gone), new: None, node });
        Ok(())
    }

    fn note(&mut self, change: NameChange) {
        if let Node::Dir { now, .. } = &mut self.nodes[change.dir] {
            change.apply(now);
        }
        self.names.push(change);
    }

    fn change(&mut self, path: &Path, change: DataChange) -> Result<()> {
        let node = self.find(path).with_context(|| format!("{} is not there", path.display()))?;
        let Node::File { now, pending, .. } = &mut self.nodes[node] else {
            anyhow::bail!("{} is a directory", path.display());
        };
        let change = match change {
            DataChange::Write(usize::MAX, bytes) => DataChange::Write(now.len(), bytes),
            // What is behind the end by now was cut off later.
            DataChange::Mapped(mut bytes) => {
                bytes.resize(now.len(), 0);
                DataChange::Mapped(bytes)
            }
            other => other,
        };
        put(now, &change);
        pending.push(change);
        Ok(())
    }

    fn sync(&mut self, path: &Path) {
        // One that was opened under a name that it has no more is found by no path: not synced.
        let Some(node) = self.find(path) else { return };
        match &mut self.nodes[node] {
            Node::File { now, durable, pending } => {
                durable.clone_from(now);
                pending.clear();
            }
            Node::Dir { durable, .. } => {
                self.names.retain(|change| {
                    if change.dir == node {
                        change.apply(durable);
                    }
                    change.dir != node
                });
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, change: &DataChange) {
    match change {
        DataChange::SetLen(len) => bytes.resize(*len, 0),
        DataChange::Mapped(new) => bytes.clone_from(new),
        DataChange::Write(at, new) => {
            let end = at + new.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*at..end].copy_from_slice(new);
        }
    }
}

/// What a power cut leaves: folders and files by their path.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
}

impl State {
    /// Puts it into a folder of the real disk.
    pub(super) fn write(&self, root: &Path) -> Result<()> {
        for dir in &self.dirs {
            let dir = root.join(dir);
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        for (path, bytes) in &self.files {
            let path = root.join(path);
            fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

impl Disk {
    /// One of the states that a power cut at this moment may leave.
    pub(super) fn after_power_cut(&self, dice: &mut Dice) -> State {
        let chosen = self.choose_names(dice);
        let mut cut = PowerCut { chosen, how: Tear::any(dice), dice, state: State::default() };
        self.collect(0, Path::new(""), &mut cut);
        cut.state
    }

    /// Which changes of names have reached the disk: any, as long as one that is tied to another
    /// does not come before it.
    fn choose_names(&self, dice: &mut Dice) -> Vec<bool> {
        let count = self.names.len();
        let mut chosen = match dice.below(4) {
            0 => vec![false; count],
            1 => vec![true; count],
            2 => {
                let cut = dice.index(count + 1);
                (0..count).map(|at| at < cut).collect()
            }
            _ => (0..count).map(|_| dice.one_in(2)).collect(),
        };
        for later in (0..count).rev() {
            if chosen[later] {
                for (earlier, is_chosen) in chosen.iter_mut().enumerate().take(later) {
                    *is_chosen |= self.names[later].is_tied_to(&self.names[earlier]);
                }
            }
        }
        chosen
    }

    fn collect(&self, node: usize, path: &Path, cut: &mut PowerCut<'_>) {
        match &self.nodes[node] {
            Node::File { now, durable, pending } => {
                let how = if cut.dice.one_in(3) { Tear::any(cut.dice) } else { cut.how };
                let bytes = how.leaves(durable, now, pending, cut.dice);
                cut.state.files.insert(path.to_path_buf(), bytes);
            }
            Node::Dir { durable, .. } => {
                cut.state.dirs.insert(path.to_path_buf());
                let mut names = durable.clone();
                for (change, is_chosen) in self.names.iter().zip(&cut.chosen) {
                    if *is_chosen && change.dir == node {
                        change.apply(&mut names);
                    }
                }
                for (name, child) in names {
                    self.collect(child, &path.join(name), cut);
                }
            }
        }
    }
}

/// A power cut on its way through the tree.
struct PowerCut<'d> {
    /// Which changes of names have reached the disk.
    chosen: Vec<bool>,
    /// What becomes of most files.
    how: Tear,
    dice: &'d mut Dice,
    state: State,
}

/// What becomes of the bytes that were not synced.
#[derive(Clone, Copy, Debug)]
enum Tear {
    Lost,
    Kept,
    /// The first changes are there, and the next one up to some byte.
    Cut,
    /// Each sector is old, new or zeros; the file ends anywhere between its lengths.
    Sectors,
}

impl Tear {
    const fn any(dice: &mut Dice) -> Self {
        match dice.below(6) {
            0 => Self::Lost,
            1 => Self::Kept,
            2 | 3 => Self::Cut,
            _ => Self::Sectors,
        }
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
            Self::Cut => cut(durable, pending, dice),
            // The rest of the block behind a cut is zeroed before the new length is written down.
            Self::Sectors
                if dice.one_in(3)
                    && let Some(cut) = shortened(pending, durable.len()) =>
            {
                zeroed_behind(durable, cut)
            }
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
        let from = |source: &[u8], target: &mut [u8]| {
            for (at, byte) in (start..end).zip(target) {
                *byte = source.get(at).copied().unwrap_or(0);
            }
        };
        let target = &mut bytes[start..end];
        let is_dirty = pending.iter().any(|change| touches(change, start, end, durable));
        match if is_dirty { dice.below(5) } else { 0 } {
            0 | 1 => from(durable, target),
            // Zeros are what a new block held before; one with synced bytes never becomes zeros.
            2 if start < durable.len() => from(durable, target),
            2 => {}
            _ => from(now, target),
        }
    }
    bytes
}

fn touches(change: &DataChange, start: usize, end: usize, durable: &[u8]) -> bool {
    match change {
        DataChange::Write(at, bytes) => *at < end && at + bytes.len() > start,
        DataChange::SetLen(len) => end > *len || end > durable.len(),
        DataChange::Mapped(new) => new.get(start..end) != durable.get(start..end),
    }
}
