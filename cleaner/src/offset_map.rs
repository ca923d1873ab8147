//! The last offset of every key, in fixed memory.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::hint::black_box;

use alluvium_record_format::Offset;

use crate::hash::KeyHasher;
use crate::memory::{Memory, ROW_BYTES};

/// Maps keys to their last offset, without the keys and without ever growing.
///
/// Counts memory as Kafka does, so that both map the same records in a pass: a slot for every
/// 24 bytes, of which the load factor may be used. Underneath, an entry takes 16 bytes: 80 bits
/// of a keyed 128-bit hash, and an offset of 48 bits relative to that of the last
/// [`clear`](Self::clear). The rest of the hash says where the entry lies. So at most two thirds of
/// the entries are in use where Kafka's map is full: 0.60 with a load factor of 0.9, 0.67 with 1.0.
/// The cleaner's own map leaves a sixteenth of its memory to what its first walk notes: 0.64 and
/// 0.71. A key costs one cache miss. Large maps ask for huge pages.
///
/// Two keys are taken for one if their 80 bits agree and they lie in one run of entries. The hash
/// has a secret, drawn for each map, and of keys of up to 64 bytes any two agree in 80 bits with
/// a probability of 2⁻⁸⁰, whatever the keys are: among `n` keys of a pass any do with less than
/// `n² / 2^81`, 10⁻¹¹ with 128 MiB in full use. That they lie near each other as well makes it
/// `4 n² / (s · 2^80)` for `s` entries and a hash that scatters them evenly: 10⁻¹⁷. Longer keys
/// have the bounds of `SipHash`.
///
/// Source: `SkimpyOffsetMap` in Kafka, which keeps 128 bits of MD5.
///
/// # Examples
///
/// ```
/// use alluvium_cleaner::OffsetMap;
/// use alluvium_record_format::Offset;
///
/// let mut map = OffsetMap::new(1024, 0.9);
/// assert_eq!(map.capacity(), 37); // 0.9 · 42 slots
///
/// map.clear(Offset::new(100));
/// assert!(map.put(b"key", Offset::new(100)));
/// assert!(map.put(b"key", Offset::new(107)));
/// assert_eq!(map.last_offset(b"key"), Some(Offset::new(107)));
/// assert_eq!(map.last_offset(b"other"), None);
/// ```
pub struct OffsetMap {
    hasher: KeyHasher,
    entries: Memory,
    base: Offset,
    len: usize,
    capacity: usize,
    /// The system had no room for what was asked for.
    is_refused: bool,
}

/// What the map knows a key by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Part of the hash, where it stands in an entry.
    tag: u128,
    /// Where the search begins.
    at: usize,
}

/// What became of a record that was put.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Put {
    /// Nothing: the map is full.
    Full,
    /// It is the first of its key.
    New,
    /// Its key was last seen here.
    Replaced(Offset),
}

impl OffsetMap {
    /// A map of `memory_bytes`, of whose slots the part `load_factor` may be used: Kafka's
    /// `log.cleaner.dedupe.buffer.size` a thread, and `log.cleaner.io.buffer.load.factor`.
    ///
    /// The memory is taken from the system as it is first used. If the system has no room for it,
    /// the map takes no key: its [`capacity`](Self::capacity) is 0.
    #[must_use]
    pub fn new(memory_bytes: usize, load_factor: f64) -> Self {
        Self::sharing(memory_bytes, load_factor, 0)
    }

    /// As [`new`](Self::new), but leaves so much of the memory to others.
    pub(crate) fn sharing(memory_bytes: usize, load_factor: f64, others_bytes: usize) -> Self {
        let capacity = kafka_capacity(memory_bytes / KAFKA_SLOT_BYTES, load_factor);
        let own_bytes = memory_bytes.saturating_sub(others_bytes);
        let memory = Memory::zeroed((own_bytes / ROW_BYTES).max(capacity + 1));
        let is_refused = memory.is_none();
        let secret = || RandomState::new().build_hasher().finish();
        Self {
            hasher: KeyHasher::new(secret(), secret()),
            entries: memory.unwrap_or_else(Memory::one_row),
            base: Offset::new(0),
            len: 0,
            capacity: if is_refused { 0 } else { capacity },
            is_refused,
        }
    }

    /// Drops all keys. From now on offsets must be at or above `base`.
    pub fn clear(&mut self, base: Offset) {
        if self.len > 0 {
            self.entries.rows_mut().fill([0; ROW_BYTES]);
            self.len = 0;
        }
        self.base = base;
    }

