//! Which old segments go, and why the others stay: pure decisions, for a log and for tools.

use std::iter::Peekable;
use std::sync::Arc;

use alluvium_record_format::{Offset, Timestamp};
use alluvium_segment::{Segment, SegmentError};

use crate::LogConfig;

/// What makes a segment go.
///
/// Source: `UnifiedLog.deleteOldSegments` in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetentionRule {
    /// All of it lies below the log start offset.
    LogStart,
    /// Without it the log still has `retention.bytes`.
    Size,
    /// Its newest record is older than `retention.ms`.
    Time,
}

impl RetentionRule {
    /// The rules that hold for a log, in the order in which they are applied.
    pub(crate) fn of(config: &LogConfig) -> &'static [Self] {
        if config.cleanup_policy().deletes() {
            &[Self::LogStart, Self::Size, Self::Time]
        } else {
            &[Self::LogStart]
        }
    }
}

/// Where a log stands while its old segments are judged.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RetentionState {
    /// The first offset that readers can ask for.
    pub log_start_offset: Offset,
    /// The offset after the last record.
    pub log_end_offset: Offset,
    /// Segments that end above it stay.
    pub high_watermark: Offset,
    /// The present time.
    pub now: Timestamp,
}

impl RetentionState {
    /// A log from `log_start_offset` to `log_end_offset`, all of it replicated.
    #[must_use]
    pub const fn new(log_start_offset: Offset, log_end_offset: Offset, now: Timestamp) -> Self {
        Self { log_start_offset, log_end_offset, high_watermark: log_end_offset, now }
    }

    /// Sets up to where the log is replicated.
    #[must_use]
    pub const fn high_watermark(mut self, offset: Offset) -> Self {
        self.high_watermark = offset;
        self
    }
}

/// What one rule finds in one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetentionFinding {
    /// Not all of the segment is replicated: no rule may touch it.
    #[non_exhaustive]
    AboveHighWatermark {
        /// Where the segment ends: the next one's base offset, or the log end.
        end: Offset,
    },
    /// The active segment, and empty.
    EmptyActive,
    /// The setting of the rule is off.
    Off,
    /// For [`RetentionRule::LogStart`].
    #[non_exhaustive]
    Starts {
        /// The base offset of the next segment; `None` for the active one.
        next: Option<Offset>,
        /// The log start offset.
        log_start: Offset,
    },
    /// For [`RetentionRule::Size`].
    #[non_exhaustive]
    Holds {
        /// Bytes of the log without this segment and those before it.
        rest_bytes: Option<u64>,
        /// `retention.bytes`.
        keep_bytes: u64,
    },
    /// For [`RetentionRule::Time`].
    #[non_exhaustive]
    Ages {
        /// The largest time of a record, or the time when the file was changed last.
        largest: Timestamp,
        /// Whether no record has a time, so that the file's counts.
        is_of_file: bool,
        /// `retention.ms`.
        keep_ms: u64,
        /// The present time.
        now: Timestamp,
    },
}

impl RetentionFinding {
    /// Whether the rule lets the segment go, if all before it go.
    #[must_use]
    pub fn lets_go(&self) -> bool {
        match *self {
            Self::AboveHighWatermark { .. } | Self::EmptyActive | Self::Off => false,
            Self::Starts { next, log_start } => next.is_some_and(|next| next <= log_start),
            Self::Holds { rest_bytes, keep_bytes } => {
                rest_bytes.is_some_and(|rest| rest >= keep_bytes)
            }
            Self::Ages { largest, keep_ms, now, .. } => {
                let age = now.get().saturating_sub(largest.get());
                u64::try_from(age).is_ok_and(|age| age > keep_ms)
            }
        }
    }

    /// Whether a record from the future keeps the segment, and all later ones for as long.
    #[must_use]
    pub fn is_from_the_future(&self) -> bool {
        matches!(self, Self::Ages { largest, now, .. } if largest > now)
    }
}

/// Judges the segments of a log by one rule, from the oldest on. Reads times of records only
/// where a segment is asked for.
#[derive(Debug)]
pub(crate) struct Judge<'a, S: Iterator<Item = &'a Arc<Segment>>> {
    rule: RetentionRule,
    config: &'a LogConfig,
    state: RetentionState,
    rest: Peekable<S>,
    rest_bytes: u64,
}

