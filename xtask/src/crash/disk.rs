//! The model of a disk: what is durable, and what is not yet.
//!
//! ARCHITECTURE.md, "Crash model", says the same in words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result};

use super::trace::Event;

/// A disk while its events happen.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) nodes: Vec<Node>,
    /// Changes of names that no sync of their directory has followed.
    pub(super) names: Vec<NameChange>,
    /// The file whose bytes have changed last.
    pub(super) last_changed: Option<usize>,
}

#[derive(Debug)]
pub(super) enum Node {
    Dir { now: BTreeMap<String, usize>, durable: BTreeMap<String, usize> },
    File { now: Vec<u8>, durable: Vec<u8>, pending: Vec<DataChange> },
}

#[derive(Clone, Debug)]
pub(super) enum DataChange {
    Write(usize, Vec<u8>),
    SetLen(usize),
    Mapped(Vec<u8>),
}

/// In `dir`, the name `gone` disappears and `node` appears as `new`: both for a rename.
#[derive(Clone, Debug)]
pub(super) struct NameChange {
    pub(super) dir: usize,
    gone: Option<String>,
    new: Option<String>,
    node: usize,
}

impl NameChange {
    /// Whether the order of the two is certain: they are about the same name or the same file.
    pub(super) fn is_tied_to(&self, earlier: &Self) -> bool {
        let names = |change: &Self| [change.gone.clone(), change.new.clone()];
        let same_name = names(self)
            .into_iter()
            .flatten()
            .any(|name| self.dir == earlier.dir && names(earlier).contains(&Some(name)));
        same_name || self.node == earlier.node
    }

    pub(super) fn apply(&self, dir: &mut BTreeMap<String, usize>) {
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
        Self { nodes: vec![root], names: Vec::new(), last_changed: None }
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
        self.last_changed = Some(node);
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

pub(super) fn put(bytes: &mut Vec<u8>, change: &DataChange) {
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
