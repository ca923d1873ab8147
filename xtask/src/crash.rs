//! `crash`: disk states that a power cut may leave, from a record of real system calls.

mod disk;
mod history;
mod judge;
mod mutants;
mod trace;
mod workload;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use self::disk::{Disk, State};
pub(crate) use self::history::History;
pub(crate) use self::judge::check_disk as judge_disk;
use self::trace::Event;
pub(crate) use self::workload::MARKS;
use crate::proof::Dice;
use crate::{flags, workspace};

/// How long a mutant of one record may go on before it counts as not found there.
const MUTANT: Duration = Duration::from_secs(10);

/// Records in which a mutant is looked for.
const MUTANT_RECORDS: u64 = 4;

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
    if let Some(reason) = missing() {
        bail!("{reason}");
    }
    let budget = Duration::from_secs(flags.budget.unwrap_or(60));
    if flags.mutants {
        return explore_mutants(seed);
    }
    let start = Instant::now();
    let (mut total, mut record) = (Total::default(), 0);
    while start.elapsed() < budget {
        // One record after the other, a quarter of the time for each.
        let events = recorded(seed + record)?;
        record += 1;
        total.events += events.len();
        let left = budget.saturating_sub(start.elapsed());
        let end = Instant::now() + left.min((budget / 4).max(Duration::from_secs(5)));
        let mut explorer = Explorer::new(&events, seed + record)?;
        let outcome = explorer.until(end);
        total.states += explorer.states;
        if let Some(failure) = outcome? {
            return Err(explorer.keep(failure));
        }
    }
    println!(
        "crash: {} states of {} changes in {record} records are all recovered, in {:.1} s; seed {seed}",
        total.states,
        total.events,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

#[derive(Debug, Default)]
struct Total {
    events: usize,
    states: u64,
}

/// Every mutant must be found, in one of some records.
fn explore_mutants(seed: u64) -> Result<()> {
    let mut records = Vec::new();
    let mut missed = Vec::new();
    for (name, mutate) in mutants::EVERY {
        match found_in(&mut records, mutate, seed)? {
            (states, Some(failure)) => {
                println!("  found after {states:>5} states: {name}");
                println!("      {:#}", failure.error);
            }
            (states, None) => missed.push(format!("{name} ({states} states)")),
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join("; "));
    println!("crash: all {} mutants are found; seed {seed}", mutants::EVERY.len());
    Ok(())
}

fn found_in(
    records: &mut Vec<Vec<Event>>,
    mutate: mutants::Mutate,
    seed: u64,
) -> Result<(u64, Option<Failure>)> {
    let mut states = 0;
    for number in 0..MUTANT_RECORDS {
        let at = usize::try_from(number)?;
        if records.len() == at {
            records.push(recorded(seed + number)?);
        }
        let mutant = mutate(&records[at]);
        if mutant == records[at] {
            continue;
        }
        let mut explorer = Explorer::new(&mutant, seed)?;
        let failure = explorer.until(Instant::now() + MUTANT)?;
        states += explorer.states;
        if failure.is_some() {
            return Ok((states, failure));
        }
    }
    Ok((states, None))
}

/// Runs the workload under strace and reads the record.
fn recorded(seed: u64) -> Result<Vec<Event>> {
    let dir = memory().join(format!("alluvium-crash-{}", std::process::id()));
    workspace::empty_dir(&dir)?;
    let (root, record) = (dir.join("disk"), dir.join("record"));
    for part in ["a", "b"] {
        fs::create_dir_all(root.join(part)).context("cannot make a log directory")?;
    }
    let program = env::current_exe().context("cannot find this program")?;
    let mut strace = workspace::command("strace");
    strace.args(["-f", "-y", "-xx", "-s", "1000000", "-e", trace::CALLS, "-o"]).arg(&record);
    strace.arg(program).args(["crash", "--seed", &seed.to_string(), "--workload"]).arg(&root);
    workspace::run(&mut strace)?;
    let text = fs::read_to_string(&record).context("cannot read the record")?;
    let mut events: Vec<_> =
        ["a", "b"].map(|part| Event::Mkdir { path: part.into() }).into_iter().collect();
    events.push(Event::Sync { path: PathBuf::new() });
    events.extend(trace::read(&text, &root, workload::MARKS)?);
    fs::remove_dir_all(&dir).context("cannot remove the record")?;
    Ok(events)
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
}

impl<'a> Explorer<'a> {
    fn new(events: &'a [Event], seed: u64) -> Result<Self> {
        let scratch = memory().join(format!("alluvium-state-{}", std::process::id()));
        workspace::empty_dir(&scratch)?;
        Ok(Self { events, dice: Dice::new(seed), seed, scratch, states: 0 })
    }

    /// Goes through the record again and again, and stops at a failure or at the end of the time.
    fn until(&mut self, end: Instant) -> Result<Option<Failure>> {
        // The first round looks at few moments, each later one at more of them.
        let mut stride = 24;
        while Instant::now() < end {
            if let Some(failure) = self.round(stride, end)? {
                return Ok(Some(failure));
            }
            stride = (stride / 2).max(1);
        }
        Ok(None)
    }

    fn round(&mut self, stride: u64, end: Instant) -> Result<Option<Failure>> {
        let (mut disk, mut history) = (Disk::new(), History::default());
        for (at, event) in self.events.iter().enumerate() {
            disk.apply(event).with_context(|| format!("event {at}: {event:.200?}"))?;
            if let Event::Mark(mark) = event {
                history.take(mark)?;
            }
            if !self.dice.one_in(stride) {
                continue;
            }
            let state = disk.after_power_cut(&mut self.dice);
            self.states += 1;
            if let Err(error) = self.judge(&state, &history) {
                return Ok(Some(Failure { at, state, history, error }));
            }
            if Instant::now() >= end {
                break;
            }
        }
        Ok(None)
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
        // Logs stay: without one, the same words would mean something else.
        let is_log = |path: &&PathBuf| path.extension().is_some_and(|end| end == "log");
        let files = state.files.keys().filter(|path| !is_log(path));
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
