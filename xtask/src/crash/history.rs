//! The slow model: what each log may hold after a power cut, and what it must hold.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context, Result, bail, ensure};

use super::producers::{self, Producer};
use super::trace::DONE;
use crate::proof::{Found, FoundBatch, Kind, Writer};

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
    /// The batches of the live records.
    batches: Vec<FoundBatch>,
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
            ("append", &[stamp, count]) => {
                log.begin_append(stamp.unsigned_abs(), count, (0, None));
            }
            ("append", &[stamp, count, epoch]) => {
                log.begin_append(stamp.unsigned_abs(), count, (epoch.try_into()?, None));
            }
            ("append", &[stamp, count, epoch, id, of, sequence, kind]) => {
                let writer = Writer::from_numbers([id, of, sequence, kind])?;
                let by = (epoch.try_into()?, Some(writer));
                log.begin_append(stamp.unsigned_abs(), count, by);
            }
            ("attempt", []) => {
                log.bases.insert(log.end);
                if matches!(log.named_end, NamedEnd::No) {
                    log.named_end = NamedEnd::Perhaps;
                }
            }
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
    /// Where the next record goes, an append under way counted as done.
    pub(super) const fn end(&self) -> i64 {
        self.end
    }

    /// The leader epoch of the last batch, where that is whole.
    pub(super) fn last_epoch(&self) -> Option<i32> {
        let last = self.batches.last().filter(|batch| batch.last + 1 == self.end);
        last.map(|batch| batch.leader_epoch)
    }

    /// The producers as they are while the process lives.
    pub(super) fn producers(&self) -> BTreeMap<i64, Producer> {
        producers::after(&self.batches)
    }

    /// Records below may be gone.
    pub(super) const fn start(&self) -> i64 {
        self.start
    }

    /// All batches that a log which holds these was made of: those that were flushed, here or not,
    /// and behind them what is here.
    ///
    /// # Errors
    ///
    /// When a batch among the flushed ones was never written so.
    pub(super) fn made_of(&self, found: &[FoundBatch]) -> Result<Vec<FoundBatch>> {
        let flushed = self.batches.iter().filter(|batch| batch.last < self.flushed);
        let mut all: Vec<_> = flushed.copied().collect();
        let end = all.last().map_or(0, |batch| batch.last + 1);
        for batch in found {
            if batch.first >= end {
                all.push(*batch);
                continue;
            }
            let is_known = all.iter().any(|known| {
                // A cleaning may leave out the first records.
                let is_inside = known.first <= batch.first && known.last == batch.last;
                is_inside
                    && (known.leader_epoch, known.writer) == (batch.leader_epoch, batch.writer)
            });
            ensure!(is_known, "{batch:?} was never written so");
        }
        Ok(all)
    }

    fn begin_append(&mut self, stamp: u64, count: i64, by: (i32, Option<Writer>)) {
        let (first, last) = (self.end, self.end + count - 1);
        self.batches.push(FoundBatch { first, last, leader_epoch: by.0, writer: by.1 });
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
        self.batches.retain(|batch| batch.last < self.end);
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
        let kept = self.batches.iter().map(|batch| batch.last + 1).filter(|end| *end <= offset);
        kept.max().unwrap_or(0)
    }

    fn truncate(&mut self, to: i64) {
        // A batch that the cut would halve goes as a whole.
        let from = self.kept_end(to);
        self.halved = (from < to).then_some(from);
        self.batches.retain(|batch| batch.last < to);
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
                None if *offset < self.compacted
                    && self.may_be_cleaned(*offset, *stamp, &found) => {}
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

    /// Whether a cleaning may leave out this record: its key comes again, and that is there, or its
    /// transaction was aborted.
    fn may_be_cleaned(&self, offset: i64, stamp: u64, found: &HashMap<i64, u64>) -> bool {
        let mut later = self.live.range(offset + 1..self.compacted);
        let is_again = |(at, other): (&i64, &u64)| {
            let is_there = found.get(at) == Some(other);
            other % 7 == stamp % 7 && is_there && self.fate(*at) == Fate::Counts
        };
        match self.fate(offset) {
            Fate::Counts => later.any(is_again),
            Fate::Aborted => true,
            Fate::Open | Fate::Marker => false,
        }
    }

    /// What a record is for those who read committed ones.
    fn fate(&self, offset: i64) -> Fate {
        let at = self.batches.partition_point(|batch| batch.last < offset);
        let Some(writer) = self.batches.get(at).and_then(|batch| batch.writer) else {
            return Fate::Counts;
        };
        match writer.kind {
            Kind::Plain => Fate::Counts,
            Kind::Commit | Kind::Abort => Fate::Marker,
            Kind::Transactional => match producers::outcome(&self.batches, writer.id, offset) {
                Some(Kind::Abort) => Fate::Aborted,
                Some(_) => Fate::Counts,
                None => Fate::Open,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Counts,
    Aborted,
    Open,
    Marker,
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
