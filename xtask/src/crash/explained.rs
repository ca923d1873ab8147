//! Which row of SHORTCOMINGS.md, "Deliberately different", a difference from Kafka's loader is.

use std::path::PathBuf;

use alluvium_record_format::{Entries, Entry, Position};

use super::third::Case;

/// A row by its first column, and whether it explains a difference.
type Row = (&'static str, fn(&Case<'_>, &[Segment]) -> bool);

/// The rows that a start may show.
const ROWS: [Row; 2] = [
    ("an unclean start, a segment lacks its index, an earlier one is damaged", |case, segments| {
        let refused = case.kafka.as_ref().is_err_and(|why| {
            why.contains("CorruptRecordException") || why.contains("InvalidRecordException")
        });
        let damaged = segments.iter().position(|segment| segment.bytes > segment.sound);
        let is_later = |damaged: usize| segments[damaged + 1..].iter().any(|it| it.lacks_index);
        !case.is_clean && refused && damaged.is_some_and(is_later)
    }),
    ("an unclean start, a segment with damage lacks its index", |case, segments| {
        // Kafka has what we have, and what comes later.
        let more = case.kafka.as_ref().is_ok_and(|kafka| {
            kafka.batches.starts_with(&case.ours.batches) && kafka.end > case.ours.end
        });
        let is_it = |segment: &Segment| segment.bytes > segment.sound && segment.lacks_index;
        let found = segments.iter().position(is_it);
        !case.is_clean && more && found.is_some_and(|found| found + 1 < segments.len())
    }),
];

/// The row that explains a difference, if one does.
pub(super) fn row(case: &Case<'_>) -> Option<&'static str> {
    let segments = case.segments();
    ROWS.iter().find(|(_, explains)| explains(case, &segments)).map(|(row, _)| *row)
}

/// A segment before the start.
#[derive(Debug)]
struct Segment {
    bytes: usize,
    /// Bytes of whole batches with the right checksum, from the first on.
    sound: usize,
    lacks_index: bool,
}

impl Case<'_> {
    /// The segments in use, in order.
    fn segments(&self) -> Vec<Segment> {
        let is_log = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "log");
        let here = self.state.files.iter().filter(|(path, _)| path.starts_with(self.dir));
        here.filter(|(path, _)| is_log(path))
            .map(|(path, bytes)| Segment {
                bytes: bytes.len(),
                sound: sound_bytes(bytes),
                lacks_index: ["index", "timeindex"]
                    .iter()
                    .any(|kind| !self.state.files.contains_key(&path.with_extension(kind))),
            })
            .collect()
    }

    /// The difference, for a person.
    pub(super) fn told(&self) -> String {
        format!(
            "clean {}, recovery point {}, log start {}\n  ours    {:?}\n  Kafka's {:?}\n  {:?}",
            self.is_clean,
            self.recovery_point,
            self.log_start,
            self.ours,
            self.kafka,
            self.segments()
        )
    }
}

fn sound_bytes(bytes: &[u8]) -> usize {
    let mut sound = 0;
    for entry in Entries::new(bytes, Position::new(0)) {
        match entry {
            Ok(Entry::Batch(batch)) if batch.verify_crc().is_ok() => {
                sound += usize::try_from(batch.header().size_bytes()).unwrap_or(0);
            }
            _ => break,
        }
    }
    sound
}
