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
        /// Checks the house rules that no lint knows: file sizes, test names, stray paths.
        cmd house {}
        /// Builds every feature of every crate alone, and record-format without `std`.
        cmd features {}
        /// Compares what we say of disks that Kafka wrote with what Kafka said of them.
        cmd conformance {
            /// Folders with `clean/`, `dump/`, `view/` and so on, or with logs of old formats.
            repeated dirs: PathBuf
        }
    }
}
