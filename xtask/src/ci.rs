//! `ci`: what every change must pass, stage by stage.

use anyhow::Result;

use crate::stage::Stages;
use crate::tools::Tool;
use crate::{
    clients, conformance, crash, deny, docs, features, flags, fmt, fuzz, house, inject, kill,
    layers, lint, oracle, replay, replay_compaction, schedules, spec, strace, workspace,
};

/// Runs the stages that the flags ask for, all of them, and prints a table.
///
/// # Errors
///
/// When a stage failed.
pub(crate) fn run(flags: &flags::Ci) -> Result<()> {
    let mut stages = Stages::default();
    form(&mut stages, flags.full);
    if !flags.quick {
        build_and_test(&mut stages, flags.full);
    }
    if flags.full {
        stages.run("oracle", "cargo xtask oracle", oracle::run_whole);
        stages.run("strace", "cargo xtask strace", || strace::run(None));
        stages.run("clients", "cargo xtask clients", clients::run_cases);
        stages.run("soak", "cargo xtask clients --soak 20", || clients::soak(20));
        break_things(&mut stages);
    } else {
        stages.skip("oracle", "needs a real Kafka: cargo xtask ci --full");
        stages.skip("strace", "takes a while: cargo xtask ci --full");
        stages.skip("clients", "needs real clients: cargo xtask clients");
        stages.skip("crash", "takes a minute: cargo xtask crash");
    }
    stages.check_rows_in(&workspace::root().join("CONTRIBUTING.md"));
    stages.finish()
}

/// States after a power cut that Kafka's loader is asked about.
const BESIDE_KAFKA: u64 = 80;

/// Kills, power cuts, failing calls and bad bytes, each for a bounded time.
fn break_things(stages: &mut Stages) {
    let kill = flags::Kill { rounds: None, budget: Some(15), seed: None, append_to: None };
    stages.run("kill", "cargo xtask kill --budget 15", || kill::run(&kill));
    if let Some(reason) = crash::missing() {
        for name in ["crash", "mutants", "inject"] {
            stages.skip(name, &reason);
        }
    } else {
        let explore = |mutants, kafka| flags::Crash {
            mutants,
            budget: Some(30),
            seed: None,
            kafka,
            recover: None,
            workload: None,
            goes_on: false,
        };
        // Of these states Kafka's own loader recovers some too.
        let repeat = format!("cargo xtask crash --budget 30 --kafka {BESIDE_KAFKA}");
        stages.run("crash", &repeat, || crash::run(&explore(false, Some(BESIDE_KAFKA))));
        stages.run("mutants", "cargo xtask crash --mutants", || crash::run(&explore(true, None)));
        let calls = flags::Inject { budget: Some(30), seed: None };
        stages.run("inject", "cargo xtask inject --budget 30", || inject::run(&calls));
    }
    match fuzz::missing() {
        Some(reason) => stages.skip("fuzz", &reason),
        None => stages.run("fuzz", "cargo xtask fuzz --smoke", || fuzz::run(&smoke())),
    }
}

/// All targets of the fuzzer for a minute together.
fn smoke() -> flags::Fuzz {
    flags::Fuzz { target: None, smoke: true, minutes: None, seed: None, keep: false }
}

fn form(stages: &mut Stages, full: bool) {
    let mut fmt = workspace::cargo();
    fmt.args(["fmt", "--all", "--check"]);
    stages.run("fmt", "cargo xtask fmt", || workspace::run(&mut fmt));
    for tool in [Tool::Taplo, Tool::Typos] {
        with_tool(stages, tool, full, tool.name(), "cargo xtask fmt", || {
            fmt::check_with(tool, true)
        });
    }
    with_tool(stages, Tool::Deny, full, "deny", "cargo xtask deny", || deny::run(false));
    stages.run("layers", "cargo xtask layers", layers::run);
    stages.run("house", "cargo xtask house", house::run);
    stages.run("spec", "cargo xtask spec", spec::run);
}

/// Runs a stage that needs a tool: without it, it is left out, or fails where everything must run.
fn with_tool(
    stages: &mut Stages,
    tool: Tool,
    full: bool,
    name: &str,
    repeat: &str,
    stage: impl FnOnce() -> Result<()>,
) {
    match tool.missing() {
        Some(reason) if full => stages.run(name, &reason, || anyhow::bail!("{reason}")),
        Some(reason) => stages.skip(name, &reason),
        None => stages.run(name, repeat, stage),
    }
}

fn build_and_test(stages: &mut Stages, full: bool) {
    stages.run("lint", "cargo xtask lint", lint::run);
    let mut test = workspace::cargo();
    test.args(["test", "--workspace", "--all-features", "--quiet"]);
    let repeat = workspace::shown(&test);
    stages.run("test", &repeat, || workspace::run(&mut test));
    let few = flags::Schedules { count: None, seed: None, mutants: false };
    stages.run("schedules", "cargo xtask schedules", || schedules::run(&few));
    with_tool(stages, Tool::Hack, full, "features", "cargo xtask features", features::run);
    stages.run("conformance", "cargo xtask conformance", || conformance::run(&[]));
    stages.run("replay", "cargo xtask replay", || replay::run(&[]));
    let compaction = || replay_compaction::run(&[]);
    stages.run("compaction", "cargo xtask replay-compaction", compaction);
    stages.run("docs", "cargo xtask docs", docs::run);
}
