//! The settings of topics and brokers in the cluster, from the metadata log beside the partitions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use alluvium_record_format::{Corruption, Entry, Offset};
use alluvium_recovery::MetaProperties;
use alluvium_segment::Io;

use crate::console::Console;
use crate::error::CliError;
use crate::inflate::Inflater;
use crate::log_file::LogFile;
use crate::partition::Partition;
use crate::walk::{Step, Walk};

/// Settings of one topic or broker by key.
pub(crate) type Keys = BTreeMap<String, String>;

/// What the metadata log of a log directory says of topics and brokers.
#[derive(Debug, Default)]
pub(crate) struct TopicSettings {
    names: BTreeMap<[u8; 16], String>,
    keys: BTreeMap<String, Keys>,
    /// By the broker's id; those under no id are all brokers'.
    brokers: BTreeMap<String, Keys>,
    /// The id of the broker that the log directory belongs to.
    node: Option<i32>,
    damage: Vec<Damage>,
}

/// A place in the metadata log that could not be read.
#[derive(Debug)]
struct Damage {
    path: PathBuf,
    at: u64,
    /// What is wrong; `None` for a file that ends inside a batch.
    what: Option<Corruption>,
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
        let meta = MetaProperties::read(&Io::new(), log_dir).ok().flatten();
        settings.node = meta.and_then(|meta| meta.node_id);
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

    /// What was set for the broker of the log directory: its own before that of all brokers.
    pub(crate) fn of_broker(&self) -> Keys {
        let mut keys = self.brokers.get("").cloned().unwrap_or_default();
        let own = self.node.and_then(|node| self.brokers.get(&node.to_string()));
        keys.extend(own.cloned().unwrap_or_default());
        keys
    }

    /// Names the damage of the metadata log. What it hid may be any setting, so that nothing must
    /// be changed by those that are left.
    pub(crate) fn name_damage(
        &self,
        is_dry_run: bool,
        console: &mut Console,
    ) -> Result<(), CliError> {
        for Damage { path, at, what } in &self.damage {
            match what {
                Some(corruption) => console.corruption(path, *corruption)?,
                None => console.damage(path, *at, "no whole batch is left")?,
            }
        }
        match self.damage.first() {
            Some(damage) if !is_dry_run => {
                Err(CliError::DamagedSettings { path: damage.path.clone() })
            }
            _ => Ok(()),
        }
    }

    /// Follows the batches from offset `from` on. Damage is passed over and noted, as the metadata
    /// log may be in use.
    fn read_file(&mut self, path: &Path, from: Offset) -> Result<(), CliError> {
        let file = LogFile::open(path)?;
        let (mut walk, mut inflater) = (Walk::new(&file, 0), Inflater::default());
        let damage = |at, what| Damage { path: path.to_path_buf(), at, what };
        loop {
            let head = match walk.step()? {
                Step::Entry(head) => head,
                Step::End => return Ok(()),
                Step::Damage { at, corruption, .. } => {
                    self.damage.push(damage(at, Some(corruption)));
                    continue;
                }
                Step::Tail { at, .. } => {
                    self.damage.push(damage(at, None));
                    continue;
                }
            };
            let is_control = head.header.is_none_or(|header| header.attributes().is_control());
            if head.base_offset < from || is_control {
                continue;
            }
            let followed = walk.entry(&head)?.and_then(|entry: Entry<'_>| {
                entry.verify_crc()?;
                inflater.visit(&entry, |record| {
                    record.value.and_then(|value| self.record(value));
                    ControlFlow::<()>::Continue(())
                })
            });
            if let Err(corruption) = followed {
                self.damage.push(damage(head.position, Some(corruption)));
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
            CONFIG_RECORD => {
                let of = match fields.take(1)? {
                    [TOPIC] => &mut self.keys,
                    [BROKER] => &mut self.brokers,
                    _ => return None,
                };
                let (name, key, value) = (fields.text()??, fields.text()??, fields.text()?);
                let keys = of.entry(name).or_default();
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

/// The kinds of resources that have settings of logs.
const TOPIC: u8 = 2;
const BROKER: u8 = 4;

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
    fn what_a_broker_has_of_its_own_goes_before_what_all_have() {
        let broker =
            |name: &[u8], value: u8| [&[1, 4, 0, 4][..], name, &[2, b'k', 2, value, 0]].concat();
        let mut set = after(&[broker(&[1], b'a'), broker(&[2, b'7'], b'b')]);
        let keys = |value: &str| Keys::from([("k".to_owned(), value.to_owned())]);
        for (node, expected) in [(None, "a"), (Some(8), "a"), (Some(7), "b")] {
            set.node = node;
            assert_eq!(set.of_broker(), keys(expected), "{node:?}");
        }
        assert_eq!(set.of("7"), None);
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
