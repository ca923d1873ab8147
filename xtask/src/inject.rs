//! `inject`: every system call of a workload fails once, and nothing that was acknowledged is lost.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::crash::{History, MARKS, judge_disk, memory};
use crate::proof::Dice;
use crate::{flags, workspace};

/// The calls that fail, and how.
const CALLS: [&str; 7] =
    ["pwrite64", "fdatasync", "fsync", "ftruncate", "fallocate", "rename", "openat"];
const ERRORS: [&str; 3] = ["ENOSPC", "EIO", "EINTR"];

/// What the workload says where it has begun: failures before are the system's.
pub(crate) const BEGUN: &str = "begun";

/// What it says where a call failed and it has dealt with that.
pub(crate) const REFUSED: &str = "refused: ";

/// Fails call after call, in an order that follows from the seed.
///
/// # Errors
///
/// When the process panics or dies of a signal, or a start afterwards misses something.
pub(crate) fn run(flags: &flags::Inject) -> Result<()> {
    if let Some(reason) = crate::crash::missing() {
        bail!("{reason}");
    }
    let seed = flags.seed.unwrap_or(1);
    let disk = memory().join(format!("alluvium-inject-{}", std::process::id()));
    let mut faults = faults(seed, &disk)?;
    let count = faults.len();
    shuffle(&mut faults, &mut Dice::new(seed));
    // The few that are not calls come first: a budget leaves none of them out.
    faults.sort_by_key(|fault| matches!(fault, Fault::Call { .. }));
    let start = Instant::now();
    let budget = flags.budget.map(Duration::from_secs);
    let mut total = Total::default();
    for fault in &faults {
        if budget.is_some_and(|budget| start.elapsed() >= budget) {
            break;
        }
        one(fault, seed, &disk, &mut total)
            .with_context(|| format!("{fault:?} of seed {seed}; the disk is {}", disk.display()))?;
    }
    println!(
        "inject: {} of {count} faults: {} were refused with an error, {} did no harm, {} came before \
         the logs were started; every start found what was acknowledged, in {:.1} s; seed {seed}",
        total.runs,
        total.refused,
        total.harmless,
        total.early,
        start.elapsed().as_secs_f64()
    );
    fs::remove_dir_all(&disk).with_context(|| format!("cannot remove {}", disk.display()))
}

#[derive(Debug, Default)]
struct Total {
    runs: usize,
    refused: usize,
    harmless: usize,
    early: usize,
}

/// One thing that fails.
#[derive(Clone, Debug)]
enum Fault {
    /// The call of this number, of one thread.
    Call { name: &'static str, error: &'static str, number: usize },
    /// The mapping of this file.
    Map { file: PathBuf, number: usize },
    /// No file grows beyond so many blocks of 512 bytes: writes come up short.
    Limit { blocks: usize },
    /// The disk has so many pages of 4 KiB and no more.
    Full { pages: usize },
}

fn faults(seed: u64, disk: &Path) -> Result<Vec<Fault>> {
    let record = disk.with_extension("record");
    prepare(disk)?;
    let mut strace = workspace::command("strace");
    strace.args(["-f", "-qq", "-e", &format!("trace={}", CALLS.join(",")), "-o"]).arg(&record);
    workspace::run(workload(&mut strace, seed, disk)?.stdout(Stdio::null()))?;
    let text = fs::read_to_string(&record).context("cannot read the record")?;
    fs::remove_file(&record).context("cannot remove the record")?;
    let mut faults = Vec::new();
    for name in CALLS {
        let begin = format!(" {name}(");
        let count = text.lines().filter(|line| line.contains(&begin)).count();
        for error in ERRORS {
            faults.extend((1..=count).map(|number| Fault::Call { name, error, number }));
        }
    }
    for name in ["index", "timeindex"] {
        let file = disk.join("a/plain-0").join(format!("{:020}.{name}", 0));
        faults.extend((1..=3).map(|number| Fault::Map { file: file.clone(), number }));
    }
    faults.extend((0..8).map(|blocks| Fault::Limit { blocks }));
    if can_mount(disk) {
        faults.extend((4..=100).step_by(4).map(|pages| Fault::Full { pages }));
    } else {
        println!("  no file system can be mounted here: no full disk");
    }
    Ok(faults)
}

