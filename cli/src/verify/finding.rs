//! What `verify` can find: one table that the report, `--json` and `--help` share.

use std::fmt::Display;
use std::path::{Path, PathBuf};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Bytes are lost or will mislead a reader; exit code 1.
    Damage,
    /// Unusual, but sound: no influence on the exit code.
    Note,
}

impl Severity {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Note => "note",
        }
    }
}

/// Declares the kinds: variant, code, severity, meaning, advice.
macro_rules! kinds {
    ($($variant:ident $code:literal $severity:ident $meaning:literal $advice:literal)*) => {
        /// What is wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($variant),* }

        impl Kind {
            /// All kinds, in the order of the help.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in reports and JSON.
            pub(crate) const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code),* }
            }

            pub(crate) const fn severity(self) -> Severity {
                match self { $(Self::$variant => Severity::$severity),* }
            }

            /// What the finding means.
            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),* }
            }

            /// What to do about it.
            pub(crate) const fn advice(self) -> &'static str {
                match self { $(Self::$variant => $advice),* }
            }
        }
    };
}

kinds! {
    BatchBroken "batch-broken" Damage
        "At this byte a batch should begin, but its length or magic cannot be."
        "Take the segment from another replica. Without one, recovery cuts the log here and all \
         later offsets are lost."
    TornTail "torn-tail" Damage
        "The file ends inside a batch, as a crash in the middle of a write leaves it."
        "Start the broker without the clean-shutdown marker: recovery cuts the tail. The records \
         in it were not acknowledged by all replicas unless this one was alone."
    ZeroTail "zero-tail" Damage
        "Zeros follow the last batch: a preallocated file that was not trimmed, or blocks that \
         a power loss kept from the disk."
        "Nothing, if the broker is running with preallocate=true. Else start it without the \
         clean-shutdown marker: recovery cuts the zeros."
    BatchCrc "batch-crc" Damage
        "The bytes of a batch do not match its checksum: they changed after they were written."
        "Take the segment from another replica, and check the disk. Consumers fail at these \
         offsets."
    BatchPayload "batch-payload" Damage
        "The checksum is right, but the records cannot be decompressed or read: the batch was \
         broken before it was written."
        "Look for the client that wrote it. Consumers fail at these offsets and have to seek \
         behind them."
    BatchCount "batch-count" Damage
        "A batch counts no record and holds a payload. Readers pass over it: what is in it is \
         lost to them, without an error."
        "Look for the client that wrote it, or take the segment from another replica."
    RecordOffsets "record-offsets" Note
        "Records whose offsets fall, repeat or leave the range of their batch. Kafka accepts \
         that from clients when a batch is not compressed."
        "Nothing; look at the client that wrote it."
    BatchOrder "batch-order" Damage
        "The offsets of a batch overlap those of the one before or of a neighbour segment, or \
         lie outside the range of the segment. The base offset has no checksum."
        "Take the segment from another replica."
    BatchEpoch "batch-epoch" Damage
        "The leader epoch of a batch is below the one before, or not the one that \
         leader-epoch-checkpoint gives for its offset. The epoch has no checksum."
        "Take the segment from another replica; if only the checkpoint is wrong, delete it, and \
         recovery rebuilds it."
    ControlRecord "control-record" Damage
        "A control batch whose record is no control record."
        "Take the segment from another replica."
    SegmentSize "segment-size" Damage
        "A segment file of more than 2 GiB. Kafka cannot open it."
        "Take the segment from another replica."
    IndexEntry "index-entry" Damage
        "An entry of the offset index does not name a batch and its last offset."
        "Delete the .index file while the broker is stopped, and the clean-shutdown marker with \
         it: recovery rebuilds the index from the log."
    IndexOld "index-old-style" Note
        "Entries of the offset index name the last offset of a later batch, as brokers before \
         4.1 wrote them. Look-ups work."
        "Nothing."
    IndexLength "index-length" Damage
        "The file does not hold whole entries."
        "As for index-entry."
    IndexPadding "index-padding" Note
        "An index of a sealed segment still has its zero padding. Look-ups work but are slow."
        "Nothing; recovery trims it."
    IndexMissing "index-missing" Note
        "A segment without offset or time index."
        "Nothing; the broker rebuilds it at its next start."
    IndexOrphan "index-orphan" Note
        "An index file without the log of its segment."
        "Nothing; the broker deletes it at its next start."
    TimeIndexEntry "time-index-entry" Damage
        "An entry of the time index does not name the batch that first reached its timestamp."
        "Delete the .timeindex file while the broker is stopped, and the clean-shutdown marker \
         with it: recovery rebuilds the index from the log."
    TimeIndexEnd "time-index-end" Damage
        "The time index of a sealed segment does not end with the segment's largest timestamp. \
         Retention and look-ups by time take its last entry for that."
        "As for time-index-entry."
    TxnIndexEntry "txn-index-entry" Damage
        "An entry of the transaction index does not match the log, or a transaction that was \
         aborted has none: read_committed consumers would see its records."
        "Stop the broker, delete the .txnindex file and the clean-shutdown marker: recovery \
         rebuilds it."
    Snapshot "snapshot" Damage
        "A producer snapshot that cannot be read. Kafka falls back to the one before it."
        "Delete it while the broker is stopped; it is rebuilt from the log."
    SnapshotAhead "snapshot-ahead" Note
        "A producer snapshot beyond the end of the log."
        "Nothing; the broker deletes it at its next start."
    EpochFile "epoch-file" Damage
        "leader-epoch-checkpoint cannot be read, or its epochs or offsets do not rise."
        "Delete it while the broker is stopped, and the clean-shutdown marker with it: recovery \
         rebuilds it from the log."
    EpochAhead "epoch-ahead" Note
        "leader-epoch-checkpoint names an epoch that begins beyond the end of the log."
        "Nothing; the broker cuts it off at its next start."
    Metadata "metadata" Damage
        "partition.metadata or meta.properties cannot be read. The broker does not start on it."
        "Write it anew: topic ids are shown by kafka-topics.sh --describe, cluster and node id \
         are those of the other directories."
    Checkpoint "checkpoint" Damage
        "A checkpoint file of the log directory cannot be read."
        "Delete it while the broker is stopped. Without recovery points the logs are scanned at \
         the next start; without log start offsets deleted records come back."
    CheckpointAhead "checkpoint-ahead" Damage
        "A checkpoint names an offset beyond the end of the log: records that had been flushed \
         or replicated are gone."
        "Take the partition from another replica. Check the disk and how the directory was \
         copied."
    LogStart "log-start" Damage
        "The log start offset lies beyond the end of the log. The broker would drop all \
         segments of the partition."
        "Take the partition from another replica, or take its line out of \
         log-start-offset-checkpoint while the broker is stopped."
    CheckpointStranger "checkpoint-stranger" Note
        "A checkpoint names a partition that is not in the directory."
        "Nothing, if the partition was deleted or moved; else its directory is missing."
    Name "name" Damage
        "A name that Kafka trips over: a directory that is no partition, or a file that looks \
         like a segment and is none."
        "Move it out of the log directory."
    LeftOver "left-over" Note
        "A .cleaned or .swap file of a cleaning or split that was interrupted."
        "Nothing; the broker completes or removes it at its next start."
}

