//! Where the clients come from: each is installed below `target/` once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::kafka::Kafka;
use crate::workspace;

/// Every client, with the codecs that it writes and reads, and its own cases.
pub(super) const LISTED: [Listed; 6] = [
    Listed { name: "librdkafka", codecs: ALL, checks: 8 },
    Listed { name: "kafka-python", codecs: ALL, checks: 6 },
    Listed { name: "kafka-clients", codecs: ALL, checks: 7 },
    Listed { name: "franz-go", codecs: ALL, checks: 4 },
    // lz4 and zstd need add-ons that are built from C.
    Listed { name: "kafkajs", codecs: &["none", "gzip", "snappy"], checks: 3 },
    Listed { name: "kcat", codecs: ALL, checks: 0 },
];

const ALL: &[&str] = &["none", "gzip", "snappy", "lz4", "zstd"];

/// A client that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub(super) name: &'static str,
    pub(super) codecs: &'static [&'static str],
    pub(super) checks: usize,
}

/// A client that is here.
#[derive(Debug)]
pub(super) struct Installed {
    pub(super) listed: Listed,
    /// The program and its first arguments.
    line: Vec<String>,
    dir: PathBuf,
}

impl Installed {
    /// Installs what is not there yet; also returns why some are missing.
    ///
    /// # Errors
    ///
    /// When the folder cannot be made.
    pub(super) fn all(scratch: &Path) -> Result<(Vec<Self>, Vec<String>)> {
        fs::create_dir_all(scratch)
            .with_context(|| format!("cannot make {}", scratch.display()))?;
        let (mut here, mut missing) = (Vec::new(), Vec::new());
        for listed in LISTED {
            let line = match listed.name {
                "librdkafka" => python(scratch, "librdkafka.py"),
                "kafka-python" => python(scratch, "kafka_python.py"),
                "kafka-clients" => java(scratch),
                "franz-go" => go(scratch),
                "kafkajs" => js(scratch),
                _ => kcat(),
            };
            match line {
                Ok(line) => here.push(Self { listed, line, dir: scratch.to_owned() }),
                Err(error) => missing.push(format!("{}: {error:#}", listed.name)),
            }
        }
        Ok((here, missing))
    }

    /// The client with these arguments; ended after two minutes.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("timeout");
        command.arg("120").args(&self.line).args(args).current_dir(&self.dir);
        command
    }

    /// The client itself, which nobody ends but the caller.
    pub(super) fn program(&self, args: &[&str]) -> Command {
        let (program, first) = self.line.split_first().expect("a line has a program");
        let mut command = Command::new(program);
        command.args(first).args(args).current_dir(&self.dir);
        command
    }

    /// Whether it is told what to do by flags of its own.
    pub(super) fn is_kcat(&self) -> bool {
        self.listed.name == "kcat"
    }
}

fn sources() -> PathBuf {
    workspace::root().join("examples/broker/clients")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn python(scratch: &Path, program: &str) -> Result<Vec<String>> {
    let venv = scratch.join("venv");
    let python = venv.join("bin/python");
    let complete = venv.join(".complete");
    if !complete.is_file() {
        ensure!(workspace::has("python3"), "no python3 here");
        workspace::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["confluent-kafka", "kafka-python", "python-snappy", "lz4", "zstandard"]);
        workspace::run(&mut pip)?;
        fs::write(&complete, "").context("cannot mark the installation")?;
    }
    Ok(vec![text(&python), text(&sources().join("python").join(program))])
}

fn java(scratch: &Path) -> Result<Vec<String>> {
    let class_path = Kafka::ready()?.class_path().to_owned();
    let classes = scratch.join("java");
    fs::create_dir_all(&classes).context("cannot make a folder for classes")?;
    let mut javac = Command::new("javac");
    javac.args(["-nowarn", "-cp", &class_path, "-d"]).arg(&classes);
    workspace::run(javac.arg(sources().join("java/Client.java")))?;
    let class_path = format!("{}:{class_path}", classes.display());
    let options = [
        "java",
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        &class_path,
        "Client",
    ];
    Ok(options.map(str::to_owned).to_vec())
}

fn go(scratch: &Path) -> Result<Vec<String>> {
    let dir = scratch.join("go");
    let binary = dir.join("client");
    copy(&sources().join("go"), &dir)?;
    if !is_newer(&binary, &dir.join("main.go")) {
        ensure!(runs("go", "version"), "no go here");
        let go = |args: &[&str]| workspace::run(Command::new("go").args(args).current_dir(&dir));
        go(&["mod", "tidy"])?;
        go(&["build", "-o", "client", "."])?;
    }
    Ok(vec![text(&binary)])
}

fn js(scratch: &Path) -> Result<Vec<String>> {
    let dir = scratch.join("js");
    copy(&sources().join("js"), &dir)?;
    if !dir.join("node_modules/kafkajs-snappy/package.json").is_file() {
        ensure!(workspace::has("npm"), "no npm here");
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund"]).current_dir(&dir);
        workspace::run(&mut npm)?;
    }
    Ok(vec!["node".to_owned(), text(&dir.join("client.js"))])
}

fn kcat() -> Result<Vec<String>> {
    if !runs("kcat", "-V") {
        let mut apt = Command::new("apt-get");
        workspace::run(apt.args(["install", "--yes", "--quiet", "kcat"]))?;
    }
    Ok(vec!["kcat".to_owned()])
}

/// Whether a program that knows no `--version` can be started.
fn runs(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|done| done.status.success())
}

/// Copies the files of a folder that have changed.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for path in workspace::entries(from)? {
        let target = to.join(workspace::name(&path));
        if !is_newer(&target, &path) {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn is_newer(made: &Path, of: &Path) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    changed(made).zip(changed(of)).is_some_and(|(made, of)| made >= of)
}
