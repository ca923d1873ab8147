//! Names of the files and directories of a log. `docs/format/segment.md#names`.

use std::fmt;

use alluvium_record_format::Offset;

/// What one file of a segment holds: its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FileKind {
    /// `.log`: record batches.
    Log,
    /// `.index`: offset to position.
    OffsetIndex,
    /// `.timeindex`: timestamp to offset.
    TimeIndex,
    /// `.txnindex`: aborted transactions.
    TransactionIndex,
    /// `.snapshot`: producer state. Its number need not be the base offset of a segment.
    Snapshot,
}

impl FileKind {
    /// The files that make up one segment, in the order in which they are renamed.
    pub const SEGMENT: [Self; 4] =
        [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TransactionIndex];

    /// The extension, dot included.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::OffsetIndex => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TransactionIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }

    fn from_extension(text: &str) -> Option<Self> {
        [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TransactionIndex, Self::Snapshot]
            .into_iter()
            .find(|kind| kind.extension() == text)
    }
}

/// What stands after the extension of a file that is not in normal use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Suffix {
    /// In use.
    #[default]
    None,
    /// `.deleted`: waits for its removal.
    Deleted,
    /// `.cleaned`: output of a cleaning or a split, being written.
    Cleaned,
    /// `.swap`: complete, replaces the segments that it covers.
    Swap,
}

impl Suffix {
    /// The text, empty for [`Suffix::None`].
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
        }
    }

    /// Takes the suffix off a file name.
    fn split(name: &str) -> (&str, Self) {
        for suffix in [Self::Deleted, Self::Cleaned, Self::Swap] {
            if let Some(stem) = name.strip_suffix(suffix.text()) {
                return (stem, suffix);
            }
        }
        (name, Self::None)
    }

    pub(crate) const fn to_u8(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Deleted => 1,
            Self::Cleaned => 2,
            Self::Swap => 3,
        }
    }

    pub(crate) const fn from_u8(raw: u8) -> Self {
        match raw {
            1 => Self::Deleted,
            2 => Self::Cleaned,
            3 => Self::Swap,
            _ => Self::None,
        }
    }
}

/// The name of a file that belongs to a segment, or of a producer snapshot.
///
/// # Examples
///
/// ```
/// use alluvium_segment::{FileKind, SegmentFileName, Suffix};
///
/// let name = SegmentFileName::parse("00000000000000000042.index.swap").unwrap();
/// assert_eq!(name.offset.get(), 42);
/// assert_eq!(name.kind, FileKind::OffsetIndex);
/// assert_eq!(name.suffix, Suffix::Swap);
/// assert!(SegmentFileName::parse("42.index").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name has these three parts and no more")]
pub struct SegmentFileName {
    /// The number: the base offset of the segment, or the offset of the snapshot.
    pub offset: Offset,
    /// The extension.
    pub kind: FileKind,
    /// What stands after it.
    pub suffix: Suffix,
}

impl SegmentFileName {
    /// The name of a file in use.
    #[must_use]
    pub const fn new(offset: Offset, kind: FileKind) -> Self {
        Self { offset, kind, suffix: Suffix::None }
    }

    /// The same file under another suffix.
    #[must_use]
    pub const fn with_suffix(self, suffix: Suffix) -> Self {
        Self { suffix, ..self }
    }

    /// Reads a name; `None` unless it is one that a log writes itself: 20 digits that fit into
    /// an `i64`, a known extension, at most one suffix.
    ///
    /// Stricter than Kafka, which takes any digits and then opens another file. Everything else
    /// in the directory is left alone.
    ///
    /// Source: `LocalLog.offsetFromFileName` in Kafka; `docs/format/segment.md#names`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, suffix) = Suffix::split(name);
        let (digits, extension) = stem.split_at_checked(DIGITS)?;
        let kind = FileKind::from_extension(extension)?;
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let offset = Offset::new(digits.parse().ok()?);
        Some(Self { offset, kind, suffix })
    }
}

impl fmt::Display for SegmentFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, kind, suffix } = self;
        write!(f, "{:020}{}{}", offset.get(), kind.extension(), suffix.text())
    }
}

