//! The record of system calls: what strace wrote, as changes of a disk.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// One change of the disk, or a word of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A file was opened; it is made where it is not there.
    Open {
        path: PathBuf,
        cut: bool,
    },
    Mkdir {
        path: PathBuf,
    },
    Write {
        path: PathBuf,
        at: usize,
        bytes: Vec<u8>,
    },
    SetLen {
        path: PathBuf,
        len: usize,
    },
    /// Of a file or a directory.
    Sync {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    /// Stores into mapped pages have made this of a file, at some time since the last mark.
    Mapped {
        path: PathBuf,
        bytes: Vec<u8>,
    },
    Mark(String),
}

/// The mark at the end of an operation.
pub(super) const DONE: &str = "done";

/// The calls that are asked for.
pub(super) const CALLS: &str = "trace=openat,write,pwrite64,pwritev,lseek,ftruncate,truncate,\
    fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir,close";

/// Reads the record. Paths outside `root` are left out; those inside become relative.
///
/// # Errors
///
/// When a line is not understood.
pub(super) fn read(text: &str, root: &Path, marks: &str) -> Result<Vec<Event>> {
    let mut reader = Reader { root, marks, unfinished: HashMap::new(), at: HashMap::new() };
    let mut events = Vec::new();
    for line in text.lines() {
        let event = reader.line(line).with_context(|| format!("cannot read: {line:.300}"))?;
        events.extend(event);
    }
    Ok(place_mapped(events))
}