fn shuffle(faults: &mut [Fault], dice: &mut Dice) {
    for last in (1..faults.len()).rev() {
        faults.swap(last, dice.index(last + 1));
    }
}

fn prepare(disk: &Path) -> Result<()> {
    workspace::empty_dir(disk)?;
    for part in ["a", "b"] {
        fs::create_dir_all(disk.join(part)).context("cannot make a log directory")?;
    }
    Ok(())
}

fn workload<'c>(command: &'c mut Command, seed: u64, disk: &Path) -> Result<&'c mut Command> {
    let program = env::current_exe().context("cannot find this program")?;
    command.arg(program).args(["crash", "--seed", &seed.to_string(), "--goes-on", "--workload"]);
    Ok(command.arg(disk))
}

fn one(fault: &Fault, seed: u64, disk: &Path, total: &mut Total) -> Result<()> {
    prepare(disk)?;
    let mut command = match fault {
        Fault::Call { name, error, number } => {
            let mut strace = quiet_strace();
            strace.args(["-e", &format!("trace={name}")]);
            strace.args(["-e", &format!("inject={name}:error={error}:when={number}")]);
            strace
        }
        Fault::Map { file, number } => {
            let mut strace = quiet_strace();
            strace.args(["-e", "trace=mmap", "-P"]).arg(file);
            strace.args(["-e", &format!("inject=mmap:error=ENOMEM:when={number}")]);
            strace
        }
        Fault::Limit { blocks } => {
            let mut shell = workspace::command("sh");
            // An ignored signal stays ignored in what the shell becomes.
            shell.args(["-c", &format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
            shell
        }
        Fault::Full { .. } => workspace::command("env"),
    };
    let full = match fault {
        Fault::Full { pages } => Some(Mounted::new(disk, *pages)?),
        _ => None,
    };
    let out = workload(&mut command, seed, disk)?.output().context("cannot start the workload")?;
    let (said, complained) =
        (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    total.runs += 1;
    if !said.contains(BEGUN) {
        total.early += 1;
    } else if said.contains(REFUSED) {
        total.refused += 1;
    } else {
        total.harmless += 1;
    }
    let is_over = out.status.success() || (!said.contains(BEGUN) && out.status.code().is_some());
    let is_sound = is_over && !complained.contains("panicked");
    ensure!(is_sound, "{}: {said}{complained}", out.status);
    // A start needs some room.
    full.as_ref().map_or(Ok(()), Mounted::extend)?;
    let Ok(marks) = fs::read_to_string(disk.join(MARKS)) else { return Ok(()) };
    let mut history = History::default();
    // On a full disk the last word may be cut off.
    for mark in marks.split_inclusive('\n').filter_map(|mark| mark.strip_suffix('\n')) {
        history.take(mark).with_context(|| mark.to_owned())?;
    }
    // No power was cut: what was acknowledged is in the page cache.
    history.keep_all();
    judge_disk(disk, &history).with_context(|| said.into_owned())
}

/// `strace` that says nothing, and stops the process at the calls that it is told of alone: without
/// the filter it stops at every call, and a run takes four times as long.
fn quiet_strace() -> Command {
    let mut strace = workspace::command("strace");
    strace.args(["-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"]);
    strace
}

/// A small file system in memory, at the place of the disk while it lives.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(disk: &'a Path, pages: usize) -> Result<Self> {
        let size = format!("size={}k", pages * 4);
        let mut mount = workspace::command("mount");
        workspace::run(mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(disk))?;
        let mounted = Self(disk);
        for part in ["a", "b"] {
            fs::create_dir(disk.join(part)).context("cannot make a log directory")?;
        }
        Ok(mounted)
    }

    fn extend(&self) -> Result<()> {
        let mut mount = workspace::command("mount");
        workspace::run(mount.args(["-o", "remount,size=64m"]).arg(self.0))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        // A failure shows when the folder is made empty for the next one.
        drop(workspace::run(workspace::command("umount").arg(self.0)));
    }
}

fn can_mount(disk: &Path) -> bool {
    workspace::has("mount") && Mounted::new(disk, 16).is_ok()
}
