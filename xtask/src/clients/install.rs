//! Where the clients come from: each is installed below `target/` once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::kafka::Kafka;
use crate::workspace;

/// What each client writes and reads.
pub(super) const CODECS: [&str; 5] = ["none", "gzip", "snappy", "lz4", "zstd"];

/// What each client checks by itself.
pub(super) const CASES: [&str; 8] = [
    "seek",
    "timestamps",
    "limits_below_a_batch",
    "large_records",
    "long_poll",
    "idempotence",
    "delete_records",
    "admin",
];

/// Every client, with the cases that it cannot do, and why.
pub(super) const LISTED: [Listed; 8] = [
    Listed { name: "librdkafka", lacks: &[] },
    Listed { name: "kafka-python", lacks: &[] },
    Listed { name: "aiokafka", lacks: &[] },
    Listed { name: "kafka-clients", lacks: &[] },
    Listed { name: "franz-go", lacks: &[] },
    Listed {
        name: "kafka-go",
        lacks: &[
            ("idempotence", "its writer is not idempotent"),
            ("delete_records", "it has no such call"),
        ],
    },
    Listed { name: "kafkajs", lacks: &[] },
    Listed {
        name: "kcat",
        lacks: &[("delete_records", "it has no admin calls"), ("admin", "it has no admin calls")],
    },
];

/// A client that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Listed {
    pub(super) name: &'static str,
    pub(super) lacks: &'static [(&'static str, &'static str)],
}

impl Listed {
    /// The cases that it can do.
    pub(super) fn cases(&self) -> impl Iterator<Item = &'static str> {
        CASES.into_iter().filter(|case| self.lacks.iter().all(|(lacking, _)| lacking != case))
    }
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
                "aiokafka" => python(scratch, "aiokafka_client.py"),
                "kafka-clients" => java(scratch),
                "franz-go" | "kafka-go" => go(scratch, listed.name),
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
}

fn sources() -> PathBuf {
    workspace::root().join("examples/broker/clients")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn python(scratch: &Path, program: &str) -> Result<Vec<String>> {
    let (venv, sources) = (scratch.join("venv"), sources().join("python"));
    let (python, wanted) = (venv.join("bin/python"), sources.join("requirements.txt"));
    let installed = venv.join("requirements.txt");
    if fs::read(&installed).ok() != fs::read(&wanted).ok() {
        ensure!(workspace::has("python3"), "no python3 here");
        workspace::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let mut pip = Command::new(&python);
        // What is there must do: no compiler for it is asked for.
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        pip.args(["--only-binary", ":all:", "--requirement"]).arg(&wanted);
        workspace::run(&mut pip)?;
        fs::copy(&wanted, &installed).context("cannot note what is installed")?;
    }
    Ok(vec![text(&python), text(&sources.join(program))])
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

fn go(scratch: &Path, program: &str) -> Result<Vec<String>> {
    let dir = scratch.join("go");
    for package in ["", "program", program] {
        copy(&sources().join("go").join(package), &dir.join(package))?;
    }
    let binary = dir.join("bin").join(program);
    let newer = |source: &str| is_newer(&binary, &dir.join(source));
    if !newer("go.mod") || !newer("program/program.go") || !newer(&format!("{program}/main.go")) {
        ensure!(runs("go", "version"), "no go here");
        let package = format!("./{program}");
        let mut go = Command::new("go");
        workspace::run(go.args(["build", "-mod=mod", "-o", "bin/", &package]).current_dir(&dir))?;
    }
    Ok(vec![text(&binary)])
}

fn js(scratch: &Path) -> Result<Vec<String>> {
    let dir = scratch.join("js");
    copy(&sources().join("js"), &dir)?;
    if !is_newer(&dir.join("node_modules/.package-lock.json"), &dir.join("package.json")) {
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
    Ok(vec!["python3".to_owned(), text(&sources().join("python/kcat.py"))])
}

/// Whether a program that knows no `--version` can be started.
fn runs(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).output().is_ok_and(|done| done.status.success())
}

/// Copies the files of a folder that have changed.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for path in workspace::entries(from)?.into_iter().filter(|path| path.is_file()) {
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
