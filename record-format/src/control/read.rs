//! Decodes control records. KRaft's use Kafka's flexible encoding: lengths are unsigned varints
//! one too high, and tagged fields, all unknown to us, close each structure.

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    ControlRecord, EndTxnMarker, Endpoint, KRaftVersion, KRaftVoter, KRaftVoters, LeaderChange,
    SnapshotFooter, SnapshotHeader, TxnOutcome, Voter,
};
use crate::varint::read_u32;
use crate::{Timestamp, Uuid};

/// The value of a control record of this type; `None` where it breaks the rules.
pub(super) fn value(type_id: i16, bytes: &[u8]) -> Option<ControlRecord> {
    let mut input = Input { rest: bytes };
    let record = match type_id {
        0 => ControlRecord::EndTxn(input.marker(TxnOutcome::Abort)?),
        1 => ControlRecord::EndTxn(input.marker(TxnOutcome::Commit)?),
        2 => ControlRecord::LeaderChange(input.leader_change()?),
        3 => ControlRecord::SnapshotHeader(input.snapshot_header()?),
        4 => ControlRecord::SnapshotFooter(input.snapshot_footer()?),
        5 => ControlRecord::KRaftVersion(input.kraft_version()?),
        6 => ControlRecord::KRaftVoters(input.kraft_voters()?),
        type_id => ControlRecord::Unknown { type_id },
    };
    Some(record)
}

struct Input<'a> {
    rest: &'a [u8],
}

impl Input<'_> {
    fn marker(&mut self, outcome: TxnOutcome) -> Option<EndTxnMarker> {
        self.version()?;
        Some(EndTxnMarker { outcome, coordinator_epoch: self.i32()? })
    }

    fn leader_change(&mut self) -> Option<LeaderChange> {
        let version = self.version()?;
        let voter = |input: &mut Self| input.voter(version >= 1);
        let change = LeaderChange {
            version,
            leader_id: self.i32()?,
            voters: self.array(voter)?,
            granting_voters: self.array(voter)?,
        };
        self.tagged_fields()?;
        Some(change)
    }

    fn voter(&mut self, with_directory: bool) -> Option<Voter> {
        let voter_id = self.i32()?;
        let voter_directory_id = if with_directory { Some(self.uuid()?) } else { None };
        self.tagged_fields()?;
        Some(Voter { voter_id, voter_directory_id })
    }

    fn snapshot_header(&mut self) -> Option<SnapshotHeader> {
        let version = self.version()?;
        let last_contained_log_timestamp = Timestamp::new(i64::from_be_bytes(self.take()?));
        self.tagged_fields()?;
        Some(SnapshotHeader { version, last_contained_log_timestamp })
    }

    fn snapshot_footer(&mut self) -> Option<SnapshotFooter> {
        let version = self.version()?;
        self.tagged_fields()?;
        Some(SnapshotFooter { version })
    }

    fn kraft_version(&mut self) -> Option<KRaftVersion> {
        let version = self.version()?;
        let kraft_version = self.i16()?;
        self.tagged_fields()?;
        Some(KRaftVersion { version, kraft_version })
    }

    fn kraft_voters(&mut self) -> Option<KRaftVoters> {
        let version = self.version()?;
        let voters = self.array(Self::kraft_voter)?;
        self.tagged_fields()?;
        Some(KRaftVoters { version, voters })
    }

    fn kraft_voter(&mut self) -> Option<KRaftVoter> {
        let voter_id = self.i32()?;
        let voter_directory_id = self.uuid()?;
        let endpoints = self.array(Self::endpoint)?;
        let min_supported_version = self.i16()?;
        let max_supported_version = self.i16()?;
        self.tagged_fields()?; // of the range of versions
        self.tagged_fields()?;
        Some(KRaftVoter {
            voter_id,
            voter_directory_id,
            endpoints,
            min_supported_version,
            max_supported_version,
        })
    }

    fn endpoint(&mut self) -> Option<Endpoint> {
        let name = self.string()?;
        let host = self.string()?;
        let port = u16::from_be_bytes(self.take()?);
        self.tagged_fields()?;
        Some(Endpoint { name, host, port })
    }

    /// The version of a value, not negative.
    fn version(&mut self) -> Option<i16> {
        self.i16().filter(|version| *version >= 0)
    }

    /// An array that may not be null. Room grows with the elements, not with the count.
    fn array<T>(&mut self, element: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count = self.length()?;
        if count > self.rest.len() {
            return None;
        }
        (0..count).map(|_| element(self)).collect()
    }

    /// A string that may not be null; bytes that are not UTF-8 are replaced, as in Kafka.
    fn string(&mut self) -> Option<String> {
        let len = self.length()?;
        self.bytes(len).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    fn tagged_fields(&mut self) -> Option<()> {
        for _ in 0..self.unsigned()? {
            let _tag = self.unsigned()?;
            let len = self.unsigned()?;
            self.bytes(usize::try_from(len).ok()?)?;
        }
        Some(())
    }

    /// A length, stored one too high so that 0 can be null.
    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.unsigned()?.checked_sub(1)?).ok()
    }

    fn unsigned(&mut self) -> Option<u32> {
        let (value, rest) = read_u32(self.rest).ok()?;
        self.rest = rest;
        Some(value)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn uuid(&mut self) -> Option<Uuid> {
        self.take().map(Uuid::from_bytes)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*field)
    }

    fn bytes(&mut self, len: usize) -> Option<&[u8]> {
        let (field, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(field)
    }
}
