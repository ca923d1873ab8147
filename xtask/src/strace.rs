//! `strace`: the system calls of a server whose consumer fetches a GiB.

use anyhow::Result;

use crate::workspace;

/// MiB that are fetched where nobody says otherwise.
const MIB: u64 = 1024;

/// Runs the tests that look at system calls, over a whole GiB: of `zerocopy-net` by itself, and of
/// the broker with a consumer.
///
/// # Errors
///
/// When one fails.
pub(crate) fn run(mib: Option<u64>) -> Result<()> {
    let mib = mib.unwrap_or(MIB).to_string();
    for (package, tests) in
        [("alluvium-zerocopy-net", "strace::"), ("alluvium-broker", "zero_copy::")]
    {
        let mut test = workspace::cargo();
        test.args(["test", "--package", package, "--all-features", "--test", "it"]);
        test.args(["--", tests, "--nocapture", "--test-threads", "1"]);
        workspace::run(test.env("ALLUVIUM_STRACE_MIB", &mib))?;
    }
    Ok(())
}