/// One finding.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) kind: Kind,
    pub(crate) path: PathBuf,
    /// The byte of the file, where it is about one.
    pub(crate) byte: Option<u64>,
    /// What was found there.
    pub(crate) detail: String,
}

/// Findings in order. Many of a kind about one file are counted, not kept.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    kept: Vec<Finding>,
    counts: Vec<(Kind, PathBuf, u64)>,
}

/// Findings of a kind in one file that are kept. A file with more is bad throughout.
const MOST_OF_A_KIND: u64 = 1_000;

impl Findings {
    /// Adds a finding.
    pub(crate) fn add(
        &mut self,
        kind: Kind,
        path: &Path,
        byte: impl Into<Option<u64>>,
        detail: impl Display,
    ) {
        if self.count(kind, path) <= MOST_OF_A_KIND {
            let (path, byte, detail) = (path.to_path_buf(), byte.into(), detail.to_string());
            self.kept.push(Finding { kind, path, byte, detail });
        }
    }

    /// All findings; where some were left out, one more says how many.
    pub(crate) fn into_vec(self) -> Vec<Finding> {
        let more = self.counts.into_iter().filter_map(|(kind, path, count)| {
            let left_out = count.checked_sub(MOST_OF_A_KIND).filter(|count| *count > 0)?;
            let detail = format!("and {left_out} more of this kind");
            Some(Finding { kind, path, byte: None, detail })
        });
        self.kept.into_iter().chain(more).collect()
    }

    /// Counts one more; returns how many there are.
    fn count(&mut self, kind: Kind, path: &Path) -> u64 {
        let same = |old: &&mut (Kind, PathBuf, u64)| old.0 == kind && old.1 == path;
        if let Some((_, _, count)) = self.counts.iter_mut().find(same) {
            *count += 1;
            return *count;
        }
        self.counts.push((kind, path.to_path_buf(), 1));
        1
    }
}
