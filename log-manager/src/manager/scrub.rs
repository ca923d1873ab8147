//! Sealed segments are read again, slowly, to find what a disk has lost while nobody looked.

mod segment;

use std::fmt;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;

use alluvium_record_format::{Corruption, Offset, Position, Timestamp};
use alluvium_recovery::TopicPartition;
use alluvium_segment::SegmentError;
use parking_lot::Mutex;

use super::LogManager;
use crate::Task;

use segment::SegmentScrub;

/// Reads sealed segments again, at a rate: checks every batch's checksum and every entry of the
/// offset and time indexes.
///
/// Reports damage and repairs nothing. Off until somebody makes one and ticks it. What it reads
/// does not push other pages out of the page cache; what is in the cache already is read from
/// there and not from the disk.
///
/// ```no_run
/// # use std::num::NonZeroU64;
/// # fn f(logs: &alluvium_log_manager::LogManager) {
/// let rate = NonZeroU64::new(10 << 20).expect("10 MiB a second");
/// let scrubber = logs.scrubber(rate).on_damage(|found| eprintln!("{found}"));
/// std::sync::Arc::new(scrubber).tick_in_background(1_000);
/// # }
/// ```
pub struct Scrubber {
    logs: LogManager,
    bytes_per_second: NonZeroU64,
    on_damage: Option<OnDamage>,
    state: Mutex<State>,
}

type OnDamage = Box<dyn Fn(&ScrubDamage) + Send + Sync>;

/// Where the pass is.
#[derive(Debug, Default)]
struct State {
    /// The partitions of this pass that are still to come, the next one last.
    partitions: Vec<TopicPartition>,
    /// The partition under way, and the base of its last segment that was begun.
    current: Option<(TopicPartition, Option<Offset>)>,
    segment: Option<SegmentScrub>,
    last_tick: Option<Timestamp>,
    /// Bytes that may be read; below 0 after a large batch.
    budget: i64,
    is_under_way: bool,
}

/// What a tick did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScrubTick {
    /// Bytes of log files that were read.
    pub bytes: u64,
    /// Damages that were found.
    pub damages: u64,
    /// Whether the last segment of all logs is done; the next tick begins again.
    pub ended_pass: bool,
}

/// Damage in a sealed segment.
#[derive(Debug)]
#[non_exhaustive]
pub struct ScrubDamage {
    /// The partition.
    pub partition: TopicPartition,
    /// The file that is damaged.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: ScrubDamageKind,
}

/// What is wrong with a sealed segment.
#[derive(Debug)]
#[non_exhaustive]
pub enum ScrubDamageKind {
    /// A batch is damaged.
    Batch(Corruption),
    /// An entry of the offset index leads to no batch, or behind the records that it stands for.
    #[non_exhaustive]
    OffsetEntry {
        /// The entry, counted from 0.
        entry: usize,
        /// Its offset.
        offset: Offset,
        /// Its byte in the log.
        position: Position,
    },
    /// An entry of the time index does not give the largest time up to its offset.
    #[non_exhaustive]
    TimeEntry {
        /// The entry, counted from 0.
        entry: usize,
        /// Its offset.
        offset: Offset,
        /// Its time.
        timestamp: Timestamp,
    },
    /// The file cannot be read.
    Unreadable(SegmentError),
}

impl fmt::Display for ScrubDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.kind {
            ScrubDamageKind::Batch(damage) => write!(f, "{damage}"),
            ScrubDamageKind::OffsetEntry { entry, offset, position } => {
                write!(f, "entry {entry} (offset {offset}, byte {position}) fits no batch")
            }
            ScrubDamageKind::TimeEntry { entry, offset, timestamp } => {
                let ms = timestamp.get();
                write!(f, "entry {entry} (time {ms}, offset {offset}) is not the largest time")
            }
            ScrubDamageKind::Unreadable(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrubber").field("rate", &self.bytes_per_second).finish_non_exhaustive()
    }
}

impl LogManager {
    /// A scrubber of these logs, of so many bytes a second. It reads nothing until it is ticked.
    #[must_use]
    pub fn scrubber(&self, bytes_per_second: NonZeroU64) -> Scrubber {
        let logs = self.clone();
        Scrubber { logs, bytes_per_second, on_damage: None, state: Mutex::default() }
    }
}

