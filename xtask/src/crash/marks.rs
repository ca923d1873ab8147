//! What a recorded process says beside its system calls.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::trace::DONE;
use crate::workspace;

/// The file that says what the process is about to do, and what it has acknowledged.
pub(crate) const MARKS: &str = "marks";

/// The words of a process about the logs below a folder.
#[derive(Debug)]
pub(super) struct Marks {
    file: File,
    root: PathBuf,
    /// The bytes of each index file that were shown last.
    shown: BTreeMap<PathBuf, Vec<u8>>,
}

impl Marks {
    pub(super) fn new(root: &Path) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(root.join(MARKS));
        let file = file.context("cannot open the file of marks")?;
        Ok(Self { file, root: root.to_path_buf(), shown: BTreeMap::new() })
    }

    /// One call a mark: the record of system calls shows it whole.
    pub(super) fn say(&mut self, text: &str) -> Result<()> {
        let line = format!("{text}\n");
        self.file.write_all(line.as_bytes()).context("cannot write a mark")
    }

    /// Shows what stores into mapped pages have made of the index files: no system call does.
    pub(super) fn show_indexes(&mut self) -> Result<()> {
        for dir in ["a", "b"].map(|dir| self.root.join(dir)) {
            if !dir.is_dir() {
                continue;
            }
            for partition in workspace::entries(&dir)? {
                if partition.is_dir() {
                    self.show_indexes_of(&partition)?;
                }
            }
        }
        self.say(DONE)
    }

    fn show_indexes_of(&mut self, partition: &Path) -> Result<()> {
        for path in workspace::entries(partition)? {
            let name = workspace::name(&path);
            if !name.contains(".index") && !name.contains(".timeindex") {
                continue;
            }
            let bytes = fs::read(&path).context("cannot read an index")?;
            if self.shown.get(&path) != Some(&bytes) {
                let mut hex = String::new();
                for byte in &bytes {
                    write!(hex, "{byte:02x}")?;
                }
                self.say(&format!("mapped {} {hex}", path.display()))?;
                self.shown.insert(path, bytes);
            }
        }
        Ok(())
    }
}
