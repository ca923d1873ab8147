//! `strace`: the system calls of a server whose consumer fetches a GiB.

use anyhow::Result;

use crate::workspace;

/// MiB that are fetched where nobody says otherwise.
const MIB: u64 = 1024;

/// Runs the tests of `zerocopy-net` that look at system calls, over a whole GiB.
///
/// # Errors
///
/// When one fails.
pub(crate) fn run(mib: Option<u64>) -> Result<()> {
    let mut test = workspace::cargo();
    test.args(["test", "--package", "alluvium-zerocopy-net", "--all-features", "--test", "it"]);
    test.args(["--", "strace::", "--nocapture", "--test-threads", "1"]);
    workspace::run(test.env("ALLUVIUM_STRACE_MIB", mib.unwrap_or(MIB).to_string()))
}
