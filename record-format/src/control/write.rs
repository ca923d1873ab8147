//! Encodes control records.

use alloc::vec::Vec;

use super::{ControlRecord, Endpoint, KRaftVoter, KRaftVoters, LeaderChange, Voter};
use crate::varint::write_u32;

impl ControlRecord {
    /// The key: version 0 and the type.
    #[must_use]
    pub const fn key(&self) -> [u8; 4] {
        let [high, low] = self.type_id().to_be_bytes();
        [0, 0, high, low]
    }

    /// Appends the value, byte for byte as Kafka writes it. An unknown record has none.
    pub fn write_value(&self, out: &mut Vec<u8>) {
        match self {
            Self::EndTxn(marker) => {
                out.extend_from_slice(&[0, 0]);
                out.extend_from_slice(&marker.coordinator_epoch.to_be_bytes());
            }
            Self::LeaderChange(change) => leader_change(out, change),
            Self::SnapshotHeader(header) => {
                out.extend_from_slice(&header.version.to_be_bytes());
                let time = header.last_contained_log_timestamp.get();
                out.extend_from_slice(&time.to_be_bytes());
                no_tagged_fields(out);
            }
            Self::SnapshotFooter(footer) => {
                out.extend_from_slice(&footer.version.to_be_bytes());
                no_tagged_fields(out);
            }
            Self::KRaftVersion(note) => {
                out.extend_from_slice(&note.version.to_be_bytes());
                out.extend_from_slice(&note.kraft_version.to_be_bytes());
                no_tagged_fields(out);
            }
            Self::KRaftVoters(note) => kraft_voters(out, note),
            Self::Unknown { .. } => {}
        }
    }
}

fn leader_change(out: &mut Vec<u8>, change: &LeaderChange) {
    out.extend_from_slice(&change.version.to_be_bytes());
    out.extend_from_slice(&change.leader_id.to_be_bytes());
    for voters in [&change.voters, &change.granting_voters] {
        length(out, voters.len());
        for voter in voters {
            leader_voter(out, voter, change.version >= 1);
        }
    }
    no_tagged_fields(out);
}

fn leader_voter(out: &mut Vec<u8>, voter: &Voter, with_directory: bool) {
    out.extend_from_slice(&voter.voter_id.to_be_bytes());
    if with_directory {
        out.extend_from_slice(&voter.voter_directory_id.unwrap_or_default().into_bytes());
    }
    no_tagged_fields(out);
}

fn kraft_voters(out: &mut Vec<u8>, note: &KRaftVoters) {
    out.extend_from_slice(&note.version.to_be_bytes());
    length(out, note.voters.len());
    for voter in &note.voters {
        kraft_voter(out, voter);
    }
    no_tagged_fields(out);
}

fn kraft_voter(out: &mut Vec<u8>, voter: &KRaftVoter) {
    out.extend_from_slice(&voter.voter_id.to_be_bytes());
    out.extend_from_slice(&voter.voter_directory_id.into_bytes());
    length(out, voter.endpoints.len());
    for Endpoint { name, host, port } in &voter.endpoints {
        for text in [name, host] {
            length(out, text.len());
            out.extend_from_slice(text.as_bytes());
        }
        out.extend_from_slice(&port.to_be_bytes());
        no_tagged_fields(out);
    }
    out.extend_from_slice(&voter.min_supported_version.to_be_bytes());
    out.extend_from_slice(&voter.max_supported_version.to_be_bytes());
    no_tagged_fields(out); // of the range of versions
    no_tagged_fields(out);
}

/// A length, stored one too high so that 0 can be null.
fn length(out: &mut Vec<u8>, len: usize) {
    write_u32(out, u32::try_from(len).unwrap_or(u32::MAX).saturating_add(1));
}

fn no_tagged_fields(out: &mut Vec<u8>) {
    out.push(0);
}
