//! What each client checks by itself, Kafka's command-line tools, and a kill in the middle.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::broker::Server;
use super::install::{CASES, Installed, LISTED};
use crate::kafka::Kafka;
use crate::tally::Tally;
use crate::workspace;

/// Kafka's command-line tools: class, arguments, what it prints. `@` is the bootstrap address.
const TOOLS: [(&str, &str, &str); 8] = [
    (
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server @ --create --topic tools --partitions 1 --config retention.ms=-1",
        "Created topic tools",
    ),
    ("org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server @ --topic tools", ""),
    (
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "--bootstrap-server @ --topic tools --partition 0 --offset earliest --max-messages 2 --timeout-ms 20000",
        "from a console",
    ),
    (
        "org.apache.kafka.tools.GetOffsetShell",
        "--bootstrap-server @ --topic tools --time -1",
        "tools:0:2",
    ),
    (
        "org.apache.kafka.tools.ConfigCommand",
        "--bootstrap-server @ --entity-type topics --entity-name tools --alter --add-config max.message.bytes=2000",
        "Completed updating config",
    ),
    (
        "org.apache.kafka.tools.TopicCommand",
        "--bootstrap-server @ --describe --topic tools",
        "max.message.bytes=2000",
    ),
    (
        "org.apache.kafka.tools.LogDirsCommand",
        "--bootstrap-server @ --describe --topic-list tools",
        "\"partition\":\"tools-0\"",
    ),
    (
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "--bootstrap-server @",
        "Produce(0): 0 to 13",
    ),
];

/// How many cases there are where every client is here.
pub(super) fn listed() -> usize {
    LISTED.iter().map(|client| client.cases().count()).sum::<usize>() + TOOLS.len()
}

/// Runs the cases of all clients, and the tools; prints what each client did.
pub(super) fn run(clients: &[Installed], server: &Server, tally: &mut Tally) {
    let bootstrap = server.bootstrap();
    for client in clients {
        let name = client.listed.name;
        let args = [&bootstrap, "check", &format!("check-{name}")];
        let out = match workspace::output(&mut client.command(&args)) {
            Ok(out) => String::from_utf8_lossy(&out).into_owned(),
            Err(error) => format!("failed all: {error:#}"),
        };
        let before = tally.passed();
        for case in client.listed.cases() {
            tally.check(&format!("{name}: {case}"), outcome(&out, case));
        }
        println!("{name:<14} {} of {} cases", tally.passed() - before, CASES.len());
        for (case, why) in client.listed.lacks {
            println!("{:<14} not {case}: {why}", "");
        }
    }
    match Kafka::ready() {
        Ok(kafka) => {
            for (class, args, expected) in TOOLS {
                let name = class.rsplit('.').next().unwrap_or(class);
                tally.check(name, tool(&kafka, class, &args.replace('@', &bootstrap), expected));
            }
        }
        Err(error) => println!("missing: command-line tools: {error:#}"),
    }
}

/// What a client said of one of its cases.
fn outcome(out: &str, case: &str) -> Result<()> {
    for line in out.lines() {
        if line.strip_prefix("ok ") == Some(case) {
            return Ok(());
        }
        if let Some(why) = line.strip_prefix("failed ") {
            let is_this = why.starts_with(&format!("{case}:")) || why.starts_with("all:");
            ensure!(!is_this, "{why}");
        }
    }
    bail!("it did not run")
}

fn tool(kafka: &Kafka, class: &str, args: &str, expected: &str) -> Result<()> {
    let mut command: Command = kafka.java(class);
    command.args(args.split_whitespace()).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start java")?;
    let mut input = child.stdin.take().context("no pipe")?;
    // A tool that does not read has closed it: all the same.
    input.write_all(b"from a console 1\nfrom a console 2\n").ok();
    drop(input);
    let done = child.wait_with_output().context("cannot wait for java")?;
    let out = String::from_utf8_lossy(&done.stdout);
    if !out.contains(expected) || !done.status.success() {
        bail!("no `{expected}` in: {out} {}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

/// Kills the broker while librdkafka writes, and looks for everything that was acknowledged.
///
/// # Errors
///
/// When the broker does not start again.
pub(super) fn kill_in_the_middle(
    clients: &[Installed],
    server: Server,
    tally: &mut Tally,
) -> Result<Server> {
    let Some(client) = clients.iter().find(|client| client.listed.name == "librdkafka") else {
        println!("missing: librdkafka, to write while the broker is killed");
        return Ok(server);
    };
    let bootstrap = server.bootstrap();
    let mut writer = client.command(&[&bootstrap, "stream", "20000", "killed"]);
    let writer = writer.stdout(Stdio::piped()).spawn().context("cannot start a writer")?;
    let mut server = server;
    for _ in 0..2 {
        thread::sleep(Duration::from_millis(1500));
        server = server.kill_and_start()?;
    }
    let written = writer.wait_with_output().context("cannot wait for the writer")?;
    let written = String::from_utf8_lossy(&written.stdout).into_owned();
    let name = "nothing acknowledged is lost or doubled by a kill";
    tally.check(name, check_all_there(&bootstrap, &written));
    Ok(server)
}

fn check_all_there(bootstrap: &str, written: &str) -> Result<()> {
    let mut kcat = Command::new("timeout");
    kcat.args(["60", "kcat", "-b", bootstrap, "-C", "-t", "killed", "-o", "beginning", "-e", "-q"]);
    let read = workspace::output(&mut kcat)?;
    let read = String::from_utf8_lossy(&read);
    let acknowledged: BTreeSet<_> = written.lines().collect();
    let found: BTreeSet<_> = read.lines().collect();
    ensure!(acknowledged.len() > 10_000, "{} were acknowledged of 20000", acknowledged.len());
    let lost = acknowledged.difference(&found).count();
    ensure!(lost == 0, "{lost} of {} acknowledged records are lost", acknowledged.len());
    ensure!(read.lines().count() == found.len(), "records are there twice");
    Ok(())
}