impl<'a, S: Iterator<Item = &'a Arc<Segment>> + Clone> Judge<'a, S> {
    pub(crate) fn new(
        rule: RetentionRule,
        config: &'a LogConfig,
        state: RetentionState,
        segments: S,
    ) -> Self {
        // No other rule asks.
        let sized = (rule == RetentionRule::Size).then(|| segments.clone());
        let sizes = sized.into_iter().flatten().map(|segment| u64::from(segment.size_bytes()));
        Self { rule, config, state, rest_bytes: sizes.sum(), rest: segments.peekable() }
    }

    fn judge(
        &self,
        segment: &Segment,
        next: Option<Offset>,
    ) -> Result<RetentionFinding, SegmentError> {
        let end = next.unwrap_or(self.state.log_end_offset);
        if self.state.high_watermark < end {
            return Ok(RetentionFinding::AboveHighWatermark { end });
        }
        if next.is_none() && segment.size_bytes() == 0 {
            return Ok(RetentionFinding::EmptyActive);
        }
        Ok(match self.rule {
            RetentionRule::LogStart => {
                RetentionFinding::Starts { next, log_start: self.state.log_start_offset }
            }
            RetentionRule::Size => match self.config.retention_bytes() {
                None => RetentionFinding::Off,
                Some(keep_bytes) => {
                    let rest_bytes = self.rest_bytes.checked_sub(segment.size_bytes().into());
                    RetentionFinding::Holds { rest_bytes, keep_bytes }
                }
            },
            RetentionRule::Time => match self.config.retention_ms() {
                None => RetentionFinding::Off,
                Some(keep_ms) => self.age(segment, keep_ms)?,
            },
        })
    }

    fn age(&self, segment: &Segment, keep_ms: u64) -> Result<RetentionFinding, SegmentError> {
        let of_records = segment.max_timestamp()?.map(|entry| entry.timestamp);
        let is_of_file = of_records.is_none_or(|timestamp| timestamp.get() < 0);
        let largest = match of_records {
            Some(timestamp) if !is_of_file => timestamp,
            _ => segment.largest_timestamp()?,
        };
        Ok(RetentionFinding::Ages { largest, is_of_file, keep_ms, now: self.state.now })
    }
}

impl<'a, S: Iterator<Item = &'a Arc<Segment>> + Clone> Iterator for Judge<'a, S> {
    type Item = Result<RetentionFinding, SegmentError>;

    fn next(&mut self) -> Option<Self::Item> {
        let segment = self.rest.next()?;
        let next = self.rest.peek().map(|next| next.base_offset());
        let found = self.judge(segment, next);
        self.rest_bytes = self.rest_bytes.saturating_sub(segment.size_bytes().into());
        Some(found)
    }
}

/// What one rule says of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetentionVerdict {
    /// The rule.
    pub rule: RetentionRule,
    /// What it finds in the segment itself.
    pub finding: RetentionFinding,
    /// The base offset of the first segment that this rule keeps, where that is an earlier one:
    /// segments go from the oldest on, without a gap.
    pub behind: Option<Offset>,
}

impl RetentionVerdict {
    /// Whether the rule drops the segment.
    #[must_use]
    pub fn drops(&self) -> bool {
        self.behind.is_none() && self.finding.lets_go()
    }
}

/// What retention does with one segment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentFate {
    /// The offset that the segment is named after.
    pub base_offset: Offset,
    /// Bytes of its log.
    pub size_bytes: u32,
    /// What each rule says, in order; none after one that drops the segment.
    pub verdicts: Vec<RetentionVerdict>,
}

impl SegmentFate {
    /// The rule that drops the segment, or `None` where it stays.
    #[must_use]
    pub fn dropped_by(&self) -> Option<RetentionRule> {
        self.verdicts.iter().find(|verdict| verdict.drops()).map(|verdict| verdict.rule)
    }
}

/// What retention would do with the segments of a log, and why.
///
/// [`Log::delete_old_segments`](crate::Log::delete_old_segments) decides by the same rules in
/// the same code. Reads the times of every segment, also of those that stay.
///
/// # Examples
///
/// ```
/// # use alluvium_log_manager::{LogConfig, RetentionPlan, RetentionState};
/// # use alluvium_record_format::{Offset, Timestamp};
/// let state = RetentionState::new(Offset::new(0), Offset::new(0), Timestamp::new(0));
/// let plan = RetentionPlan::new(&[], &LogConfig::default(), state)?;
/// assert_eq!(plan.dropped().count(), 0);
/// # Ok::<(), alluvium_segment::SegmentError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetentionPlan {
    /// Every segment, from the oldest on.
    pub segments: Vec<SegmentFate>,
}

impl RetentionPlan {
    /// Judges `segments`, which are in order, the active one last.
    ///
    /// # Errors
    ///
    /// What reading the times of a segment yields.
    pub fn new(
        segments: &[Arc<Segment>],
        config: &LogConfig,
        state: RetentionState,
    ) -> Result<Self, SegmentError> {
        let mut fates: Vec<_> = segments
            .iter()
            .map(|segment| SegmentFate {
                base_offset: segment.base_offset(),
                size_bytes: segment.size_bytes(),
                verdicts: Vec::new(),
            })
            .collect();
        let mut first = 0;
        for &rule in RetentionRule::of(config) {
            let mut behind = None;
            let judge = Judge::new(rule, config, state, segments[first..].iter());
            for (fate, finding) in fates[first..].iter_mut().zip(judge) {
                let verdict = RetentionVerdict { rule, finding: finding?, behind };
                fate.verdicts.push(verdict);
                if verdict.drops() {
                    first += 1;
                } else {
                    behind.get_or_insert(fate.base_offset);
                }
            }
        }
        Ok(Self { segments: fates })
    }

    /// The segments that go.
    pub fn dropped(&self) -> impl Iterator<Item = &SegmentFate> {
        self.segments.iter().take_while(|fate| fate.dropped_by().is_some())
    }
}
