//! `deny`: what we depend on has a licence that we may use and comes from where it should.

use anyhow::{Result, bail};

use crate::tools::Tool;
use crate::workspace;

/// Runs `cargo deny` by the rules in `deny.toml`.
///
/// Advisories are looked up where that is asked for: their database is a git repository on the
/// network.
///
/// # Errors
///
/// When a rule is broken, and without the tool.
pub(crate) fn run(advisories: bool) -> Result<()> {
    if let Some(reason) = Tool::Deny.missing() {
        bail!("{reason}");
    }
    let mut deny = workspace::command(Tool::Deny.name());
    deny.args(["--log-level", "error", "--all-features", "check", "--show-stats"]);
    deny.args(["licenses", "bans", "sources"]);
    if advisories {
        deny.arg("advisories");
    } else {
        println!("advisories: not looked up, their database is on the network: --advisories");
    }
    workspace::run(&mut deny)
}
