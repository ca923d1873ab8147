//! The command line: one subcommand a module, one exit code for all.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::checkpoints::CheckpointsArgs;
use crate::compact::CompactArgs;
use crate::console::Console;
use crate::doctor::DoctorArgs;
use crate::dump::DumpArgs;
use crate::epochs::EpochsArgs;
use crate::error::CliError;
use crate::lookup::LookupArgs;
use crate::producers::ProducersArgs;
use crate::recover::RecoverArgs;
use crate::reindex::ReindexArgs;
use crate::residency::ResidencyArgs;
use crate::retain::RetainArgs;
use crate::salvage::SalvageArgs;
use crate::shell::{self, CompletionsArgs, ManArgs};
use crate::stat::StatArgs;
use crate::truncate::TruncateArgs;
use crate::verify::VerifyArgs;

/// Look into, check and repair the disks of Apache Kafka.
#[derive(Debug, Parser)]
#[command(name = "alluvium", version, after_long_help = EXAMPLES, max_term_width = 100)]
struct App {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  alluvium verify /var/lib/kafka/data
  alluvium dump /var/lib/kafka/data/orders-0/00000000000000000000.log
  alluvium dump --format kafka --deep-iteration orders-0/*.log
  alluvium dump --format jsonl --isolation read_committed orders-0

Exit codes:
  0  all is well
  1  damage was found; standard error names file and byte
  2  wrong usage, or something could not be read";

#[derive(Debug, Subcommand)]
enum Command {
    Compact(CompactArgs),
    Doctor(DoctorArgs),
    Dump(DumpArgs),
    Lookup(LookupArgs),
    Stat(StatArgs),
    Checkpoints(CheckpointsArgs),
    Epochs(EpochsArgs),
    Producers(ProducersArgs),
    Recover(RecoverArgs),
    Reindex(ReindexArgs),
    Residency(ResidencyArgs),
    Retain(RetainArgs),
    Salvage(SalvageArgs),
    Truncate(TruncateArgs),
    Verify(VerifyArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Runs the command line `args`, the program's name first. Returns the exit code of the process:
/// 0 good, 1 damage found, 2 usage or I/O error.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match command().try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => return usage(&error),
    };
    let app = match App::from_arg_matches(&matches) {
        Ok(app) => app,
        Err(error) => return usage(&error),
    };
    let mut console = Console::new();
    let result = dispatch(&app.command, &mut console).and_then(|()| console.finish());
    match result {
        Ok(()) => console.exit_code(),
        // The reader has seen enough.
        Err(error) if error.is_closed_pipe() => console.exit_code(),
        Err(error) => {
            // When standard error is closed too, the exit code is all that is left to say.
            let _ = console.failure(&error);
            console.exit_code()
        }
    }
}

/// The command line as clap sees it: for completions, man pages and tests.
#[must_use]
pub fn command() -> clap::Command {
    App::command()
}

fn dispatch(command: &Command, console: &mut Console) -> Result<(), CliError> {
    match command {
        Command::Compact(args) => crate::compact::run(args, console),
        Command::Doctor(args) => crate::doctor::run(args, console),
        Command::Dump(args) => crate::dump::run(args, console),
        Command::Lookup(args) => crate::lookup::run(args, console),
        Command::Checkpoints(args) => crate::checkpoints::run(args, console),
        Command::Epochs(args) => crate::epochs::run(args, console),
        Command::Producers(args) => crate::producers::run(args, console),
        Command::Salvage(args) => crate::salvage::run(args, console),
        Command::Truncate(args) => crate::truncate::run(args, console),
        Command::Reindex(args) => crate::reindex::run(args, console),
        Command::Residency(args) => crate::residency::run(args, console),
        Command::Retain(args) => crate::retain::run(args, console),
        Command::Recover(args) => crate::recover::run(args, console),
        Command::Stat(args) => crate::stat::run(args, console),
        Command::Verify(args) => crate::verify::run(args, console),
        Command::Completions(args) => {
            shell::completions(args, console);
            Ok(())
        }
        Command::Man(args) => shell::man(args, console),
    }
}

/// Prints help, version or what is wrong with the arguments.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe under `--help` is no fault.
    let _ = error.print();
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}
