//! `fmt`: the form of Rust and TOML files, and the spelling.

use anyhow::Result;

use crate::workspace;

/// Formats, or with `check` only looks.
///
/// # Errors
///
/// When something is, or with `check` would be, wrong.
pub(crate) fn run(check: bool) -> Result<()> {
    let mut fmt = workspace::cargo();
    fmt.args(["fmt", "--all"]);
    if check {
        fmt.arg("--check");
    }
    workspace::run(&mut fmt)?;
    for tool in [Tool::Taplo, Tool::Typos] {
        if let Some(reason) = tool.missing() {
            println!("skipped {}: {reason}", tool.name());
            continue;
        }
        tool.run(check)?;
    }
    Ok(())
}

/// A checker that does not come with the toolchain.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    /// The form of TOML files.
    Taplo,
    /// The spelling.
    Typos,
}

impl Tool {
    /// The program to call.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Taplo => "taplo",
            Self::Typos => "typos",
        }
    }

    /// Why it cannot run here, if so, and what to do.
    pub(crate) fn missing(self) -> Option<String> {
        let name = self.name();
        (!workspace::has(name)).then(|| format!("no {name} here; get it with `pip install {name}`"))
    }

    /// Runs it over the repository.
    ///
    /// # Errors
    ///
    /// When it finds something.
    pub(crate) fn run(self, check: bool) -> Result<()> {
        let mut command = workspace::command(self.name());
        match (self, check) {
            (Self::Taplo, true) => command.args(["fmt", "--check"]),
            (Self::Taplo, false) => command.arg("fmt"),
            (Self::Typos, _) => &mut command,
        };
        workspace::run(command.env("RUST_LOG", "warn"))
    }
}
