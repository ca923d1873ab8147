//! The `alluvium` program, called as an operator would.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace;

/// The built program.
#[derive(Debug)]
pub(crate) struct Alluvium {
    path: PathBuf,
}

impl Alluvium {
    /// Builds it, in the profile of the tests.
    ///
    /// # Errors
    ///
    /// When it does not build.
    pub(crate) fn build() -> Result<Self> {
        let mut build = workspace::cargo();
        workspace::run(build.args(["build", "--quiet", "--package", "alluvium"]))?;
        Ok(Self { path: workspace::target().join("debug/alluvium") })
    }

    /// Runs it in `dir` and returns its stdout.
    ///
    /// # Errors
    ///
    /// When its exit code is not 0: the error holds the last line of its stderr.
    pub(crate) fn stdout<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S]) -> Result<Vec<u8>> {
        let out = self.output(dir, args)?;
        if out.status.success() {
            return Ok(out.stdout);
        }
        let stderr = String::from_utf8_lossy(&out.stderr);
        let last = stderr.lines().next_back().unwrap_or("nothing on stderr");
        bail!("{}, {last}", out.status)
    }

    /// Runs it in `dir` to its end, whatever that is.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub(crate) fn output<S: AsRef<OsStr>>(&self, dir: &Path, args: &[S]) -> Result<Output> {
        let mut command = Command::new(&self.path);
        command.current_dir(dir).args(args).stdin(Stdio::null());
        command.output().with_context(|| format!("cannot start {}", self.path.display()))
    }
}
