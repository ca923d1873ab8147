//! A folder in one compressed file: index files are mostly zeros, texts mostly the same.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// Packs the folder `dir` into `file`.
///
/// # Errors
///
/// When `tar` fails or a file cannot be read or written.
pub(crate) fn pack(dir: &Path, file: &Path) -> Result<()> {
    let mut tar = workspace::command("tar");
    tar.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    // Times stay: Kafka takes the age of an empty segment from its file.
    tar.arg("--directory").arg(dir).arg(".");
    let mut child = tar.stdout(Stdio::piped()).spawn().context("cannot start tar")?;
    let from = child.stdout.take().context("stdout is piped")?;
    if let Some(parent) = file.parent() {
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    let to = File::create(file).with_context(|| format!("cannot write {}", file.display()))?;
    zstd::stream::copy_encode(from, to, 19).context("cannot compress")?;
    ensure!(child.wait().context("cannot wait for tar")?.success(), "tar failed");
    Ok(())
}

/// Unpacks `file` into the folder `dir`, which is emptied first.
///
/// # Errors
///
/// When `tar` fails or a file cannot be read or written.
pub(crate) fn unpack(file: &Path, dir: &Path) -> Result<()> {
    workspace::empty_dir(dir)?;
    let from = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut from = zstd::Decoder::new(from).context("cannot decompress")?;
    let mut tar = workspace::command("tar");
    tar.args(["--extract", "--directory"]).arg(dir);
    let mut child = tar.stdin(Stdio::piped()).spawn().context("cannot start tar")?;
    let mut to = child.stdin.take().context("stdin is piped")?;
    io::copy(&mut from, &mut to).context("cannot unpack")?;
    drop(to);
    ensure!(child.wait().context("cannot wait for tar")?.success(), "tar failed");
    Ok(())
}
