//! Builds that are wrong on purpose: an order turned round, a fence left out. On each, the test
//! under a model checker that is for it must fail, or it proves nothing.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::{Checked, INDEX, LOG, SEGMENT};
use crate::workspace;

/// One wrong build: what stands in a file, and what is put in its place.
struct Mutant {
    name: &'static str,
    checked: Checked,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
    /// The test that must fail.
    found_by: &'static str,
}

const LOOK_UPS: &str = "published::schedules::\
    words_that_a_reader_takes_belong_together_whatever_the_writer_takes_back";

const ENTRIES: &str = "published::schedules::\
    what_reads_learn_of_an_entry_is_not_believed_of_the_one_that_comes_in_its_place";

const SIZES: &str = "published::schedules::\
    a_reader_sees_the_bytes_of_a_size_in_one_generation_or_finds_out";

const MUTANTS: [Mutant; 13] = [
    Mutant {
        name: "a look-up does not see that words were taken back",
        checked: INDEX,
        file: "sparse-index/src/published.rs",
        right: "times_taken_back: state.times_taken_back.wrapping_add(1)",
        wrong: "times_taken_back: state.times_taken_back",
        found_by: LOOK_UPS,
    },
    Mutant {
        name: "freed words may be seen anew before the new state",
        checked: INDEX,
        file: "sparse-index/src/published.rs",
        right: "        fence(Ordering::Release);\n",
        wrong: "",
        found_by: LOOK_UPS,
    },
    Mutant {
        name: "words may be seen after their number",
        checked: INDEX,
        file: "sparse-index/src/published.rs",
        right: "self.0.store(next.pack(), Ordering::Release);\n    }\n\n    /// Takes",
        wrong: "self.0.store(next.pack(), Ordering::Relaxed);\n    }\n\n    /// Takes",
        found_by: LOOK_UPS,
    },
    Mutant {
        name: "what was read of an index may have been read after the generation",
        checked: SEGMENT,
        file: "segment/src/published.rs",
        right: "        fence(Ordering::Acquire);\n",
        wrong: "",
        found_by: ENTRIES,
    },
    Mutant {
        name: "what a truncation changes may be seen before the new generation",
        checked: SEGMENT,
        file: "segment/src/published.rs",
        right: "        fence(Ordering::Release);\n",
        wrong: "",
        found_by: ENTRIES,
    },
    Mutant {
        name: "what was learned of an entry is believed in every generation",
        checked: SEGMENT,
        file: "segment/src/exact.rs",
        right: "found >> u32::BITS == u64::from(generation) && found & bit != 0",
        wrong: "found & bit != 0",
        found_by: ENTRIES,
    },
    Mutant {
        name: "what one generation learned is kept under the name of the next",
        checked: SEGMENT,
        file: "segment/src/exact.rs",
        right: "{ found } else { tag };",
        wrong: "{ found } else { found & u64::from(u32::MAX) | tag };",
        found_by: ENTRIES,
    },
    Mutant {
        name: "a size may be seen before the bytes that it counts",
        checked: SEGMENT,
        file: "segment/src/published.rs",
        right: "self.size.store(size, Ordering::Release);",
        wrong: "self.size.store(size, Ordering::Relaxed);",
        found_by: SIZES,
    },
    Mutant {
        name: "readers see bytes before the log end comes to them",
        checked: LOG,
        file: "log-manager/src/log/read.rs",
        right: "let position = segments.end();",
        wrong: "let position = \
                alluvium_record_format::Position::new(segments.active().size_bytes());",
        found_by: "schedules::readers::\
                   a_reader_beside_appends_and_rolls_sees_every_record_once_and_in_order",
    },
    Mutant {
        name: "a waiter looks at the version before it counts itself",
        checked: LOG,
        file: "log-manager/src/notify.rs",
        right: "        self.waiter_count.fetch_add(1, Ordering::SeqCst);\n        let mut guard",
        wrong: "        let mut guard",
        found_by: "schedules::waiting::a_change_wakes_every_thread_that_waits_for_it",
    },
    Mutant {
        name: "a sync counts although a truncation ran beside it",
        checked: LOG,
        file: "log-manager/src/log/truncate.rs",
        right: "shared.recovery_point.fetch_min(offset.get(), Ordering::AcqRel);\n        \
                shared.commits.lower(offset);\n        self.cut_epochs",
        wrong: "self.cut_epochs",
        found_by: "schedules::commits::\
                   the_recovery_point_never_goes_beyond_the_end_beside_a_truncation",
    },
    Mutant {
        name: "a close does not wait for the work in the background",
        checked: LOG,
        file: "log-manager/src/log/in_flight.rs",
        right: "while state.running > 0 {",
        wrong: "while state.running > 1 {",
        found_by: "schedules::waiting::a_close_is_over_only_when_the_work_beside_it_is",
    },
    Mutant {
        name: "a read gives up where the files it looked for were removed",
        checked: LOG,
        file: "log-manager/src/log/read.rs",
        right: "if !is_gone || Arc::ptr_eq",
        wrong: "if is_gone || Arc::ptr_eq",
        found_by: "schedules::readers::\
                   a_reader_beside_a_replacement_sees_all_old_records_or_the_new_ones",
    },
];

/// More than a plain run: each wrong build must be found, for every seed that we give.
const COUNT: u64 = 4000;

/// Builds every mutant in a copy of the sources, and runs the tests on it.
///
/// # Errors
///
/// When the test that is for one passes.
pub(super) fn run() -> Result<()> {
    let home = workspace::scratch().join("schedules");
    let (tree, target) = (home.join("tree"), home.join("target"));
    copy_sources(&tree)?;
    let mut missed = Vec::new();
    for mutant in MUTANTS {
        let path = tree.join(mutant.file);
        let right = fs::read_to_string(&path).with_context(|| mutant.file.to_owned())?;
        let count = right.matches(mutant.right).count();
        ensure!(count == 1, "{}: the place to change stands {count} times", mutant.file);
        fs::write(&path, right.replace(mutant.right, mutant.wrong))?;
        let found = mutant
            .checked
            .build(&tree, &target)
            .and_then(|program| mutant.checked.finds(&program, mutant.found_by, COUNT, 1));
        fs::write(&path, right)?;
        let found = found.with_context(|| mutant.name.to_owned())?;
        println!("{:<7} {}", if found { "found" } else { "MISSED" }, mutant.name);
        if !found {
            missed.push(mutant.name);
        }
    }
    ensure!(missed.is_empty(), "not found: {}", missed.join("; "));
    println!("schedules: {} wrong builds, each found", MUTANTS.len());
    Ok(())
}

/// Copies what git keeps, but for the golden files.
fn copy_sources(tree: &Path) -> Result<()> {
    workspace::empty_dir(tree)?;
    for path in workspace::files()? {
        let from = workspace::root().join(&path);
        if path.components().any(|part| part.as_os_str() == "golden") || !from.is_file() {
            continue;
        }
        let to = tree.join(&path);
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(&from, &to).with_context(|| format!("cannot copy {}", path.display()))?;
    }
    Ok(())
}
