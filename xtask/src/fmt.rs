//! `fmt`: the form of Rust and TOML files, and the spelling.

use anyhow::Result;

use crate::tools::Tool;
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
        check_with(tool, check)?;
    }
    Ok(())
}

/// Runs one of the two checkers over the repository.
///
/// # Errors
///
/// When it finds something.
pub(crate) fn check_with(tool: Tool, check: bool) -> Result<()> {
    let mut command = workspace::command(tool.name());
    match (tool, check) {
        (Tool::Taplo, true) => command.args(["fmt", "--check"]),
        (Tool::Taplo, false) => command.arg("fmt"),
        _ => &mut command,
    };
    workspace::run(command.env("RUST_LOG", "warn"))
}
