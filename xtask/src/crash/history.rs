//! The slow model: what each log may hold after a power cut, and what it must hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context, Result, bail, ensure};

use super::trace::DONE;
use crate::proof::Found;

/// What the workload has said of its logs up to some moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    logs: BTreeMap<String, LogHistory>,
}

/// What it has said of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogHistory {
    /// The record at each offset, as a reader sees it, those of an append under way included.
    live: BTreeMap<i64, u64>,
    /// What else may be found at an offset: what was cut off, while the cut may not be durable, and
    /// what an append that failed may have left. Neither outlives the next thing acknowledged.
    ghosts: HashMap<i64, Vec<u64>>,
    /// First and last offset of each batch of the live records.
    batches: Vec<(i64, i64)>,
    end: i64,
    /// Where the last batch ends that a truncation has left, where that is below the cut, until
    /// something is appended or the log is opened anew: the cut has halved a batch, or lies in the
    /// gap that an earlier one left by that.
    halved: Option<i64>,
    /// Where a segment may begin.
    bases: BTreeSet<i64>,
    /// Whether a segment begins at the end.
    named_end: NamedEnd,
    /// Appended and not acknowledged yet.
    pending: Vec<(i64, u64)>,
    /// Everything below is durable.
    flushed: i64,
    /// Records below may be gone.
    start: i64,
    /// Records below are gone for good.
    gone: i64,
    /// Records below may be gone if their key comes again.
    compacted: i64,
    /// A truncation is under way.
    is_cutting: bool,
    /// It is on its way to another log directory, and may be in both.
    is_moving: bool,
}

/// Whether the name of a segment tells where a log ends.
#[derive(Clone, Copy, Debug, Default)]
enum NamedEnd {
    #[default]
    No,
    /// A roll or an append, which may roll, has failed or is under way.
    Perhaps,
    Yes,
}

impl History {
    /// Takes in one word of the workload.
    ///
    /// # Errors
    ///
    /// When it makes no sense.
    pub(crate) fn take(&mut self, mark: &str) -> Result<()> {
        let mut words = mark.split(' ');
        let verb = words.next().unwrap_or_default();
        if verb == DONE {
            return Ok(());
        }
        let name = words.next().with_context(|| format!("no log in `{mark}`"))?;
        let numbers: Result<Vec<i64>, _> = words.map(str::parse).collect();
        let log = self.logs.entry(name.to_owned()).or_default();
        match (verb, &numbers?[..]) {
            ("append", &[stamp, count]) => log.begin_append(stamp.unsigned_abs(), count),
            ("acked", []) => log.acknowledge(),
            ("failed", []) => log.fail_append(),
            ("flushed", &[end]) => {
                ensure!(end == log.end, "flushed to {end}, and {name} ends at {}", log.end);
                log.flush();
            }
            ("truncate", &[to]) => {
                log.flushed = log.flushed.min(log.kept_end(to));
                log.is_cutting = true;
            }
            ("truncated", &[to]) => log.truncate(to),
            ("roll", []) => {
                log.bases.insert(log.end);
                log.named_end = NamedEnd::Perhaps;
            }
            ("rolled", []) => log.named_end = NamedEnd::Yes,
            ("delete", &[to]) => log.start = log.start.max(to),
            ("deleted", &[to]) => log.start = to,
            ("gone", &[to]) => log.gone = log.gone.max(to),
            ("end", &[end]) => log.open(end)?,
            ("moving", []) => log.is_moving = true,
            ("moved", []) => log.is_moving = false,
            ("compact", &[to]) => log.compacted = log.compacted.max(to),
            _ => bail!("`{mark}` is no mark"),
        }
        Ok(())
    }

    /// All that was acknowledged must be there, flushed or not: no power was cut.
    pub(crate) fn keep_all(&mut self) {
        for log in self.logs.values_mut().filter(|log| !log.is_cutting) {
            log.fail_append();
            log.flushed = log.durable_end();
        }
    }

    /// Whether a log may be in two directories: no two renames on two disks are one.
    pub(crate) fn is_moving(&self) -> bool {
        self.logs.values().any(|log| log.is_moving)
    }

    pub(crate) fn log(&self, name: &str) -> Option<&LogHistory> {
        self.logs.get(name)
    }
}

impl LogHistory {
    fn begin_append(&mut self, stamp: u64, count: i64) {
        self.batches.push((self.end, self.end + count - 1));
        self.bases.insert(self.end);
        if matches!(self.named_end, NamedEnd::No) {
            self.named_end = NamedEnd::Perhaps;
        }
        for (offset, stamp) in (self.end..self.end + count).zip(stamp..) {
            self.pending.push((offset, stamp));
            self.live.insert(offset, stamp);
        }
        self.end += count;
    }

