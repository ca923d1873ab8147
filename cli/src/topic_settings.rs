//! The settings that topics have of their own, from the metadata log beside them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use alluvium_record_format::{Entry, Offset};

use crate::error::CliError;
use crate::inflate::Inflater;
use crate::log_file::LogFile;
use crate::partition::Partition;
use crate::walk::{Step, Walk};

/// Settings of one topic by key.
pub(crate) type Keys = BTreeMap<String, String>;

/// What the metadata log of a log directory says of topics.
#[derive(Debug, Default)]
pub(crate) struct TopicSettings {
    names: BTreeMap<[u8; 16], String>,
    keys: BTreeMap<String, Keys>,
}

impl TopicSettings {
    /// Reads `__cluster_metadata-0` of a log directory: its newest snapshot, and the log from
    /// there on. Without one, nothing is known of any topic.
    pub(crate) fn read(log_dir: &Path) -> Result<Self, CliError> {
        let mut settings = Self::default();
        let dir = log_dir.join("__cluster_metadata-0");
        if !dir.is_dir() {
            return Ok(settings);
        }
        let partition = Partition::read(&dir)?;
        let snapshot = partition.others.iter().filter_map(|other| {
            let (number, extension) = other.name.to_str()?.split_once('.')?;
            let (offset, _epoch) = number.split_once('-').filter(|_| extension == "checkpoint")?;
            Some((Offset::new(offset.parse().ok()?), &other.path))
        });
        let mut from = Offset::new(0);
        if let Some((offset, path)) = snapshot.max_by_key(|(offset, _)| *offset) {
            settings.read_file(path, Offset::new(0))?;
            from = offset;
        }
        for (_, log) in partition.logs() {
            settings.read_file(&log.path, from)?;
        }
        Ok(settings)
    }

    /// What was set at a topic; `None` where the topic is not known.
    pub(crate) fn of(&self, topic: &str) -> Option<&Keys> {
        self.keys.get(topic)
    }

    /// All topics, and what was set at each.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Keys)> {
        self.keys.iter().map(|(topic, keys)| (topic.as_str(), keys))
    }

    /// Follows the batches from offset `from` on. What cannot be read is passed over, as the
    /// metadata log may be in use.
    fn read_file(&mut self, path: &Path, from: Offset) -> Result<(), CliError> {
        let file = LogFile::open(path)?;
        let (mut walk, mut inflater) = (Walk::new(&file, 0), Inflater::default());
        loop {
            let head = match walk.step()? {
                Step::Entry(head) => head,
                Step::End => return Ok(()),
                Step::Damage { .. } | Step::Tail { .. } => continue,
            };
            let is_control = head.header.is_none_or(|header| header.attributes().is_control());
            if head.base_offset < from || is_control {
                continue;
            }
            if let Ok(entry @ Entry::Batch(_)) = walk.entry(&head)? {
                // A batch that breaks off says what comes before.
                let _ = inflater.visit(&entry, |record| {
                    record.value.and_then(|value| self.record(value));
                    ControlFlow::<()>::Continue(())
                });
            }
        }
    }

    /// Follows one record. Kinds that are none of ours, and what is cut short, say nothing.
    ///
    /// Source: `TopicRecord.json`, `ConfigRecord.json` and `RemoveTopicRecord.json` in Kafka.
    fn record(&mut self, value: &[u8]) -> Option<()> {
        let mut fields = Fields(value);
        let (_frame, kind, _version) = (fields.varint()?, fields.varint()?, fields.varint()?);
        match kind {
            TOPIC_RECORD => {
                let name = fields.text()??;
                let id = fields.take(16)?.try_into().ok()?;
                self.keys.insert(name.clone(), Keys::new());
                self.names.insert(id, name);
            }
            REMOVE_TOPIC_RECORD => {
                let id: [u8; 16] = fields.take(16)?.try_into().ok()?;
                self.keys.remove(&self.names.remove(&id)?);
            }
            CONFIG_RECORD if fields.take(1)? == [TOPIC] => {
                let (topic, key, value) = (fields.text()??, fields.text()??, fields.text()?);
                let keys = self.keys.entry(topic).or_default();
                match value {
                    Some(value) => keys.insert(key, value),
                    None => keys.remove(&key),
                };
            }
            _ => {}
        }
        Some(())
    }
}

/// The fields of a record that are left.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// An unsigned number of seven bits a byte, the lowest first.
    fn varint(&mut self) -> Option<u32> {
        let mut number = 0;
        for shift in (0..32).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A text: its length and one more, 0 for null.
    #[expect(clippy::option_option, reason = "null is a text, and not a lack of bytes")]
    fn text(&mut self) -> Option<Option<String>> {
        let Some(length) = self.varint()?.checked_sub(1) else { return Some(None) };
        let bytes = self.take(usize::try_from(length).ok()?)?;
        Some(Some(String::from_utf8_lossy(bytes).into_owned()))
    }
}

const TOPIC_RECORD: u32 = 2;
const CONFIG_RECORD: u32 = 4;
const REMOVE_TOPIC_RECORD: u32 = 9;

/// The kind of resource that is a topic.
const TOPIC: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// The topic `t` with the id 7, 7, ...
    fn topic() -> Vec<u8> {
        [&[1, 2, 0, 2, b't'][..], &[7; 16], &[0]].concat()
    }

    fn config(key: u8, value: &[u8]) -> Vec<u8> {
        [&[1, 4, 0, 2, 2, b't', 2, key][..], value, &[0]].concat()
    }

    fn after(records: &[Vec<u8>]) -> TopicSettings {
        let mut settings = TopicSettings::default();
        for record in records {
            settings.record(record);
        }
        settings
    }

    #[test]
    fn a_key_is_set_changed_and_taken_back() {
        let set = after(&[topic(), config(b'k', &[2, b'1']), config(b'k', &[2, b'2'])]);
        assert_eq!(set.of("t"), Some(&Keys::from([("k".to_owned(), "2".to_owned())])));
        let back = after(&[topic(), config(b'k', &[2, b'1']), config(b'k', &[0])]);
        assert_eq!(back.of("t"), Some(&Keys::new()));
        assert_eq!(back.of("u"), None);
    }

    #[test]
    fn a_topic_that_was_deleted_leaves_nothing_to_the_next_one_of_its_name() {
        let remove = [&[1, 9, 0][..], &[7; 16], &[0]].concat();
        let gone = [topic(), config(b'k', &[2, b'1']), remove];
        assert_eq!(after(&gone).of("t"), None);
        let again = [&gone[..], &[topic()]].concat();
        assert_eq!(after(&again).of("t"), Some(&Keys::new()));
    }

    #[test]
    fn records_that_are_cut_short_or_of_other_kinds_say_nothing() {
        let whole = config(b'k', &[2, b'1']);
        for len in 0..whole.len() - 1 {
            assert_eq!(after(&[topic(), whole[..len].to_vec()]).of("t"), Some(&Keys::new()));
        }
        assert_eq!(after(&[vec![1, 3, 0, 2, 2, b't'], vec![0xff; 40]]).keys, BTreeMap::new());
    }
}