    /// Notes that `key` was last seen at `offset`. False if nothing was noted, because the map is
    /// full: then that is so for known keys too, as in Kafka.
    #[inline]
    pub fn put(&mut self, key: &[u8], offset: Offset) -> bool {
        !matches!(self.put_at(self.place(key), offset), Put::Full)
    }

    /// As [`put`](Self::put), for a key that was hashed before.
    #[inline]
    pub(crate) fn put_at(&mut self, place: Place, offset: Offset) -> Put {
        if self.len >= self.capacity {
            return Put::Full;
        }
        let Some(relative) = self.relative(offset) else { return Put::Full };
        let at = self.find(place.tag, place.at);
        let entry = (place.tag | relative).to_le_bytes();
        let before =
            u128::from_le_bytes(std::mem::replace(&mut self.entries.rows_mut()[at], entry));
        self.len += usize::from(before == EMPTY);
        self.offset_in(before).map_or(Put::New, Put::Replaced)
    }

    /// The offset that was last noted for `key`.
    #[inline]
    #[must_use]
    pub fn last_offset(&self, key: &[u8]) -> Option<Offset> {
        self.last_offset_at(self.place(key))
    }

    /// As [`last_offset`](Self::last_offset), for a key that was hashed before.
    #[inline]
    pub(crate) fn last_offset_at(&self, place: Place) -> Option<Offset> {
        self.offset_in(u128::from_le_bytes(self.entries.rows()[self.find(place.tag, place.at)]))
    }

    /// Number of keys.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no key.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most keys that it takes.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Whether the system had no room for the map.
    pub(crate) const fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// The offset part of an entry, which is never 0.
    fn relative(&self, offset: Offset) -> Option<u128> {
        let relative = offset.get().checked_sub(self.base.get())?.checked_add(1)?;
        u128::try_from(relative).ok().filter(|relative| (1..=OFFSET_MASK).contains(relative))
    }

    /// The offset of an entry; `None` for a free one.
    #[inline]
    fn offset_in(&self, entry: u128) -> Option<Offset> {
        let relative = i64::try_from(entry & OFFSET_MASK).ok()?.checked_sub(1)?;
        (entry != EMPTY).then(|| Offset::new(self.base.get().saturating_add(relative)))
    }

    /// Reads the entries where the search for these begins: all at once, where one search after
    /// the other would wait for memory each time.
    pub(crate) fn touch(&self, places: impl Iterator<Item = Place>) {
        let entries = self.entries.rows();
        black_box(places.fold(0, |all, place| all ^ u128::from_le_bytes(entries[place.at])));
    }

    /// Hashes a key.
    #[inline]
    pub(crate) fn place(&self, key: &[u8]) -> Place {
        self.place_of(self.hasher.hash(key))
    }

    /// The hasher of its keys.
    pub(crate) const fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Where a key with this hash goes.
    #[inline]
    pub(crate) fn place_of(&self, (first, second): (u64, u64)) -> Place {
        let tag = (u128::from(first) << 64) | (u128::from(second & 0xffff) << OFFSET_BITS);
        let entries = self.entries.rows().len() as u128;
        let at = (u128::from(second >> 16) * entries) >> 48;
        Place { tag, at: usize::try_from(at).unwrap_or(0) }
    }

    /// The entry with this tag, or the free one where it belongs. There always is one.
    #[inline]
    fn find(&self, tag: u128, start: usize) -> usize {
        let is_it = |entry: &[u8; ROW_BYTES]| {
            let entry = u128::from_le_bytes(*entry);
            entry == EMPTY || entry & TAG_MASK == tag
        };
        let (before, after) = self.entries.rows().split_at(start);
        match after.iter().position(is_it) {
            Some(at) => start + at,
            None => before.iter().position(is_it).unwrap_or(0),
        }
    }
}

impl fmt::Debug for OffsetMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OffsetMap")
            .field("len", &self.len)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "cut to a whole number, as Kafka cuts it"
)]
fn kafka_capacity(slots: usize, load_factor: f64) -> usize {
    (slots as f64 * load_factor.clamp(0.0, 1.0)) as usize
}

/// What Kafka's map takes for a key: 16 bytes of hash, 8 of offset.
const KAFKA_SLOT_BYTES: usize = 24;

const EMPTY: u128 = 0;
const OFFSET_BITS: u32 = 48;
const OFFSET_MASK: u128 = (1 << OFFSET_BITS) - 1;
const TAG_MASK: u128 = !OFFSET_MASK;
