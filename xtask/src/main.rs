//! Tasks of the repository: `cargo xtask --help`. One file per subcommand.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool talks on its terminal")]

use std::process::ExitCode;

mod allocations;
mod bench;
mod ci;
mod clients;
mod conformance;
mod crash;
mod demo;
mod deny;
mod docs;
mod features;
mod flags;
mod fmt;
mod fuzz;
mod golden;
mod house;
mod inject;
mod kafka;
mod kill;
mod layers;
mod lint;
mod load;
mod many;
mod mutants;
mod oracle;
mod proof;
mod replay;
mod replay_compaction;
mod schedules;
mod semver;
mod spec;
mod stage;
mod strace;
mod tally;
mod tools;
mod workspace;

fn main() -> ExitCode {
    let flags = flags::Xtask::from_env_or_exit();
    match run(flags.subcommand) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: flags::XtaskCmd) -> anyhow::Result<()> {
    use flags::XtaskCmd as Cmd;
    match command {
        Cmd::Ci(ci) => ci::run(&ci),
        Cmd::Demo(demo) => demo::run(&demo),
        Cmd::Fmt(fmt) => fmt::run(fmt.check),
        Cmd::Lint(_) => lint::run(),
        Cmd::Docs(_) => docs::run(),
        Cmd::Layers(_) => layers::run(),
        Cmd::House(_) => house::run(),
        Cmd::Spec(_) => spec::run(),
        Cmd::Features(_) => features::run(),
        Cmd::Deny(deny) => deny::run(deny.advisories),
        Cmd::Semver(semver) => semver::run(&semver),
        Cmd::Schedules(schedules) => schedules::run(&schedules),
        Cmd::Mutants(mutants) => mutants::run(&mutants),
        Cmd::Golden(golden) => golden::run(golden.check),
        Cmd::Oracle(oracle) => oracle::run(&oracle),
        Cmd::Bench(bench) => bench::run(&bench),
        Cmd::Crash(crash) => crash::run(&crash),
        Cmd::Fuzz(fuzz) => fuzz::run(&fuzz),
        Cmd::Inject(inject) => inject::run(&inject),
        Cmd::Kill(kill) => kill::run(&kill),
        Cmd::Strace(strace) => strace::run(strace.mib),
        Cmd::Clients(clients) => clients::run(&clients),
        Cmd::Replay(replay) => replay::run(&replay.dirs),
        Cmd::ReplayCompaction(replay) => replay_compaction::run(&replay.dirs),
        Cmd::ManyPartitions(many) => many::run(&many),
        Cmd::Load(load) => load::run(load.seconds.unwrap_or(20)),
        Cmd::Conformance(conformance) => conformance::run(&conformance.dirs),
    }
}
