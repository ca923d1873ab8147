//! Control records: transaction markers and the notes of KRaft. Layout:
//! `docs/format/record-batch.md#control-records`.

mod kraft;
mod marker;
mod read;
mod write;

use crate::CorruptKind;

pub use kraft::{
    Endpoint, KRaftVersion, KRaftVoter, KRaftVoters, LeaderChange, SnapshotFooter, SnapshotHeader,
    Voter,
};
pub use marker::{EndTxnMarker, TxnOutcome};

/// A record of a control batch, decoded.
///
/// Owns what it holds: control records are small and rare.
///
/// # Examples
///
/// ```
/// # use alluvium_record_format::{ControlRecord, TxnOutcome};
/// let record = ControlRecord::parse(Some(&[0, 0, 0, 1]), Some(&[0, 0, 0, 0, 0, 9]))?;
/// let ControlRecord::EndTxn(marker) = record else { panic!("type 1 ends a transaction") };
/// assert_eq!((marker.outcome, marker.coordinator_epoch), (TxnOutcome::Commit, 9));
/// # Ok::<(), alluvium_record_format::CorruptKind>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlRecord {
    /// Types 0 and 1: a transaction of the batch's producer ended.
    EndTxn(EndTxnMarker),
    /// Type 2: a leader of the metadata log was elected.
    LeaderChange(LeaderChange),
    /// Type 3: a metadata snapshot begins.
    SnapshotHeader(SnapshotHeader),
    /// Type 4: a metadata snapshot ends.
    SnapshotFooter(SnapshotFooter),
    /// Type 5: the version of the KRaft protocol.
    KRaftVersion(KRaftVersion),
    /// Type 6: who votes in the quorum.
    KRaftVoters(KRaftVoters),
    /// Any other type. Readers go on; its value is not looked at.
    Unknown {
        /// The type as stored.
        type_id: i16,
    },
}

impl ControlRecord {
    /// Decodes key and value of a record of a control batch.
    ///
    /// Versions above those known are read as the newest known one, as Kafka reads them.
    ///
    /// # Errors
    ///
    /// `ControlRecord` for a key below four bytes, a negative version, a value that ends early
    /// or holds what its type forbids.
    pub fn parse(key: Option<&[u8]>, value: Option<&[u8]>) -> Result<Self, CorruptKind> {
        let type_id = Self::type_of(key)?;
        read::value(type_id, value.unwrap_or_default()).ok_or(CorruptKind::ControlRecord)
    }

    /// The type that a control record's key names: 0 abort, 1 commit, and so on.
    ///
    /// Source: `ControlRecordType.parseTypeId` in Kafka.
    ///
    /// # Errors
    ///
    /// `ControlRecord` for a key below four bytes or of a negative version.
    pub fn type_of(key: Option<&[u8]>) -> Result<i16, CorruptKind> {
        match key.and_then(<[u8]>::first_chunk) {
            Some(&[version, _, high, low]) if version < 0x80 => Ok(i16::from_be_bytes([high, low])),
            _ => Err(CorruptKind::ControlRecord),
        }
    }

    /// The type as it stands in the key.
    #[must_use]
    pub const fn type_id(&self) -> i16 {
        match self {
            Self::EndTxn(marker) => marker.outcome.type_id(),
            Self::LeaderChange(_) => 2,
            Self::SnapshotHeader(_) => 3,
            Self::SnapshotFooter(_) => 4,
            Self::KRaftVersion(_) => 5,
            Self::KRaftVoters(_) => 6,
            Self::Unknown { type_id } => *type_id,
        }
    }
}
