//! The pitfalls that `doctor` knows: one table that the report, `--json`, `--help` and
//! `docs/operations.md` share.

/// Declares the pitfalls: variant, id, cause, remedy.
macro_rules! pitfalls {
    ($($variant:ident $id:literal $cause:literal $remedy:literal)*) => {
        /// Something that operators of such logs regret later.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Pitfall { $($variant),* }

        impl Pitfall {
            /// All pitfalls, in the order of the checks.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name in reports, in JSON and for `--ignore`.
            pub(crate) const fn id(self) -> &'static str {
                match self { $(Self::$variant => $id),* }
            }

            /// Why it hurts.
            pub(crate) const fn cause(self) -> &'static str {
                match self { $(Self::$variant => $cause),* }
            }

            /// What to do about it.
            pub(crate) const fn remedy(self) -> &'static str {
                match self { $(Self::$variant => $remedy),* }
            }
        }
    };
}

pitfalls! {
    Atime "atime"
        "Without noatime a read of a file also writes its inode: consumers cause writes, and the \
         active segment, which changes all the time, pays under relatime too."
        "Mount the disk with noatime, in /etc/fstab for good. Nothing in a log directory looks at \
         access times."
    Barriers "barriers"
        "The file system does not make the disk write its cache at a sync. What a flush reported \
         as durable can be lost in a power cut, in any order."
        "Take the option out of /etc/fstab. Only a disk whose write cache survives a power cut may \
         go without barriers."
    FileSystem "file-system"
        "Logs want a local file system that keeps names and data in order over a crash, locks \
         files and maps them. ext4 and XFS are the ones that brokers are run on everywhere."
        "Move the log directory to ext4 or XFS on a local disk. Replication between brokers, not \
         the file system, makes the data safe."
    ParityRaid "parity-raid"
        "With RAID 4, 5 or 6 each small write reads and writes parity as well, and a rebuild takes \
         most of what the disks can do."
        "Use RAID 10, or give the broker the single disks as several log.dirs and let replicas do \
         the rest."
    Rotational "rotational"
        "Each partition is one sequential stream, many of them on one disk are seeks: a rotating \
         disk does about a hundred in a second."
        "Use flash, or keep few partitions with large batches on each disk and catch-up consumers \
         away from it. A virtual disk may claim to rotate: then pass --ignore rotational."
    FreeSpace "free-space"
        "A full disk takes the whole log directory offline, and the partitions with it. Cleaning \
         needs room for a copy of the segments that it merges before it frees the old ones."
        "Lower retention.bytes or retention.ms for the largest topics, move partitions away, or \
         add space. alluvium retain --dry-run says what a setting would free."
    Descriptors "descriptors"
        "A broker keeps the log of every segment open, and a socket for every client. At the limit \
         it can neither roll a segment nor take a connection."
        "Raise LimitNOFILE of the service, or ulimit -n, to 100000 or more. Fewer, larger segments \
         need fewer descriptors."
    Maps "maps"
        "A broker maps two index files for every segment. At vm.max_map_count a roll or a start \
         fails with `Map failed`, as if memory were out."
        "Raise it: sysctl -w vm.max_map_count=262144, and in /etc/sysctl.d for good. Fewer, larger \
         segments need fewer maps."
    FlushEveryMessage "flush-every-message"
        "flush.messages=1 syncs the disk in every append: throughput falls to what the disk syncs \
         in a second. Replicas on other machines already keep what one machine loses."
        "Leave flush.messages and flush.ms at their defaults, and use acks=all with \
         min.insync.replicas=2."
    TinySegments "tiny-segments"
        "Every segment costs a descriptor, two maps, and work at each start, retention and \
         cleaning. Small ones come of a small segment.bytes or segment.ms, and of record times \
         that jump."
        "Raise segment.bytes and segment.ms; on topics with old record times see \
         out-of-order-timestamps. Existing segments go with retention."
    LargeCompactedSegments "large-compacted-segments"
        "The active segment is never cleaned. With the default of 1 GiB or a week, old values and \
         deleted keys stay that long, and readers of the whole topic read them all."
        "Set segment.bytes to about 100 MiB, as Kafka does for its own compacted topics, or \
         max.compaction.lag.ms to what the topic may lag."
    RetentionBelowRoll "retention-below-roll"
        "Only whole segments go, and the active one takes records until it rolls: with \
         retention.ms below segment.ms records stay for up to segment.ms plus retention.ms."
        "Set segment.ms to a fraction of retention.ms, at most a half."
    OutOfOrderTimestamps "out-of-order-timestamps"
        "A segment is as old as its newest record. One late time holds the segment and all behind \
         it back from retention; old times among new ones make segments roll early; a look-up by \
         time goes by the first record that is late enough."
        "Correct the producers' clocks, or set message.timestamp.type=LogAppendTime. alluvium \
         retain --dry-run --explain names the segments that are held back."
    FutureTimestamps "future-timestamps"
        "Retention by time keeps a segment until its newest record is old enough: with a time in \
         the future that is later than anybody expects, and later segments wait for it."
        "Set message.timestamp.after.max.ms so that such records are refused. Those that are there \
         go by retention.bytes, or by kafka-delete-records."
    StuckCleaner "stuck-cleaner"
        "A compacted partition is dirtier than min.cleanable.dirty.ratio allows, or later than \
         max.compaction.lag.ms, and has been for more than a day while the broker ran: the \
         cleaner's thread has died, the partition is marked uncleanable, or its checkpoint points \
         outside the log."
        "Look for the partition in log-cleaner.log. alluvium verify finds damage that stops the \
         cleaner, alluvium compact --dry-run --explain what bounds it; after the repair, or with \
         the broker stopped, alluvium compact cleans."
    HangingTransaction "hanging-transaction"
        "A transaction that its producer never ended holds back read_committed consumers, and the \
         cleaner, at its first offset."
        "End it with kafka-transactions.sh abort. alluvium producers --open names the producer."
    MisspelledSetting "misspelled-setting"
        "A broker passes over keys that it does not know, so a misspelled setting has its default."
        "Correct the key in the file."
}