    /// The append under way was refused: it may be there, or not.
    fn fail_append(&mut self) {
        for (offset, stamp) in std::mem::take(&mut self.pending) {
            self.live.remove(&offset);
            self.ghosts.entry(offset).or_default().push(stamp);
            self.end = self.end.min(offset);
        }
        self.batches.retain(|batch| batch.1 < self.end);
    }

    fn acknowledge(&mut self) {
        self.pending.clear();
        self.ghosts.clear();
        (self.halved, self.named_end) = (None, NamedEnd::No);
    }

    fn flush(&mut self) {
        self.flushed = self.flushed.max(self.durable_end());
        self.ghosts.clear();
    }

    /// Where a start finds the end, if nothing is lost. After a truncation to an offset inside a
    /// batch that is below the end: Kafka cuts whole batches, and gives the offset that was asked
    /// for to the next record. Only that record, or the name of a segment, would tell a start of
    /// the gap, so there is nothing in it that a flush could keep: no record was ever acknowledged
    /// there and is still live.
    fn durable_end(&self) -> i64 {
        self.halved.unwrap_or(self.end)
    }

    /// The process has opened the log, and found this end. The gap behind a halved batch remains
    /// where a segment was begun behind it, whose name tells the end.
    fn open(&mut self, end: i64) -> Result<()> {
        let (least, most) = (self.durable_end(), self.end);
        let is_named = (least..most).contains(&end) && self.bases.contains(&end);
        let is_right = match self.named_end {
            NamedEnd::No => end == least || is_named,
            NamedEnd::Perhaps => end == least || is_named || end == most,
            NamedEnd::Yes => end == most,
        };
        ensure!(is_right, "opened with the end {end}, not {least} or where a roll began, {most}");
        (self.end, self.halved) = (end, self.halved.filter(|_| end == most));
        Ok(())
    }

    /// Where the last batch ends that is wholly below this offset.
    fn kept_end(&self, offset: i64) -> i64 {
        let kept = self.batches.iter().map(|batch| batch.1 + 1).filter(|end| *end <= offset);
        kept.max().unwrap_or(0)
    }

    fn truncate(&mut self, to: i64) {
        // A batch that the cut would halve goes as a whole.
        let from = self.kept_end(to);
        self.halved = (from < to).then_some(from);
        self.batches.retain(|batch| batch.1 < to);
        self.bases.retain(|base| *base < to);
        if to < self.end {
            self.named_end = NamedEnd::No;
        }
        for (offset, stamp) in self.live.split_off(&from) {
            self.ghosts.entry(offset).or_default().push(stamp);
        }
        self.end = to;
        self.is_cutting = false;
    }

    /// Whether the log may have holes.
    const fn has_holes(&self) -> bool {
        self.compacted > 0
    }

    /// Compares what a log holds after the power cut.
    ///
    /// # Errors
    ///
    /// The first record that is wrong, or missing.
    pub(crate) fn check(&self, start: i64, end: i64, found: &[Found]) -> Result<()> {
        ensure!(
            start <= self.start,
            "the log starts at {start}, nobody went beyond {}",
            self.start
        );
        ensure!(start >= self.gone, "the log starts at {start}, below {} is gone", self.gone);
        for record in found {
            let Found { offset, stamp } = *record;
            let is_live = self.live.get(&offset) == Some(&stamp);
            let ghosts = self.ghosts.get(&offset).map_or(&[][..], Vec::as_slice);
            ensure!(
                is_live || ghosts.contains(&stamp),
                "offset {offset} holds record {stamp}, never written there"
            );
        }
        self.check_holes(found)?;
        ensure!(end >= self.flushed, "the log ends at {end}, {} was flushed", self.flushed);
        let found: HashMap<i64, u64> =
            found.iter().map(|record| (record.offset, record.stamp)).collect();
        for (offset, stamp) in self.live.range(self.start..self.flushed.max(self.start)) {
            match found.get(offset) {
                Some(there) if there == stamp => {}
                Some(there) => bail!("offset {offset} holds {there}, {stamp} was flushed"),
                None if *offset < self.compacted && self.comes_again(*offset, *stamp) => {}
                None => bail!("offset {offset} is gone, and was acknowledged as flushed"),
            }
        }
        Ok(())
    }

    /// A hole is right where it was before, in what was compacted, and above what was flushed:
    /// there a segment may be lost that the next one has outlived. As in Kafka, what is left stays.
    fn check_holes(&self, found: &[Found]) -> Result<()> {
        for pair in found.windows(2) {
            let (before, next) = (pair[0].offset + 1, pair[1].offset);
            ensure!(before <= next, "offset {next} comes after {}", before - 1);
            let was_there = self.live.range(before..next).next().is_none();
            let is_right = was_there || self.has_holes() || before >= self.flushed;
            ensure!(before == next || is_right, "a hole from {before} to {next}");
        }
        Ok(())
    }

