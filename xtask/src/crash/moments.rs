//! At which moments of a record the power is cut: at each now and then, and oftener where more may
//! go wrong.

use std::collections::HashSet;
use std::path::Path;

use alluvium_recovery::{CheckpointKind, CleanShutdown};

use super::trace::Event;
use crate::proof::Dice;

/// What the workload says before it does something rare.
const RARE: [&str; 4] = ["truncate ", "compact ", "moving ", "delete "];

/// So many changes after something rare are near to it.
const NEAR: u64 = 60;

/// What it says when it owes more than before.
const OWED: [&str; 7] =
    ["flushed ", "acked ", "truncated ", "deleted ", "gone ", "moved ", "rolled "];

/// How much each moment counts beside the others.
#[derive(Debug)]
pub(super) struct Moments {
    weights: Vec<u64>,
    total: u64,
}

impl Moments {
    /// Those after each of these events.
    pub(super) fn of(events: &[Event]) -> Self {
        let (mut near, mut factor, mut unsynced) = (0, 1, HashSet::new());
        let next = events.iter().skip(1).map(Some).chain([None]);
        let weights: Vec<u64> = events
            .iter()
            .zip(next)
            .map(|(event, next)| {
                (near, factor) = match rarity(event) {
                    Some(rarity) => (NEAR, rarity),
                    None if near > 0 => (near - 1, factor),
                    None => (0, 1),
                };
                let names = names_in(event);
                unsynced.extend(names);
                if let Event::Sync { path } = event {
                    unsynced.remove(path.as_path());
                }
                let own = match event {
                    Event::Mark(mark) if OWED.iter().any(|owed| mark.starts_with(owed)) => 3,
                    Event::SetLen { path, .. } if is_log(path) => 40,
                    _ if names.is_some() => 2,
                    _ => 0,
                };
                // All that a sync is about to make durable is still open.
                let before_sync = if matches!(next, Some(Event::Sync { .. })) { 3 } else { 0 };
                let names_are_open = if unsynced.is_empty() { 0 } else { 2 };
                (1 + own + before_sync + names_are_open) * factor
            })
            .collect();
        let total = weights.iter().sum();
        Self { weights, total }
    }

    /// How many states of one moment are looked at, of so many of all moments.
    pub(super) fn draws(&self, at: usize, of: u64, dice: &mut Dice) -> u64 {
        let share = self.weights.get(at).copied().unwrap_or(0) * of;
        share / self.total + u64::from(dice.below(self.total) < share % self.total)
    }
}

/// How much more the moments after something rare count.
fn rarity(event: &Event) -> Option<u64> {
    match event {
        Event::Mark(mark) if RARE.iter().any(|rare| mark.starts_with(rare)) => Some(3),
        // No start looks below them.
        Event::Rename { to, .. } if to.ends_with(CleanShutdown::FILE_NAME) => Some(9),
        Event::Rename { to, .. } if to.ends_with(CheckpointKind::RecoveryPoint.file_name()) => {
            Some(3)
        }
        Event::Mkdir { .. } => Some(3),
        _ => None,
    }
}

/// Whether it is the file of records of a segment in use.
pub(super) fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "log")
}

/// The directory in which a name changes; an opened file may be there already.
fn names_in(event: &Event) -> Option<&Path> {
    match event {
        Event::Mkdir { path } | Event::Unlink { path } => path.parent(),
        Event::Rename { to, .. } => to.parent(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(text: &str) -> Event {
        Event::Mark(text.to_owned())
    }

    #[test]
    fn a_moment_before_a_sync_or_after_a_promise_counts_more_than_others() {
        let path = Path::new("a/t-0/0.log").to_path_buf();
        let write = Event::Write { path: path.clone(), at: 0, bytes: vec![1] };
        let events = [write.clone(), write, Event::Sync { path }, mark("flushed t-0 1")];
        let weights = Moments::of(&events).weights;
        assert!(weights[1] > weights[0] && weights[3] > weights[0], "{weights:?}");
    }

    #[test]
    fn so_many_states_are_drawn_as_were_asked_for() {
        let events: Vec<_> = (0..1000).map(|at| mark(&format!("acked t-{at}"))).collect();
        let (moments, mut dice) = (Moments::of(&events), Dice::new(1));
        let drawn: u64 = (0..1000).map(|at| moments.draws(at, 2500, &mut dice)).sum();
        assert!((2300..2700).contains(&drawn), "{drawn}");
    }
}