struct Reader<'a> {
    root: &'a Path,
    marks: &'a str,
    /// Calls that another thread's came in between of.
    unfinished: HashMap<String, String>,
    /// Where the next `write` of a descriptor goes; none where it appends.
    at: HashMap<String, Option<usize>>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) -> Result<Option<Event>> {
        let (pid, rest) = line.split_once(' ').context("no process")?;
        let rest = rest.trim_start();
        if rest.starts_with("+++") || rest.starts_with("---") {
            return Ok(None);
        }
        if let Some(begun) = rest.strip_suffix("<unfinished ...>") {
            self.unfinished.insert(pid.to_owned(), begun.to_owned());
            return Ok(None);
        }
        let whole = match rest.strip_prefix("<... ") {
            Some(resumed) => {
                let (_, end) = resumed.split_once(" resumed>").context("no end of a call")?;
                let begun = self.unfinished.remove(pid).context("no begin of a call")?;
                format!("{begun}{end}")
            }
            None => rest.to_owned(),
        };
        self.call(&whole)
    }

    fn call(&mut self, call: &str) -> Result<Option<Event>> {
        let (head, result) = call.rsplit_once(" = ").context("no result")?;
        let (name, arguments) = head.split_once('(').context("no arguments")?;
        let arguments = arguments.trim_end().trim_end_matches(')').trim_end();
        let result = result.split([' ', '<']).next().unwrap_or_default();
        let Ok(result) = result.parse::<i64>() else { return Ok(None) };
        if result < 0 {
            return Ok(None);
        }
        let arguments: Vec<&str> = arguments.split(", ").collect();
        let argument = |n: usize| arguments.get(n).copied().context("an argument is missing");
        match name {
            "openat" => self.open(argument(1)?, argument(2)?, result),
            "write" => self.write(argument(0)?, argument(1)?, result),
            "pwrite64" => {
                let Some(path) = self.of_descriptor(argument(0)?)? else { return Ok(None) };
                let bytes = written(argument(1)?, result)?;
                Ok(Some(Event::Write { path, at: argument(3)?.parse()?, bytes }))
            }
            "lseek" => {
                self.at.insert(number(argument(0)?).to_owned(), usize::try_from(result).ok());
                Ok(None)
            }
            "ftruncate" => {
                let path = self.of_descriptor(argument(0)?)?;
                let len = argument(1)?.parse()?;
                Ok(path.map(|path| Event::SetLen { path, len }))
            }
            "fsync" | "fdatasync" => {
                Ok(self.of_descriptor(argument(0)?)?.map(|path| Event::Sync { path }))
            }
            "close" => {
                self.at.remove(number(argument(0)?));
                Ok(None)
            }
            "rename" => self.rename(argument(0)?, argument(1)?),
            "renameat" | "renameat2" => self.rename(argument(1)?, argument(3)?),
            "mkdir" => Ok(self.named(argument(0)?)?.map(|path| Event::Mkdir { path })),
            "mkdirat" => Ok(self.named(argument(1)?)?.map(|path| Event::Mkdir { path })),
            "unlink" | "rmdir" => Ok(self.named(argument(0)?)?.map(|path| Event::Unlink { path })),
            "unlinkat" => {
                let (dir, name) = (argument(0)?, unhex(argument(1)?.trim_matches('"'))?);
                let path = match Path::new(&name) {
                    path if path.is_absolute() => self.inside(path),
                    path => self.of_descriptor(dir)?.map(|dir| dir.join(path)),
                };
                Ok(path.map(|path| Event::Unlink { path }))
            }
            "pwritev" | "truncate" => anyhow::bail!("`{name}` is not expected"),
            _ => Ok(None),
        }
    }

    fn open(&mut self, path: &str, flags: &str, descriptor: i64) -> Result<Option<Event>> {
        let appends = flags.contains("O_APPEND");
        self.at.insert(descriptor.to_string(), (!appends).then_some(0));
        let Some(path) = self.named(path)? else { return Ok(None) };
        let (makes, cut) = (flags.contains("O_CREAT"), flags.contains("O_TRUNC"));
        Ok((makes || cut).then_some(Event::Open { path, cut }))
    }

    fn write(&mut self, file: &str, bytes: &str, result: i64) -> Result<Option<Event>> {
        let Some(path) = self.of_descriptor(file)? else { return Ok(None) };
        let bytes = written(bytes, result)?;
        if path == Path::new(self.marks) {
            let mut text = String::from_utf8(bytes)?;
            text.truncate(text.trim_end_matches('\n').len());
            let Some(rest) = text.strip_prefix("mapped ") else {
                return Ok(Some(Event::Mark(text)));
            };
            let (path, hex) = rest.split_once(' ').context("no bytes")?;
            let path = self.inside(Path::new(path)).context("not a path of the workload")?;
            return Ok(Some(Event::Mapped { path, bytes: from_digits(hex)? }));
        }
        let place = self.at.entry(number(file).to_owned()).or_insert(Some(0));
        let at = match place {
            Some(next) => {
                let at = *next;
                *next += bytes.len();
                at
            }
            None => usize::MAX,
        };
        Ok(Some(Event::Write { path, at, bytes }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<Option<Event>> {
        match (self.named(from)?, self.named(to)?) {
            (Some(from), Some(to)) => Ok(Some(Event::Rename { from, to })),
            _ => Ok(None),
        }
    }

    /// The path in an argument like `"\x2f\x74"`.
    fn named(&self, argument: &str) -> Result<Option<PathBuf>> {
        let path = unhex(argument.trim_matches('"'))?;
        Ok(self.inside(Path::new(&path)))
    }

    /// The path of a descriptor like `3<\x2f\x74>`; none where it is not in the workload's folder.
    fn of_descriptor(&self, argument: &str) -> Result<Option<PathBuf>> {
        let Some((_, path)) = argument.split_once('<') else { return Ok(None) };
        if path.contains("(deleted)") {
            return Ok(None);
        }
        let path = unhex(path.trim_end_matches('>'))?;
        Ok(self.inside(Path::new(&path)))
    }

    fn inside(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(self.root).ok().map(Path::to_path_buf)
    }
}

/// The number of a descriptor like `3<\x2f\x74>`.
fn number(argument: &str) -> &str {
    argument.split('<').next().unwrap_or(argument)
}

/// The bytes that a call wrote of those it was given.
fn written(argument: &str, result: i64) -> Result<Vec<u8>> {
    let digits = argument.trim_matches('"').replace("\\x", "");
    let mut bytes = from_digits(&digits)?;
    bytes.truncate(usize::try_from(result)?);
    Ok(bytes)
}

fn unhex(text: &str) -> Result<String> {
    if !text.contains("\\x") {
        return Ok(text.to_owned());
    }
    Ok(String::from_utf8(from_digits(&text.replace("\\x", ""))?)?)
}

fn from_digits(digits: &str) -> Result<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?)).collect()
}

/// Puts what was stored into mapped pages before the first sync of its file since the operation
/// began: that sync made it durable.
fn place_mapped(events: Vec<Event>) -> Vec<Event> {
    let mut placed: Vec<Event> = Vec::with_capacity(events.len());
    let mut since = 0;
    for event in events {
        match event {
            Event::Mapped { ref path, .. } => {
                let earlier = names_before(&placed[since..], path);
                let sync = placed[since..].iter().enumerate().position(
                    |(at, other)| matches!(other, Event::Sync { path } if *path == earlier[at]),
                );
                let at = sync.map_or(placed.len(), |sync| since + sync);
                placed.insert(at, event);
            }
            Event::Mark(ref text) if text == DONE => since = placed.len(),
            other => placed.push(other),
        }
    }
    placed
}

/// What the file that is called `path` in the end was called at each of these events.
fn names_before(events: &[Event], path: &Path) -> Vec<PathBuf> {
    let mut name = path.to_path_buf();
    let mut names = vec![PathBuf::new(); events.len()];
    for (at, event) in events.iter().enumerate().rev() {
        if let Event::Rename { from, to } = event
            && let Ok(below) = name.strip_prefix(to)
        {
            name = if below.as_os_str().is_empty() { from.clone() } else { from.join(below) };
        }
        names[at].clone_from(&name);
    }
    names
}
