//! `bench`: each bar of ours against its bare twin, in one process.

mod append;
mod batches;
mod iterate;
mod log_dir;
mod lookup;
mod pair;
mod random;
mod serve;
mod verify;
mod walk;

use anyhow::{Result, bail};

use self::pair::{Bench, Outcome};
use crate::{flags, workspace};

/// Runs the benches, in a release build.
///
/// # Errors
///
/// When a check inside a bench did not run, or with `--strict` when a bar is not reached.
pub(crate) fn run(flags: &flags::Bench) -> Result<()> {
    if cfg!(debug_assertions) {
        return again_in_release(flags);
    }
    let bench = Bench::new(flags.slices.unwrap_or(pair::LEAST_SLICES));
    let only = flags.only.as_deref().unwrap_or_default();
    let mut below = 0;
    if !flags.json {
        println!("{}", Outcome::HEAD);
    }
    for (name, run) in BENCHES {
        if !name.contains(only) {
            continue;
        }
        let outcome = run(&bench, name)?;
        below += usize::from(!outcome.reached());
        println!("{}", if flags.json { outcome.json() } else { outcome.line() });
    }
    if below > 0 && flags.strict {
        bail!("{below} bars are not reached");
    }
    Ok(())
}

type Run = fn(&Bench, &'static str) -> Result<Outcome>;

/// Every bench, in the order of the layers.
const BENCHES: [(&str, Run); 16] = [
    ("walk-16KiB-batches", walk::run),
    ("iterate-100B-records", iterate::run),
    ("index-lookup-1.3M", lookup::run),
    ("segment-append-16KiB", append::run),
    ("verify-1GiB-1-thread", verify::one_thread),
    ("verify-1GiB-2-threads", verify::two_threads),
    ("verify-1GiB-1-thread-crate", verify::one_thread_crate),
    ("verify-1GiB-2-threads-crate", verify::two_threads_crate),
    ("serve-1MiB", serve::blocking),
    ("serve-1MiB-cpu", serve::blocking_processor),
    ("serve-1MiB-tokio", serve::tokio),
    ("serve-1MiB-tokio-cpu", serve::tokio_processor),
    ("serve-header-pushed", serve::pushed),
    ("serve-corked", serve::corked),
    ("serve-read-write", serve::copied),
    ("serve-read-write-cpu", serve::copied),
];

fn again_in_release(flags: &flags::Bench) -> Result<()> {
    let mut again = workspace::cargo();
    again.args(["run", "--release", "--quiet", "--package", "xtask", "--", "bench"]);
    if flags.json {
        again.arg("--json");
    }
    if flags.strict {
        again.arg("--strict");
    }
    if let Some(only) = &flags.only {
        again.args(["--only", only]);
    }
    if let Some(slices) = flags.slices {
        again.args(["--slices", &slices.to_string()]);
    }
    workspace::run(&mut again)
}
