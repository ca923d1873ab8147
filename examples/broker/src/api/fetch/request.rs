//! Reads the request by hand: no field of it can claim more than the frame holds.

use alluvium_record_format::Uuid;

use crate::net::Header;
use crate::wire::{Malformed, Reader};

/// What a client asks for.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) replica_id: i32,
    pub(super) max_wait_ms: i32,
    pub(super) min_bytes: i32,
    pub(super) max_bytes: i32,
    pub(super) isolation_level: i8,
    pub(super) session_id: i32,
    pub(super) topics: Vec<TopicAsked>,
}

#[derive(Debug)]
pub(super) struct TopicAsked {
    /// Up to version 12.
    pub(super) name: String,
    /// From version 13 on.
    pub(super) id: Uuid,
    pub(super) partitions: Vec<Asked>,
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) partition: i32,
    pub(super) current_leader_epoch: i32,
    pub(super) fetch_offset: i64,
    pub(super) last_fetched_epoch: i32,
    pub(super) max_bytes: i32,
}

impl Request {
    pub(super) fn read(header: &Header, frame: &[u8]) -> Result<Self, Malformed> {
        let version = header.version;
        let mut reader = Reader::new(frame, version >= 12);
        reader.skip(header.len)?;
        // Later versions have it in a tagged field, which consumers leave out.
        let replica_id = if version <= 14 { reader.i32()? } else { -1 };
        let (max_wait_ms, min_bytes) = (reader.i32()?, reader.i32()?);
        let (max_bytes, isolation_level) = (reader.i32()?, reader.i8()?);
        let session_id = if version >= 7 { reader.i32()? } else { 0 };
        if version >= 7 {
            reader.i32()?; // the epoch of a session that does not exist
        }
        let mut topics = Vec::new();
        for _ in 0..reader.count()?.unwrap_or(0) {
            topics.push(TopicAsked::read(version, &mut reader)?);
        }
        // What follows concerns sessions and racks.
        Ok(Self {
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            topics,
        })
    }

    /// Whether it asks for so many partitions that reading them takes long.
    pub(super) fn is_wide(&self) -> bool {
        self.topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() > WIDE
    }
}

impl TopicAsked {
    fn read(version: i16, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (mut name, mut id) = (String::new(), Uuid::default());
        if version >= 13 {
            id = reader.uuid()?;
        } else {
            reader.string()?.unwrap_or_default().clone_into(&mut name);
        }
        let mut partitions = Vec::new();
        for _ in 0..reader.count()?.unwrap_or(0) {
            partitions.push(Asked::read(version, reader)?);
        }
        reader.tagged_fields()?;
        Ok(Self { name, id, partitions })
    }
}

impl Asked {
    fn read(version: i16, reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        let partition = reader.i32()?;
        let current_leader_epoch = if version >= 9 { reader.i32()? } else { -1 };
        let fetch_offset = reader.i64()?;
        let last_fetched_epoch = if version >= 12 { reader.i32()? } else { -1 };
        if version >= 5 {
            reader.i64()?; // the log start of a follower
        }
        let max_bytes = reader.i32()?;
        reader.tagged_fields()?;
        Ok(Self { partition, current_leader_epoch, fetch_offset, last_fetched_epoch, max_bytes })
    }
}

/// Partitions whose reads cost several times what a hand-over to another thread costs.
const WIDE: usize = 100;
