//! Starts the broker and runs it until it is told to end.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use alluvium_broker::{Args, Broker, Settings};
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_unset| tracing_subscriber::EnvFilter::new("info,alluvium_recovery=warn"));
    // Never in colour: who reads these lines is a file or a program, and whether the library can
    // colour them depends on what else is built beside.
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(std::io::stderr)
        .init();
    match start(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A request that still computes when the logs are closed does not keep the process.
fn start(args: &Args) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    let ended = runtime.block_on(run(args));
    runtime.shutdown_background();
    ended
}

async fn run(args: &Args) -> anyhow::Result<()> {
    let settings = Settings::read(args)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let broker = Broker::start(settings).await?;
    tracing::info!(listening = %broker.addr(), cluster = broker.cluster_id(), "ready");
    let signal = tokio::select! {
        _ = terminate.recv() => Some("terminated"),
        _ = interrupt.recv() => Some("interrupted"),
        () = broker.all_offline() => None,
    };
    tracing::info!("stopping: {}", signal.unwrap_or("nothing is left to serve"));
    // Its connections end before the runtime does: their timers would panic.
    let stopped = broker.stop().await;
    anyhow::ensure!(signal.is_some(), "every log directory is offline");
    tracing::info!(is_clean = stopped?, "stopped");
    Ok(())
}
