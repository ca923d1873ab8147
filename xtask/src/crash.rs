//! `crash`: disk states that a power cut may leave, from a record of real system calls.

mod agreed;
mod clients;
mod disk;
mod explained;
mod history;
mod judge;
mod marks;
mod moments;
mod mutants;
mod nested;
mod power_cut;
mod producers;
mod third;
mod trace;
mod workload;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use self::disk::{Disk, State};
pub(crate) use self::history::History;
pub(crate) use self::judge::check_disk as judge_disk;
pub(crate) use self::marks::MARKS;
use self::moments::Moments;
use self::third::Third;
use self::trace::Event;

use crate::proof::Dice;
use crate::{flags, workspace};

/// States that are drawn each time that a record is gone through.
const ROUND: u64 = 64;

/// Longer than any record takes.
const FOREVER: Duration = Duration::from_hours(24);

/// Of so many states, the recovery of one is cut off too.
const NESTED: u64 = 100;

/// Why the record cannot be made here, if it cannot.
pub(crate) fn missing() -> Option<String> {
    (!workspace::has("strace")).then(|| "needs strace".to_owned())
}

/// Records a workload and explores what power cuts may leave; or is that workload.
///
/// # Errors
///
/// When a state is not recovered as it must be: it is kept in a folder that the text names.
pub(crate) fn run(flags: &flags::Crash) -> Result<()> {
    let seed = flags.seed.unwrap_or(1);
    if let Some(dir) = &flags.workload {
        let run = if flags.goes_on { workload::run_on } else { workload::run };
        return run(dir, seed);
    }
    if let Some(dir) = &flags.recover {
        return nested::recover(dir);
    }
    if let Some(reason) = missing() {
        bail!("{reason}");
    }
    let budget = Duration::from_secs(flags.budget.unwrap_or(60));
    if flags.mutants {
        return mutants::explore(seed);
    }
    let mut third = flags.kafka.map(Third::start).transpose()?;
    let start = Instant::now();
    let (mut total, mut record) = (Total::default(), 0);
    while start.elapsed() < budget || third.as_ref().is_some_and(|third| !third.is_done()) {
        // One record after the other, a quarter of the time for each.
        let events = recorded(seed + record)?;
        record += 1;
        total.events += events.len();
        let end = Instant::now() + (budget / 4).max(Duration::from_secs(5));
        let mut explorer = Explorer::new(&events, seed + record)?;
        explorer.is_nested = true;
        explorer.third = third.take();
        let outcome = explorer.until(end);
        total.states += explorer.states;
        total.nested += explorer.nested;
        third = explorer.third.take();
        if let Some(failure) = outcome? {
            return Err(explorer.keep(failure));
        }
    }
    println!(
        "crash: {} states of {} changes in {record} records are all recovered, and {} after a second \
         power cut during the recovery, in {:.1} s; seed {seed}",
        total.states,
        total.events,
        total.nested,
        start.elapsed().as_secs_f64()
    );
    third.map_or(Ok(()), Third::finish)
}

#[derive(Debug, Default)]
struct Total {
    events: usize,
    states: u64,
    nested: u64,
}

/// Runs the workload under strace and reads the record.
fn recorded(seed: u64) -> Result<Vec<Event>> {
    let program = env::current_exe().context("cannot find this program")?;
    recorded_by(&program, seed, None)
}

/// As [`recorded`], by another build, which is told how it is to be wrong.
fn recorded_by(program: &Path, seed: u64, mutant: Option<&str>) -> Result<Vec<Event>> {
    let dir = memory().join(format!("alluvium-crash-{}", std::process::id()));
    workspace::empty_dir(&dir)?;
    let (root, record) = (dir.join("disk"), dir.join("record"));
    for part in ["a", "b"] {
        fs::create_dir_all(root.join(part)).context("cannot make a log directory")?;
    }
    let mut strace = strace(&record);
    strace.arg(program).args(["crash", "--seed", &seed.to_string(), "--workload"]).arg(&root);
    if let Some(mutant) = mutant {
        strace.env("ALLUVIUM_MUTANT", mutant);
    }
    workspace::run(&mut strace)?;
    let text = fs::read_to_string(&record).context("cannot read the record")?;
    let mut events: Vec<_> =
        ["a", "b"].map(|part| Event::Mkdir { path: part.into() }).into_iter().collect();
    events.push(Event::Sync { path: PathBuf::new() });
    events.extend(trace::read(&text, &root, MARKS)?);
    fs::remove_dir_all(&dir).context("cannot remove the record")?;
    Ok(events)
}

/// `strace`, so that it records what changes files, with the bytes.
fn strace(record: &Path) -> Command {
    let mut strace = workspace::command("strace");
    strace.args(["-f", "-y", "-xx", "-s", "1000000", "-e", trace::CALLS, "-o"]).arg(record);
    strace
}

/// A folder in memory where there is one: the disk is a model, and its syncs cost nothing there.
pub(crate) fn memory() -> PathBuf {
    let shared = PathBuf::from("/dev/shm");
    if shared.is_dir() { shared } else { env::temp_dir() }
}

/// A state that was not recovered as it must be.
struct Failure {
    at: usize,
    state: State,
    history: History,
    error: anyhow::Error,
}

