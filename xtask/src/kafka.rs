//! A real Kafka 4.4.0: its jars, our small Java programs beside them, and a broker.

mod broker;
mod client;
mod relay;
mod storage;
mod tool;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::broker::{Broker, free_port};
pub(crate) use self::client::{Client, Seen};
pub(crate) use self::relay::Relay;
pub(crate) use self::storage::Storage;
pub(crate) use self::tool::{DumpTool, Printed};
use crate::workspace;

/// The version that everything is compared with; `xtask/java/pom.xml` says the same.
pub(crate) const VERSION: &str = "4.4.0";

/// Jars and compiled harness, ready to run.
#[derive(Debug)]
pub(crate) struct Kafka {
    class_path: String,
}

impl Kafka {
    /// Fetches the jars with Maven (once) and compiles `xtask/java` (always: two seconds).
    ///
    /// A folder of jars in `KAFKA_LIBS` is taken instead of Maven's.
    ///
    /// # Errors
    ///
    /// When Java or Maven is not here or fails.
    pub(crate) fn ready() -> Result<Self> {
        if !workspace::has("javac") {
            bail!("no javac here; install a JDK, version 17 or later");
        }
        let jars = match env::var_os("KAFKA_LIBS") {
            Some(folder) => PathBuf::from(folder),
            None => fetch()?,
        };
        let classes = workspace::scratch().join("classes");
        fs::create_dir_all(&classes)
            .with_context(|| format!("cannot make {}", classes.display()))?;
        let jars = format!("{}/*", jars.display());
        let mut javac = workspace::command("javac");
        javac.arg("-d").arg(&classes).args(["-cp", &jars, "-nowarn"]).args(sources()?);
        workspace::run(&mut javac)?;
        Ok(Self { class_path: format!("{}:{jars}", classes.display()) })
    }

    /// A JVM that will run `main`; nothing is logged below errors.
    pub(crate) fn java(&self, main: &str) -> Command {
        self.java_with(&["-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"], main)
    }

    /// The jars and the compiled harness, as Java wants them.
    pub(crate) fn class_path(&self) -> &str {
        &self.class_path
    }

    fn java_with(&self, options: &[&str], main: &str) -> Command {
        let mut java = workspace::command("java");
        java.args(options).args(["-cp", &self.class_path, main]);
        java
    }
}

fn fetch() -> Result<PathBuf> {
    let jars = workspace::scratch().join(format!("kafka-{VERSION}"));
    // The marker is written last: a folder that a stopped run left half full does not count.
    let complete = jars.join(".complete");
    if complete.is_file() {
        return Ok(jars);
    }
    if !workspace::has("mvn") {
        bail!("no mvn here to fetch Kafka's jars; install Maven, or name a folder in KAFKA_LIBS");
    }
    let mut mvn = workspace::command("mvn");
    mvn.args(["-q", "-B", "-f", "xtask/java/pom.xml", "dependency:copy-dependencies"]);
    workspace::run(mvn.arg(format!("-DoutputDirectory={}", jars.display())))?;
    fs::write(&complete, "").with_context(|| format!("cannot write {}", complete.display()))?;
    Ok(jars)
}

fn sources() -> Result<Vec<PathBuf>> {
    let dir = workspace::root().join("xtask/java/src/harness");
    workspace::entries(&dir)
}

/// Copies a folder with everything in it, times of change included.
///
/// # Errors
///
/// When something cannot be read or written.
pub(crate) fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for path in workspace::entries(from)? {
        let target = to.join(workspace::name(&path));
        if path.is_dir() {
            copy_tree(&path, &target)?;
        } else {
            copy_file(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    let changed = fs::metadata(from)?.modified()?;
    fs::File::options().write(true).open(to)?.set_modified(changed)
}
