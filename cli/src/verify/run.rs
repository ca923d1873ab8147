//! Carries out a plan on several threads, and hands findings over in order.

use std::iter::Peekable;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use std::vec::IntoIter;

use alluvium_record_format::Offset;

use super::directory::{self, Ends};
use super::finding::{Finding, Findings, Severity};
use super::plan::{Group, Plan, Rest};
use super::segment::{self, SegmentFacts, SegmentJob};
use crate::error::CliError;
use crate::parallel;
use crate::progress::Progress;

/// What comes up during a check.
#[derive(Debug)]
pub(super) enum Event {
    Finding(Finding),
    /// Something could not be read.
    Failure(CliError),
}

/// What a check came to.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct VerifySummary {
    /// Partition directories.
    pub partitions: u64,
    /// Segments.
    pub segments: u64,
    /// Batches, those with damage included.
    pub batches: u64,
    /// Records in batches with a right checksum.
    pub records: u64,
    /// Bytes of logs.
    pub bytes: u64,
    /// Findings that are damage.
    pub damage: u64,
    /// Findings that are none.
    pub notes: u64,
    /// Files and directories that could not be read.
    pub failures: u64,
    /// How long it took.
    pub elapsed: Duration,
}

/// Gets what comes up, in the order of the plan.
pub(super) type Listener<'a> = dyn FnMut(&Progress, Event) -> Result<(), CliError> + 'a;

/// Checks `paths` on `jobs` threads.
///
/// # Errors
///
/// Only those of the listener; what cannot be read is an event.
pub(super) fn check(
    paths: &[PathBuf],
    jobs: NonZeroUsize,
    listener: &mut Listener<'_>,
) -> Result<VerifySummary, CliError> {
    let mut plan = Plan::default();
    let unplanned: Vec<_> = paths.iter().filter_map(|path| plan.add(path).err()).collect();
    let Plan { segments, groups, bytes, failures } = plan;
    let progress = Progress::new(bytes);
    let mut check = Check {
        progress: &progress,
        summary: VerifySummary::default(),
        groups: groups.into_iter().peekable(),
        ends: Ends::new(),
        end: None,
        listener,
    };
    for error in unplanned.into_iter().chain(failures) {
        check.failure(error)?;
    }
    check.finish_groups(0)?;
    let work = |job: &SegmentJob| {
        let mut findings = Findings::default();
        let facts = segment::check(job, &progress, &mut findings);
        (facts, findings)
    };
    let each = |index, (facts, findings)| {
        check.segment(facts, findings)?;
        check.finish_groups(index + 1)
    };
    parallel::run(jobs, &segments, work, each, || progress.draw())?;
    progress.finish();
    check.summary.elapsed = progress.elapsed();
    Ok(check.summary)
}

/// A check on its way through the plan.
struct Check<'p, 'l> {
    progress: &'p Progress,
    summary: VerifySummary,
    /// Groups that are not finished.
    groups: Peekable<IntoIter<Group>>,
    /// Where the logs of the log directory at hand end.
    ends: Ends,
    /// Where the last segment of the group at hand ends.
    end: Option<Offset>,
    listener: &'p mut Listener<'l>,
}

impl Check<'_, '_> {
    /// Takes the result of one segment.
    fn segment(
        &mut self,
        facts: Result<SegmentFacts, CliError>,
        findings: Findings,
    ) -> Result<(), CliError> {
        self.findings(findings)?;
        match facts {
            Ok(facts) => {
                self.end = Some(facts.end);
                self.summary.segments += 1;
                self.summary.batches += facts.batches;
                self.summary.records += facts.records;
                self.summary.bytes += facts.bytes;
                Ok(())
            }
            Err(error) => self.failure(error),
        }
    }

    /// Rounds off the groups whose segments are among the first `done`.
    fn finish_groups(&mut self, done: usize) -> Result<(), CliError> {
        while let Some(group) = self.groups.next_if(|group| group.segments.end <= done) {
            self.finish_group(group)?;
        }
        Ok(())
    }

    fn finish_group(&mut self, group: Group) -> Result<(), CliError> {
        let end = self.end.take().unwrap_or(Offset::new(0));
        let mut findings = group.findings;
        let checked = match group.rest {
            Rest::Nothing => Ok(()),
            Rest::File(path) => directory::file(&path, &mut findings),
            Rest::Partition { partition, is_alone } => {
                self.summary.partitions += 1;
                if let Some(key) = partition.key() {
                    self.ends.insert(key, end);
                }
                directory::partition(&partition, end, &mut findings).and_then(|()| {
                    if is_alone { directory::above(&partition, end, &mut findings) } else { Ok(()) }
                })
            }
            Rest::LogDir(path) => {
                let ends = std::mem::take(&mut self.ends);
                directory::log_dir(&path, &ends, &mut findings)
            }
        };
        self.findings(findings)?;
        checked.or_else(|error| self.failure(error))
    }

    fn findings(&mut self, findings: Findings) -> Result<(), CliError> {
        for finding in findings.into_vec() {
            match finding.kind.severity() {
                Severity::Damage => self.summary.damage += 1,
                Severity::Note => self.summary.notes += 1,
            }
            (self.listener)(self.progress, Event::Finding(finding))?;
        }
        Ok(())
    }

    fn failure(&mut self, error: CliError) -> Result<(), CliError> {
        self.summary.failures += 1;
        (self.listener)(self.progress, Event::Failure(error))
    }
}