/// What a partition directory is for: the part of its name after the partition number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PartitionDirState {
    /// `topic-partition`: in use.
    Current,
    /// `topic-partition.ID-delete`: waits for its removal.
    Delete(Box<str>),
    /// `topic-partition.ID-future`: a copy that will take the place of a current one.
    Future(Box<str>),
    /// `topic-partition.ID-stray`: a partition that does not belong to this broker.
    Stray(Box<str>),
}

impl PartitionDirState {
    /// The text after the id, and the id.
    fn parts(&self) -> Option<(&str, &'static str)> {
        match self {
            Self::Current => None,
            Self::Delete(id) => Some((id, DELETE)),
            Self::Future(id) => Some((id, FUTURE)),
            Self::Stray(id) => Some((id, STRAY)),
        }
    }
}

/// The name of a partition directory.
///
/// # Examples
///
/// ```
/// use alluvium_segment::{PartitionDirName, PartitionDirState};
///
/// let name = PartitionDirName::parse("a.b-c-7").unwrap();
/// assert_eq!((name.topic.as_ref(), name.partition), ("a.b-c", 7));
/// assert_eq!(name.state, PartitionDirState::Current);
/// assert!(PartitionDirName::parse("lost+found").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name has these three parts and no more")]
pub struct PartitionDirName {
    /// The topic; cut short in some names of directories that wait for deletion.
    pub topic: Box<str>,
    /// The partition, not negative.
    pub partition: i32,
    /// What the directory is for.
    pub state: PartitionDirState,
}

impl PartitionDirName {
    /// The longest name that is written.
    pub const MAX_LEN: usize = 255;

    /// The name of a directory in use.
    #[must_use]
    pub fn new(topic: &str, partition: i32) -> Self {
        Self { topic: topic.into(), partition, state: PartitionDirState::Current }
    }

    /// The same partition, to be deleted. `unique` tells this directory from others of the name.
    #[must_use]
    pub fn to_delete(&self, unique: u128) -> Self {
        Self { state: PartitionDirState::Delete(id_text(unique)), ..self.clone() }
    }

    /// The same partition, being copied here from another directory.
    #[must_use]
    pub fn to_future(&self, unique: u128) -> Self {
        Self { state: PartitionDirState::Future(id_text(unique)), ..self.clone() }
    }

    /// The same partition, found but not ours.
    #[must_use]
    pub fn to_stray(&self, unique: u128) -> Self {
        Self { state: PartitionDirState::Stray(id_text(unique)), ..self.clone() }
    }

    /// The same partition, in use.
    #[must_use]
    pub fn to_current(&self) -> Self {
        Self { state: PartitionDirState::Current, ..self.clone() }
    }

    /// Reads a name: the partition is the number after the last dash, the topic may hold dots
    /// and dashes. `None` for everything else, which Kafka refuses to start on.
    ///
    /// Source: `LocalLog.parseTopicPartitionName` in Kafka; `docs/format/segment.md#directories`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (plain, state) = split_state(name)?;
        let (topic, partition) = plain.rsplit_once('-')?;
        if topic.is_empty() {
            return None;
        }
        Some(Self { topic: topic.into(), partition: parse_partition(partition)?, state })
    }
}

impl fmt::Display for PartitionDirName {
    /// The name, with the topic cut where deletion or stray would make it too long for a file
    /// system.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, state } = self;
        let Some((id, text)) = state.parts() else { return write!(f, "{topic}-{partition}") };
        let tail = format!("-{partition}.{id}{text}");
        let topic = match state {
            PartitionDirState::Future(_) => topic,
            _ => cut(topic, Self::MAX_LEN.saturating_sub(tail.len())),
        };
        write!(f, "{topic}{tail}")
    }
}

/// Splits off `.ID-delete` and its like; `None` where the name ends like one but is none.
fn split_state(name: &str) -> Option<(&str, PartitionDirState)> {
    let make = |suffix: &str, state: fn(Box<str>) -> PartitionDirState| {
        let stem = name.strip_suffix(suffix)?;
        let (plain, id) = stem.rsplit_once('.')?;
        let sound = !id.is_empty() && !name.contains(char::is_whitespace);
        sound.then(|| (plain, state(id.into())))
    };
    if name.ends_with(DELETE) {
        make(DELETE, PartitionDirState::Delete)
    } else if name.ends_with(FUTURE) {
        make(FUTURE, PartitionDirState::Future)
    } else if name.ends_with(STRAY) {
        make(STRAY, PartitionDirState::Stray)
    } else {
        Some((name, PartitionDirState::Current))
    }
}

