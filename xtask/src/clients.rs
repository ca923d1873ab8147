//! `clients`: real Kafka clients talk to the example broker.

mod bench;
mod broker;
mod cases;
mod hostile;
mod install;
mod matrix;
mod soak;

use anyhow::{Result, bail};

use self::broker::Server;
use self::install::Installed;
use crate::tally::Tally;
use crate::{flags, workspace};

/// Runs the cases, or what the flags ask for.
///
/// # Errors
///
/// As [`run_cases`]; when a bar is missed, or a record.
pub(crate) fn run(flags: &flags::Clients) -> Result<()> {
    if flags.bench {
        return bench::run(flags.quick);
    }
    match flags.soak {
        Some(seconds) => soak(seconds),
        None => run_cases(),
    }
}

/// Lets 50 clients work on a broker for so many seconds, kills some of them all the time.
///
/// # Errors
///
/// When a record is missing, memory grows, or the broker does not stop cleanly.
pub(crate) fn soak(seconds: u64) -> Result<()> {
    soak::run(seconds)
}

/// Runs every case once.
///
/// # Errors
///
/// When a case failed, or fewer ran than are listed.
pub(crate) fn run_cases() -> Result<()> {
    let scratch = workspace::scratch().join("clients");
    let (clients, missing) = Installed::all(&scratch)?;
    for reason in &missing {
        println!("missing: {reason}");
    }
    let data = scratch.join("data");
    workspace::empty_dir(&data)?;
    let binary = broker::build("dev")?;
    let server = Server::start(&binary, &data, &scratch.join("broker.log"))?;
    let mut tally = Tally::default();
    matrix::run(&clients, &server, &data, &mut tally);
    cases::run(&clients, &server, &mut tally);
    hostile::run(&clients, &server, &mut tally);
    let server = cases::kill_in_the_middle(&clients, server, &mut tally)?;
    tally.check("a stop by SIGTERM leaves the clean marker", server.stop_cleanly(&data));
    let (ran, listed) = (tally.checks(), listed());
    tally.finish()?;
    if ran < listed {
        bail!("{ran} cases ran of {listed} that are listed");
    }
    Ok(())
}

/// Cases where every client is here.
fn listed() -> usize {
    let kill_and_stop = 2;
    matrix::listed() + cases::listed() + hostile::listed() + kill_and_stop
}
