//! Where the repository is, what is in it, and how its tools are called.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The root of the repository.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies one folder below the root")
}

/// Where cargo builds.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where tasks leave what they make.
pub(crate) fn scratch() -> PathBuf {
    target().join("xtask")
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command in the root of the repository.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// Runs a command to its end, output passed through.
///
/// # Errors
///
/// When it does not start, and when it fails: the text is the command to repeat.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it wrote on stdout.
///
/// # Errors
///
/// As [`run`].
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>> {
    let shown = shown(command);
    let out = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !out.status.success() {
        bail!("`{shown}` failed ({})", out.status);
    }
    Ok(out.stdout)
}

/// Whether a program can be started at all. What it says of `--version` does not count: some have
/// another word for that.
pub(crate) fn has(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok()
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Every file that git knows or would add, relative to the root.
///
/// # Errors
///
/// When git fails.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let mut git = command("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let out = String::from_utf8(output(&mut git)?).context("a file name is not UTF-8")?;
    let listed = out.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from);
    Ok(listed.filter(|path| root().join(path).is_file()).collect())
}

/// The entries of a folder, in order of name.
///
/// # Errors
///
/// When it cannot be read.
pub(crate) fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.with_context(|| format!("cannot list {}", dir.display()))?.path());
    }
    paths.sort();
    Ok(paths)
}

/// Makes a folder, or empties the one that is there.
///
/// # Errors
///
/// When that is refused.
pub(crate) fn empty_dir(dir: &Path) -> Result<()> {
    if dir.exists() {
        fs::remove_dir_all(dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))
}

/// The last part of a path as text.
pub(crate) fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// What `cargo metadata` says of our own crates.
///
/// # Errors
///
/// When cargo fails or prints what we cannot read.
pub(crate) fn packages() -> Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let mut cargo = cargo();
    cargo.args(["metadata", "--format-version", "1", "--no-deps"]);
    let out = output(&mut cargo)?;
    let metadata: Metadata =
        serde_json::from_slice(&out).context("cannot read the output of cargo metadata")?;
    Ok(metadata.packages)
}

/// One crate of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) publish: Option<Vec<String>>,
    pub(crate) description: Option<String>,
    pub(crate) readme: Option<String>,
    pub(crate) license: Option<String>,
    pub(crate) rust_version: Option<String>,
    pub(crate) keywords: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
}

impl Package {
    /// The folder of the crate.
    pub(crate) fn dir(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(&self.manifest_path)
    }

    /// Whether the crate goes to a registry.
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|to| !to.is_empty())
    }
}

/// One line of a `[dependencies]` table.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
    pub(crate) optional: bool,
    pub(crate) path: Option<PathBuf>,
}
