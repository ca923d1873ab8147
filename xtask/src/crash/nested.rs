//! A power cut during the recovery from a power cut.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use alluvium_log_manager::ManualClock;
use alluvium_record_format::Timestamp;
use alluvium_recovery::TopicPartition;
use anyhow::{Context, Result};

use super::disk::{Disk, State};
use super::history::History;
use super::marks::{MARKS, Marks};
use super::trace::{self, Event};
use super::workload::{self, NOW, TOPICS};
use super::{memory, strace};
use crate::proof::Dice;
use crate::workspace;

/// Second power cuts that are drawn for each recovery.
const CUTS: u64 = 24;

/// What a second power cut left, and why it is wrong.
pub(super) type Wrong = (State, anyhow::Error);

/// Has a process of its own recover this state, records what that changes, cuts the power in the
/// middle of it, and judges what is left. Returns how many states that were.
pub(super) fn explore(
    state: &State,
    history: &History,
    dice: &mut Dice,
    judge: impl Fn(&State, &History) -> Result<()>,
) -> Result<(u64, Option<Wrong>)> {
    let events = recorded(state)?;
    let mut states = 0;
    // Each draw has a moment of its own; near the end all is done.
    let mut moments: Vec<usize> = (0..CUTS).map(|_| dice.index(events.len() + 1)).collect();
    moments.sort_unstable();
    let mut disk = Disk::holding(state);
    let mut done = 0;
    for moment in moments {
        for event in &events[done..moment] {
            disk.apply(event).with_context(|| format!("in the recovery: {event:.200?}"))?;
        }
        done = moment;
        let left = disk.after_power_cut(dice);
        states += 1;
        if let Err(error) = judge(&left, history) {
            let error = error.context(format!("a power cut after {moment} changes of a recovery"));
            return Ok((states, Some((left, error))));
        }
    }
    Ok((states, None))
}

fn recorded(state: &State) -> Result<Vec<Event>> {
    let dir = memory().join(format!("alluvium-recovery-{}", std::process::id()));
    workspace::empty_dir(&dir)?;
    let (root, record) = (dir.join("disk"), dir.join("record"));
    fs::create_dir_all(&root).context("cannot make a folder")?;
    state.write(&root)?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut strace = strace(&record);
    workspace::run(strace.arg(program).args(["crash", "--recover"]).arg(&root))?;
    let text = fs::read_to_string(&record).context("cannot read the record")?;
    let events = trace::read(&text, &root, MARKS)?;
    fs::remove_dir_all(&dir).context("cannot remove the record")?;
    Ok(events)
}

/// Is the process that recovers: a start, everything made durable, the checkpoints.
///
/// # Errors
///
/// When the start fails; one that a person has to help with is no failure here.
pub(super) fn recover(root: &Path) -> Result<()> {
    let clock = Arc::new(ManualClock::new(Timestamp::new(NOW + 60_000)));
    let (manager, tasks) = workload::start(root, &clock)?;
    let mut marks = Marks::new(root)?;
    marks.show_indexes()?;
    tasks.run_due();
    for name in TOPICS {
        if let Ok(log) = manager.log(&TopicPartition::new(name, 0)) {
            log.flush(true)?;
        }
    }
    manager.write_checkpoints();
    marks.show_indexes()
}