impl Scrubber {
    /// Is told of every damage, in each pass again.
    #[must_use]
    pub fn on_damage(self, tell: impl Fn(&ScrubDamage) + Send + Sync + 'static) -> Self {
        Self { on_damage: Some(Box::new(tell)), ..self }
    }

    /// Reads as much as the time since the last tick allows, a second's worth at most, and goes on
    /// where that one ended. The first tick reads nothing.
    pub fn tick(&self) -> ScrubTick {
        let now = self.logs.shared.clock.now();
        let mut state = self.state.lock();
        let ms = state.last_tick.map_or(0, |last| now.get().saturating_sub(last.get()));
        state.last_tick = Some(now);
        let ms = u64::try_from(ms.clamp(0, 1000)).unwrap_or(0);
        let earned = self.bytes_per_second.get().saturating_mul(ms) / 1000;
        state.budget = state.budget.saturating_add(i64::try_from(earned).unwrap_or(i64::MAX));
        let tick = self.read_on(&mut state);
        // What was not used is not saved up.
        state.budget = state.budget.min(0);
        tick
    }

    /// Reads everything once, at full speed, from the first log on.
    pub fn scrub_all(&self) -> ScrubTick {
        let mut state = State { budget: i64::MAX, ..State::default() };
        self.read_on(&mut state)
    }

    /// Ticks every `every_ms` milliseconds, by the manager's background, until the manager stops
    /// or the last handle of the scrubber is dropped.
    pub fn tick_in_background(self: &Arc<Self>, every_ms: u64) {
        let weak = Arc::downgrade(self);
        let work = move || {
            let Some(scrubber) = weak.upgrade() else { return };
            if scrubber.logs.shared.check_running().is_ok() {
                scrubber.tick();
                scrubber.tick_in_background(every_ms);
            }
        };
        self.logs.shared.background.after(every_ms, Task::new("scrub", work));
    }

    fn read_on(&self, state: &mut State) -> ScrubTick {
        let mut tick = ScrubTick::default();
        while state.budget > 0 {
            if let Some(mut segment) = state.segment.take() {
                let read = segment.run(state.budget, &mut |partition, path, kind| {
                    tick.damages += 1;
                    self.report(&ScrubDamage { partition: partition.clone(), path, kind });
                });
                tick.bytes = tick.bytes.saturating_add(read.bytes);
                let bytes = i64::try_from(read.bytes).unwrap_or(i64::MAX);
                state.budget = state.budget.saturating_sub(bytes);
                if !read.is_done {
                    state.segment = Some(segment);
                }
            } else if !self.next_segment(state) {
                tick.ended_pass = true;
                break;
            }
        }
        crate::metrics::scrubbed(tick.bytes);
        tick
    }

    /// Goes on to the next sealed segment; false at the end of the pass.
    fn next_segment(&self, state: &mut State) -> bool {
        if !state.is_under_way {
            state.partitions = self.logs.partitions();
            state.partitions.sort_by(|one, other| other.cmp(one));
            state.is_under_way = true;
        }
        loop {
            let next = || Some((state.partitions.pop()?, None));
            let Some((partition, done)) = state.current.take().or_else(next) else {
                state.is_under_way = false;
                return false;
            };
            let view = self.logs.log(&partition).ok().and_then(|log| log.cleaning_view().ok());
            let Some(view) = view else { continue };
            let sealed = view.segments.split_last().map_or(&[][..], |(_, sealed)| sealed);
            let Some(segment) = sealed.iter().find(|it| Some(it.base_offset()) > done) else {
                continue;
            };
            state.current = Some((partition.clone(), Some(segment.base_offset())));
            state.segment = Some(SegmentScrub::new(partition, Arc::clone(segment)));
            return true;
        }
    }

    fn report(&self, damage: &ScrubDamage) {
        crate::metrics::damage_found();
        tracing::error!(
            partition = %damage.partition,
            path = %damage.path.display(),
            %damage,
            "damage in a sealed segment"
        );
        if let Some(tell) = &self.on_damage {
            tell(damage);
        }
    }
}