/// A partition in the one form that is ever written: no sign, no leading zeros.
fn parse_partition(text: &str) -> Option<i32> {
    let canonical =
        text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if canonical { text.parse().ok() } else { None }
}

/// The longest start of `text` that has at most `max` bytes.
fn cut(text: &str, max: usize) -> &str {
    let mut end = max.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A random id as Kafka writes it: a UUID without its dashes.
fn id_text(unique: u128) -> Box<str> {
    format!("{unique:032x}").into()
}

/// Digits before the extension.
const DIGITS: usize = 20;

const DELETE: &str = "-delete";
const FUTURE: &str = "-future";
const STRAY: &str = "-stray";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_is_written_reads_back() {
        for kind in FileKind::SEGMENT.into_iter().chain([FileKind::Snapshot]) {
            for suffix in [Suffix::None, Suffix::Deleted, Suffix::Cleaned, Suffix::Swap] {
                for raw in [0, 1, 2_147_483_648, i64::MAX] {
                    let name = SegmentFileName { offset: Offset::new(raw), kind, suffix };
                    assert_eq!(SegmentFileName::parse(&name.to_string()), Some(name));
                    assert_eq!(Suffix::from_u8(suffix.to_u8()), suffix);
                }
            }
        }
    }

    /// FR-071: only 20 digits within `i64` count.
    #[test]
    fn names_that_only_look_like_segments_are_none() {
        let wrong = [
            "5.log",
            "junk.log",
            "99999999999999999999.log",
            "-0000000000000000001.log",
            "+0000000000000000001.log",
            "0000000000000000000a.log",
            "000000000000000000001.log",
            "00000000000000000001.log.bak",
            "00000000000000000001.log.swap.deleted",
            "00000000000000000001",
            "0000000000000000000é.log",
            "leader-epoch-checkpoint",
            ".log",
            "",
        ];
        for name in wrong {
            assert_eq!(SegmentFileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn a_directory_name_keeps_its_dots_and_dashes() {
        for (text, topic, partition) in
            [("a.b-c-0", "a.b-c", 0), ("x-12", "x", 12), ("a--3", "a-", 3), ("a.-9", "a.", 9)]
        {
            let name = PartitionDirName::parse(text).unwrap();
            assert_eq!((&*name.topic, name.partition), (topic, partition));
            assert_eq!(name.to_string(), text);
        }
    }

    #[test]
    fn states_read_back_with_their_id() {
        let current = PartitionDirName::new("a.b-c", 7);
        for name in [current.to_delete(5), current.to_future(u128::MAX), current.to_stray(0)] {
            let text = name.to_string();
            assert_eq!(PartitionDirName::parse(&text), Some(name.clone()), "{text}");
            assert_eq!(name.to_current(), current);
        }
        assert_eq!(
            current.to_delete(0xab).to_string(),
            "a.b-c-7.000000000000000000000000000000ab-delete"
        );
    }

    /// FR-057: a topic of 249 characters stays within 255 bytes when renamed for deletion.
    #[test]
    fn a_long_topic_is_cut_for_deletion_and_stray_but_not_for_future() {
        let long = PartitionDirName::new(&"t".repeat(249), 123);
        for name in [long.to_delete(1), long.to_stray(1)] {
            let text = name.to_string();
            assert_eq!(text.len(), PartitionDirName::MAX_LEN);
            assert_eq!(PartitionDirName::parse(&text).unwrap().partition, 123);
        }
        assert!(long.to_future(1).to_string().len() > PartitionDirName::MAX_LEN);
    }

    #[test]
    fn names_that_are_no_partition_are_none() {
        let wrong = [
            "lost+found",
            ".snapshot",
            "topic",
            "-0",
            "topic-",
            "topic-x",
            "topic-+1",
            "topic-007",
            "topic-2147483648",
            "topic-0-delete",
            "topic-0.-delete",
            "to pic-0.abc-delete",
            "topic.abc-future",
            "",
        ];
        for name in wrong {
            assert_eq!(PartitionDirName::parse(name), None, "{name}");
        }
    }
}
