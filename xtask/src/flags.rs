//! The command line, on one screen. `cargo xtask --help` is made from the doc lines.

use std::path::PathBuf;

xflags::xflags! {
    /// Tasks of this repository.
    cmd xtask {
        /// What every change must pass: form, lints, layers, tests, features, docs, golden sets.
        /// No network beyond cargo.
        cmd ci {
            /// Only what takes seconds: form, layers, house rules.
            optional --quick
            /// Also everything that needs a real Kafka. `.ci/run` calls this.
            optional --full
        }
        /// The main job in under a minute: a million records written, read, killed, recovered.
        cmd demo {
            /// Appends to this log until killed: the demo starts this itself.
            optional --append-to dir: PathBuf
        }
        /// Formats Rust and TOML, and checks the spelling.
        cmd fmt {
            /// Changes nothing, fails where something would change.
            optional --check
        }
        /// Clippy over all targets and features; a warning fails.
        cmd lint {}
        /// Builds the documentation of all crates; a warning fails.
        cmd docs {}
        /// Checks that dependencies point down, and what each manifest must say.
        cmd layers {}
        /// Checks the house rules that no lint knows: file sizes and names, stray paths.
        cmd house {}
        /// Checks that every section of the format pages that code cites is there.
        cmd spec {}
        /// Builds every feature of every crate alone, and record-format without `std`.
        cmd features {}
        /// Checks licences, sources and doubles of what we depend on, by `deny.toml`.
        cmd deny {
            /// Also known vulnerabilities; their database is on the network.
            optional --advisories
        }
        /// Compares what each library shows to its users with an older commit: what went or changed
        /// breaks them, unless the version says so.
        cmd semver {
            /// A tag or commit.
            required baseline: String
            /// One crate; none: all that are published.
            optional --package name: String
        }
        /// Runs what is read without a lock under model checkers, which choose the thread that goes
        /// on.
        cmd schedules {
            /// Schedules of each test; default 1000.
            optional --count count: u64
            /// What they follow from; default 1.
            optional --seed seed: u64
            /// Runs builds that are wrong on purpose instead: each must be found.
            optional --mutants
        }
        /// Changes functions of the crates that parse and recover, one at a time: some test must
        /// notice. Needs `cargo-mutants`; all of it takes hours.
        cmd mutants {
            /// `K/N`: every N-th mutant from the K-th on, from 0; default `0/1`, all.
            optional --shard shard: String
            /// One crate; default the four of `docs/mutants.md`.
            optional --package name: String
        }
        /// Remakes the repository's own fixtures with a real Kafka.
        cmd golden {
            /// Changes nothing: compares what stands in the repository with a fresh run.
            optional --check
        }
        /// Compares with a live Kafka: what it reads of ours, what we print of a fresh disk.
        cmd oracle {
            /// What the fresh disk is made of; default 2.
            optional --seed seed: u64
            /// Starts no broker: leaves out the parts that need one, takes the repository's own
            /// disk.
            optional --no-broker
            /// One part: `lock`, `written`, `rounds` (a directory that changes hands between us and
            /// a broker), `cleaning` (two cleaners in turns), `brokers` (two brokers in turns),
            /// `salvaged` (a broker serves what was salvaged), `disk`.
            optional --only part: String
        }
        /// Ten thousand partitions, and 100,000 segments in four logs, under 1,024 descriptors:
        /// time to open, memory, descriptors. Release build.
        cmd many-partitions {
            /// Default 10,000.
            optional --partitions count: u32
            /// Of each partition; default 3.
            optional --segments count: u32
            /// Segments of the four logs together; default 100,000.
            optional --one-log count: u32
        }
        /// Appends, reads, retention, rolls, truncations and deletions at the same time: every
        /// batch that a reader gets is compared with what was committed. Release build.
        cmd load {
            /// How long; default 20.
            optional --seconds seconds: u64
        }
        /// Measures each path against its bare twin, in turns; release build.
        cmd bench {
            /// Against Kafka's own log in one warm JVM instead, over the same sizes and batches.
            optional --vs-kafka
            /// One JSON object a line instead of a table.
            optional --json
            /// Fails when a bar is not reached.
            optional --strict
            /// Only benches whose name holds this text.
            optional --only name: String
            /// Rounds a bench, at least 501.
            optional --slices count: usize
        }
        /// Shows by `strace` that a GiB is served by `sendfile`, and copied over TLS.
        cmd strace {
            /// Fetches so many MiB instead.
            optional --mib count: u64
        }
        /// Runs real Kafka clients against the example broker: every codec, seeks, limits, admin
        /// calls, hostile frames, a kill. Installs the clients it needs below `target/`.
        cmd clients {
            /// Instead, measures it beside a real Kafka with the same clients; release build.
            optional --bench
            /// With `--bench`: one round of an eighth of the load. Shows that it runs, no more.
            optional --quick
            /// Instead, for so many seconds: 50 clients, kills, deletions; what was acknowledged
            /// must be there in the end.
            optional --soak seconds: u64
        }
        /// Puts a log of ours through what Kafka's own log went through: same results, same files.
        cmd replay {
            /// Folders with a `trace.jsonl` and its `final/`; none: the repository's own.
            repeated dirs: PathBuf
        }
        /// Cleans logs that Kafka's own cleaner cleaned: same files, same numbers.
        cmd replay-compaction {
            /// Folders with a folder for each kind: `params.json`, `pass-N/before`, `pass-N/after`;
            /// none: the repository's own.
            repeated dirs: PathBuf
        }
        /// Records the system calls of a workload, builds the disk states that a power cut may
        /// leave, and has each recovered.
        cmd crash {
            /// Seconds; default 60.
            optional --budget seconds: u64
            /// What the workload and the states follow from; default 1.
            optional --seed seed: u64
            /// Explores builds that are wrong on purpose instead: each must be found.
            optional --mutants
            /// Has Kafka's own loader recover so many of the states too: both keep the same
            /// batches, or the difference stands in SHORTCOMINGS.md.
            optional --kafka states: u64
            /// Is the recovery of this folder: the stage starts this itself.
            optional --recover dir: PathBuf
            /// Is the workload, in this folder: the stage starts this itself.
            optional --workload dir: PathBuf
            /// The workload looks around where a call fails: `inject` starts this.
            optional --goes-on
        }
        /// Has every system call of a workload fail once: errors are typed, nothing is lost.
        cmd inject {
            /// Seconds after which no further call fails; without it, all do.
            optional --budget seconds: u64
            /// What the workload and the order follow from; default 1.
            optional --seed seed: u64
        }
        /// Fuzzes the parsers, the builder, the loader and the log; without more, all targets for a
        /// minute together.
        cmd fuzz {
            /// The one to run; the file names in `xtask/fuzz/fuzz_targets`.
            optional target: String
            /// All targets for a minute together: what is done without a target, too.
            optional --smoke
            /// How long each target runs.
            optional --minutes minutes: u64
            /// What the inputs follow from; default 1.
            optional --seed seed: u64
            /// Makes the corpus small afterwards and keeps it in the repository.
            optional --keep
        }
        /// Kills a process that appends from several threads, again and again: the next start finds
        /// every record that was acknowledged.
        cmd kill {
            /// How often; default 20, without end where a budget is given.
            optional --rounds rounds: u64
            /// Seconds after which no round begins.
            optional --budget seconds: u64
            /// What the choices follow from; default 1.
            optional --seed seed: u64
            /// Appends in this folder until killed: the stage starts this itself.
            optional --append-to dir: PathBuf
        }
        /// Compares what we say of disks that Kafka wrote with what Kafka said of them.
        cmd conformance {
            /// Folders with `clean/`, `dump/`, `view/` and so on, or with logs of old formats;
            /// none: the repository's own.
            repeated dirs: PathBuf
        }
    }
}
