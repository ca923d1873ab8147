//! `clients --bench`: the example broker beside a real Kafka, with the same clients.

mod load;
mod process;
mod report;
mod side;

use anyhow::{Context, Result, ensure};

use self::load::{Load, Records};
use self::report::Figures;
use self::side::{Arena, Running, Side};

pub(super) use self::process::resident_kib;

/// How much is measured in a round.
#[derive(Clone, Copy, Debug)]
struct Plan {
    small: Records,
    large: Records,
    /// How long the half load lasts.
    half_load_s: f64,
}

/// Measures both in turns and prints a table.
///
/// # Errors
///
/// When a bar is missed, or a client or broker fails.
pub(super) fn run(quick: bool) -> Result<()> {
    // Of ours and Kafka's in turns; the median counts.
    let (rounds, part) = if quick { (1, 0.125) } else { (3, 1.0) };
    let (small, large) = (load::SMALL.part(part), load::LARGE.part(part));
    let plan = Plan { small, large, half_load_s: 8.0 * part };
    let arena = Arena::ready()?;
    let half_load = half_load(&arena, plan)?;
    println!("half load: {half_load:.0} records of 1 KiB a second");
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        // Neither side always goes first.
        let turns = if round % 2 == 0 { Side::ALL } else { Side::SWAPPED };
        for side in turns {
            let figures = measure(&arena, side, plan, half_load)?;
            println!("round {} of {rounds}, {}: {figures:?}", round + 1, side.name());
            match side {
                Side::Ours => ours.push(figures),
                Side::Kafka => theirs.push(figures),
            }
        }
    }
    report::print(&ours, &theirs)
}

/// Half of what the slower side sustains here and now: both get it.
fn half_load(arena: &Arena, plan: Plan) -> Result<f64> {
    let mut slower = f64::INFINITY;
    for side in Side::ALL {
        let (running, _) = arena.start(side)?;
        let load = Load::new(&arena.kafka, &running);
        let rate = load.produce("sustained", &plan.large.part(0.5))?.per_second;
        println!("{} sustains {rate:.0} records of 1 KiB a second", side.name());
        slower = slower.min(rate);
    }
    ensure!(slower.is_finite() && slower > 0.0, "no rate was measured");
    Ok(slower / 2.0)
}

/// One round of one side: a broker of its own on an empty directory.
fn measure(arena: &Arena, side: Side, plan: Plan, half_load: f64) -> Result<Figures> {
    let (running, start_ms) = arena.start(side)?;
    let load = Load::new(&arena.kafka, &running);
    // Whatever compiles as it runs has its time before the clocks do.
    load.produce("warm", &plan.large.part(0.25))?;
    load.consume("warm", &plan.large.part(0.25))?;

    let (pid, Plan { small, large, .. }) = (running.pid(), plan);
    let start = process::cpu_seconds(pid)?;
    let small_went = load.produce("small", &small)?;
    let after_small = process::cpu_seconds(pid)?;
    let large_went = load.produce("large", &large)?;
    let after_large = process::cpu_seconds(pid)?;
    let consumed_mib_s = load.consume("large", &large)?;
    let end = process::cpu_seconds(pid)?;
    let resident_mib = resident_kib(pid)? / 1024.0;

    let half = load.produce("half", &large.at(half_load, plan.half_load_s))?;
    let (small_gib, large_gib) = (small.gib(), large.gib());
    let consumed_gib = f64::from(load::PASSES) * large_gib;
    Ok(Figures {
        start_ms,
        small_mib_s: small_went.mib_s,
        large_mib_s: large_went.mib_s,
        consumed_mib_s,
        cpu_s_per_gib: (end - start) / (small_gib + large_gib + consumed_gib),
        small_cpu_s_per_gib: (after_small - start) / small_gib,
        large_cpu_s_per_gib: (after_large - after_small) / large_gib,
        consumed_cpu_s_per_gib: (end - after_large) / consumed_gib,
        resident_mib,
        half_load_p99_ms: half.p99_ms,
        idle_kib: idle_kib(&running).context("idle connections")?,
    })
}

/// What each of many connections costs which have asked once.
fn idle_kib(running: &Running) -> Result<f64> {
    let before = resident_kib(running.pid())?;
    let open = load::idle_connections(&running.bootstrap(), IDLE_CONNECTIONS)?;
    let after = resident_kib(running.pid())?;
    drop(open);
    Ok((after - before).max(0.0) / f64::from(IDLE_CONNECTIONS))
}

const IDLE_CONNECTIONS: u16 = 2000;
