//! `bench`: each bar of ours against its bare twin, in one process.

mod append;
mod batches;
mod commit;
mod compact;
mod crc_pass;
mod crew;
mod growing;
mod io_count;
mod iterate;
mod leader;
mod log_dir;
mod lookup;
mod outcome;
mod pair;
mod random;
mod read;
mod recover;
mod rolls;
mod serve;
mod verify;
mod vs_kafka;
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
    if !flags.json {
        println!("{}", Outcome::HEAD);
    }
    let only = flags.only.as_deref().unwrap_or_default();
    let mut below = 0;
    let mut tell = |outcome: &Outcome| {
        below += usize::from(!outcome.reached());
        println!("{}", if flags.json { outcome.json() } else { outcome.line() });
    };
    if flags.vs_kafka {
        vs_kafka::run(only, &mut tell)?;
    } else {
        let bench = Bench::new(flags.slices.unwrap_or(pair::LEAST_SLICES));
        for (name, run) in GROUPS.into_iter().flatten().filter(|(name, _)| name.contains(only)) {
            tell(&run(&bench, name)?);
        }
    }
    if below > 0 && flags.strict {
        bail!("{below} bars are not reached");
    }
    Ok(())
}

type Run = fn(&Bench, &'static str) -> Result<Outcome>;

/// What each file measures, in the order of the layers.
const GROUPS: [&[(&str, Run)]; 12] = [
    walk::BENCHES,
    iterate::BENCHES,
    lookup::BENCHES,
    append::BENCHES,
    verify::BENCHES,
    leader::BENCHES,
    read::BENCHES,
    commit::BENCHES,
    recover::BENCHES,
    rolls::BENCHES,
    compact::BENCHES,
    serve::BENCHES,
];

fn again_in_release(flags: &flags::Bench) -> Result<()> {
    let mut again = workspace::cargo();
    again.args(["run", "--release", "--quiet", "--package", "xtask", "--", "bench"]);
    let switches =
        [(flags.vs_kafka, "--vs-kafka"), (flags.json, "--json"), (flags.strict, "--strict")];
    again.args(switches.into_iter().filter_map(|(is_on, name)| is_on.then_some(name)));
    if let Some(only) = &flags.only {
        again.args(["--only", only]);
    }
    if let Some(slices) = flags.slices {
        again.args(["--slices", &slices.to_string()]);
    }
    workspace::run(&mut again)
}