/// Draws states of one record.
struct Explorer<'a> {
    events: &'a [Event],
    dice: Dice,
    seed: u64,
    scratch: PathBuf,
    states: u64,
    /// States that a second power cut left.
    nested: u64,
    /// Whether the recovery of some states is cut off too.
    is_nested: bool,
    third: Option<Third>,
    moments: Moments,
}

impl<'a> Explorer<'a> {
    fn new(events: &'a [Event], seed: u64) -> Result<Self> {
        let scratch = memory().join(format!("alluvium-state-{}", std::process::id()));
        workspace::empty_dir(&scratch)?;
        let dice = Dice::new(seed);
        let (states, nested, is_nested, third) = (0, 0, false, None);
        let moments = Moments::of(events);
        Ok(Self { events, dice, seed, scratch, states, nested, is_nested, third, moments })
    }

    /// Goes through the record again and again, and stops at a failure or at the end of the time.
    fn until(&mut self, end: Instant) -> Result<Option<Failure>> {
        while Instant::now() < end {
            if let Some(failure) = self.round(end)? {
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }

    /// As [`until`](Self::until), to so many states or a round more.
    fn so_many(&mut self, states: u64) -> Result<Option<Failure>> {
        let end = Instant::now() + FOREVER;
        while self.states < states {
            if let Some(failure) = self.round(end)? {
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }

    fn round(&mut self, end: Instant) -> Result<Option<Failure>> {
        let (mut disk, mut history) = (Disk::new(), History::default());
        for (at, event) in self.events.iter().enumerate() {
            disk.apply(event).with_context(|| format!("event {at}: {event:.200?}"))?;
            if let Event::Mark(mark) = event {
                history.take(mark)?;
            }
            for _ in 0..self.moments.draws(at, ROUND, &mut self.dice) {
                let state = disk.after_power_cut(&mut self.dice);
                self.states += 1;
                if let Some((state, error)) = self.wrong(state, &history)? {
                    return Ok(Some(Failure { at, state, history, error }));
                }
            }
            if Instant::now() >= end {
                break;
            }
        }
        Ok(None)
    }

    /// Has a state judged by all judges; returns the one that is wrong.
    fn wrong(&mut self, state: State, history: &History) -> Result<Option<nested::Wrong>> {
        if let Err(error) = self.judge(&state, history) {
            return Ok(Some((state, error)));
        }
        // Where a log may be in two directories, no start may do anything.
        if history.is_moving() {
            return Ok(None);
        }
        if let Some(third) = &mut self.third
            && let Err(error) = third.check(&state, &self.scratch)
        {
            return Ok(Some((state, error)));
        }
        if !self.is_nested || !self.dice.one_in(NESTED) {
            return Ok(None);
        }
        let scratch = self.scratch.join("disk");
        let judge = |state: &State, history: &History| judge::check(state, history, &scratch);
        let (states, wrong) = nested::explore(&state, history, &mut self.dice, judge)?;
        self.nested += states;
        Ok(wrong)
    }

    fn judge(&self, state: &State, history: &History) -> Result<()> {
        judge::check(state, history, &self.scratch.join("disk"))
    }

    /// Makes a failing state small and keeps it.
    fn keep(&self, failure: Failure) -> anyhow::Error {
        let Failure { at, state, history, error } = failure;
        let small = self.reduced(state, &history);
        let kept = workspace::scratch().join(format!("crash-{}-{at}", self.seed));
        let story: Vec<_> =
            self.events[..=at].iter().map(|event| format!("{event:.200?}\n")).collect();
        let written = workspace::empty_dir(&kept)
            .and_then(|()| small.write(&kept))
            .and_then(|()| Ok(fs::write(kept.join("record.txt"), story.concat())?));
        let around = self.events[at.saturating_sub(4)..=at].iter();
        let around: Vec<_> = around.map(|event| format!("{event:.160?}")).collect();
        let place = match written {
            Ok(()) => format!("kept in {}", kept.display()),
            Err(error) => format!("not kept: {error:#}"),
        };
        error.context(format!(
            "after event {at} of the record of seed {}: {}\n{place}",
            self.seed,
            around.join("\n")
        ))
    }

    /// Leaves out what the failure does not need: whole partitions, then files.
    fn reduced(&self, mut state: State, history: &History) -> State {
        let parts = state.dirs.iter().filter(|dir| dir.components().count() == 2);
        // Without a log, a snapshot or a checkpoint the same words would mean something else.
        let is_index = |path: &&PathBuf| path.extension().is_some_and(|end| end == "index");
        let files = state.files.keys().filter(is_index);
        let parts: Vec<PathBuf> = parts.chain(files).cloned().collect();
        let text = |error: &anyhow::Error| error.root_cause().to_string();
        let Err(wanted) = self.judge(&state, history).map_err(|error| text(&error)) else {
            return state;
        };
        for part in parts {
            let mut smaller = state.clone();
            smaller.files.retain(|path, _| !path.starts_with(&part));
            smaller.dirs.retain(|dir| !dir.starts_with(&part));
            if self.judge(&smaller, history).is_err_and(|error| text(&error) == wanted) {
                state = smaller;
            }
        }
        state
    }
}

impl Drop for Explorer<'_> {
    fn drop(&mut self) {
        remove(&self.scratch);
    }
}

fn remove(dir: &Path) {
    // It lies in memory; one that stays is emptied by the next run of this process number.
    drop(fs::remove_dir_all(dir));
}
