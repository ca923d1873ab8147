//! Work on several partitions, some of which may fail.

use std::path::PathBuf;

use crate::console::Console;
use crate::error::CliError;
use crate::partition::Partition;

/// Lists and works on every partition, also behind one that fails. Each failure is named; the last
/// one is the caller's to name.
pub(crate) fn each(
    paths: &[PathBuf],
    console: &mut Console,
    mut work: impl FnMut(&Partition, &mut Console) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut failed = None;
    for path in paths {
        match Partition::read(path).and_then(|partition| work(&partition, console)) {
            Ok(()) => {}
            // Nobody reads on.
            Err(error) if error.is_closed_pipe() => return Err(error),
            Err(error) => {
                if let Some(earlier) = failed.replace(error) {
                    console.failure(&earlier)?;
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}
