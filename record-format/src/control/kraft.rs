//! What KRaft notes in the metadata log and its snapshots. Fields carry Kafka's names; the
//! versions are those of the stored records.

use alloc::string::String;
use alloc::vec::Vec;

use crate::{Timestamp, Uuid};

/// A leader was elected. Source: `LeaderChangeMessage` in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderChange {
    /// 0, or 1 with the directories of the voters.
    pub version: i16,
    /// The node that leads.
    pub leader_id: i32,
    /// All who could vote.
    pub voters: Vec<Voter>,
    /// Those who voted for the leader.
    pub granting_voters: Vec<Voter>,
}

impl LeaderChange {
    /// A note of version 0, as Kafka 4.4 writes it.
    #[must_use]
    pub const fn new(leader_id: i32, voters: Vec<Voter>, granting_voters: Vec<Voter>) -> Self {
        Self { version: 0, leader_id, voters, granting_voters }
    }
}

/// A voter of an election.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Voter {
    /// The node.
    pub voter_id: i32,
    /// The directory of its metadata log, from version 1 on.
    pub voter_directory_id: Option<Uuid>,
}

impl Voter {
    /// A voter of a note of version 0.
    #[must_use]
    pub const fn new(voter_id: i32) -> Self {
        Self { voter_id, voter_directory_id: None }
    }
}

/// A snapshot begins. Source: `SnapshotHeaderRecord` in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotHeader {
    /// 0.
    pub version: i16,
    /// When the last record of the log that the snapshot holds was appended.
    pub last_contained_log_timestamp: Timestamp,
}

/// A snapshot ends. Source: `SnapshotFooterRecord` in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnapshotFooter {
    /// 0.
    pub version: i16,
}

/// The protocol of the quorum changes. Source: `KRaftVersionRecord` in Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KRaftVersion {
    /// 0.
    pub version: i16,
    /// The protocol's version.
    pub kraft_version: i16,
}

/// Who votes from here on. Source: `VotersRecord` in Kafka.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KRaftVoters {
    /// 0.
    pub version: i16,
    /// The voters.
    pub voters: Vec<KRaftVoter>,
}

/// A voter and how to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KRaftVoter {
    /// The node.
    pub voter_id: i32,
    /// The directory of its metadata log.
    pub voter_directory_id: Uuid,
    /// Where it listens.
    pub endpoints: Vec<Endpoint>,
    /// The oldest version of the protocol that it speaks.
    pub min_supported_version: i16,
    /// The newest version of the protocol that it speaks.
    pub max_supported_version: i16,
}

/// Where a voter listens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Endpoint {
    /// The listener's name.
    pub name: String,
    /// The host.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}