    fn comes_again(&self, offset: i64, stamp: u64) -> bool {
        let mut later = self.live.range(offset + 1..self.compacted);
        later.any(|(_, other)| other % 7 == stamp % 7)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(marks: &[&str]) -> History {
        let mut history = History::default();
        for mark in marks {
            history.take(mark).unwrap();
        }
        history
    }

    fn found(records: impl IntoIterator<Item = (i64, u64)>) -> Vec<Found> {
        records.into_iter().map(|(offset, stamp)| Found { offset, stamp }).collect()
    }

    /// Batches of offsets 0 to 2 and 3 to 7, cut at 5, which halves the second one.
    const HALVED: [&str; 8] = [
        "append t-0 1 3",
        "acked t-0",
        "append t-0 4 5",
        "acked t-0",
        "flushed t-0 8",
        "truncate t-0 5",
        "truncated t-0 5",
        "flushed t-0 5",
    ];

    #[test]
    fn a_log_that_was_cut_inside_a_batch_ends_where_that_batch_began() {
        let history = told(&HALVED);
        let log = history.log("t-0").unwrap();
        log.check(0, 3, &found([(0, 1), (1, 2), (2, 3)])).unwrap();
        assert!(log.check(0, 2, &found([(0, 1), (1, 2)])).is_err(), "a flushed record is gone");
        told(&[&HALVED[..], &["end t-0 3"]].concat());
        for end in ["end t-0 4", "end t-0 5"] {
            assert!(told(&HALVED).take(end).is_err(), "{end}");
        }
    }

    #[test]
    fn a_segment_that_was_begun_behind_the_gap_tells_where_the_log_ends() {
        let rolled = [&HALVED[..], &["roll t-0", "rolled t-0"]].concat();
        told(&[&rolled[..], &["end t-0 5", "flushed t-0 5"]].concat());
        assert!(told(&rolled).take("end t-0 3").is_err());
        // A roll that failed may have left its segment.
        for end in ["end t-0 3", "end t-0 5"] {
            told(&[&HALVED[..], &["roll t-0", end]].concat());
        }
        // The segment goes with what is cut off before it.
        let cut = [&rolled[..], &["truncate t-0 4", "truncated t-0 4"]].concat();
        told(&[&cut[..], &["end t-0 3"]].concat());
        assert!(told(&cut).take("end t-0 4").is_err());
    }

    #[test]
    fn a_gap_goes_with_the_only_batch_behind_it() {
        let behind = ["append t-0 9 3", "acked t-0", "flushed t-0 8"];
        let cut = ["truncate t-0 7", "truncated t-0 7"];
        let history = told(&[&HALVED[..], &behind, &cut].concat());
        history.log("t-0").unwrap().check(0, 3, &found([(0, 1), (1, 2), (2, 3)])).unwrap();
        // The batch may have begun a segment, whose name is left.
        for end in ["end t-0 3", "end t-0 5"] {
            history.clone().take(end).unwrap();
        }
        for end in ["end t-0 4", "end t-0 7"] {
            assert!(history.clone().take(end).is_err(), "{end}");
        }
    }

    #[test]
    fn a_record_behind_the_gap_is_kept_like_any_other() {
        let after = ["append t-0 9 1", "acked t-0", "flushed t-0 6"];
        let history = told(&[&HALVED[..], &after].concat());
        let log = history.log("t-0").unwrap();
        log.check(0, 6, &found([(0, 1), (1, 2), (2, 3), (5, 9)])).unwrap();
        assert!(log.check(0, 3, &found([(0, 1), (1, 2), (2, 3)])).is_err());
        assert!(log.check(0, 6, &found([(0, 1), (1, 2), (2, 3)])).is_err());
    }

    #[test]
    fn what_retention_has_dropped_does_not_come_back() {
        let dropped =
            ["append t-0 1 3", "acked t-0", "flushed t-0 3", "delete t-0 2", "deleted t-0 2"];
        let back = found([(1, 2), (2, 3)]);
        told(&dropped).log("t-0").unwrap().check(1, 3, &back).unwrap();
        let gone = told(&[&dropped[..], &["gone t-0 2"]].concat());
        gone.log("t-0").unwrap().check(2, 3, &back[1..]).unwrap();
        assert!(gone.log("t-0").unwrap().check(1, 3, &back).is_err());
    }

    #[test]
    fn what_was_cut_off_may_come_back_until_something_else_is_acknowledged() {
        let back = found((0..8).zip(1..));
        let cut = told(&HALVED[..7]);
        cut.log("t-0").unwrap().check(0, 8, &back).unwrap();
        for after in [&["flushed t-0 5"][..], &["append t-0 9 1", "acked t-0"]] {
            let history = told(&[&HALVED[..7], after].concat());
            assert!(history.log("t-0").unwrap().check(0, 8, &back).is_err(), "{after:?}");
        }
    }
}
