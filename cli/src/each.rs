//! Work on several partitions, some of which may fail.

use std::path::PathBuf;

use crate::console::Console;
use crate::error::CliError;
use crate::partition::Partition;

/// Lists and works on every partition, also behind one that fails, as [`each_of`].
pub(crate) fn each(
    paths: &[PathBuf],
    console: &mut Console,
    mut work: impl FnMut(&Partition, &mut Console) -> Result<(), CliError>,
) -> Result<(), CliError> {
    each_of(paths, console, |path, console| work(&Partition::read(path)?, console))
}

/// Works on everything, also behind one that fails. Each failure is named; the last one is the
/// caller's to name.
pub(crate) fn each_of<T>(
    items: impl IntoIterator<Item = T>,
    console: &mut Console,
    mut work: impl FnMut(T, &mut Console) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let mut failed = None;
    for item in items {
        match work(item, console) {
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

/// As [`each`], with partitions that are listed. Every failure is named here, so that the caller
/// can sum up what did not fail; the command exits with 2.
pub(crate) fn each_listed(
    partitions: &[Partition],
    console: &mut Console,
    mut work: impl FnMut(&Partition, &mut Console) -> Result<(), CliError>,
) -> Result<(), CliError> {
    for partition in partitions {
        match work(partition, console) {
            Ok(()) => {}
            Err(error) if error.is_closed_pipe() => return Err(error),
            Err(error) => console.failure(&error)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::{Partition, each_listed};
    use crate::console::Console;
    use crate::error::CliError;

    #[test]
    fn work_goes_on_behind_a_listed_partition_that_fails() {
        let dir = tempfile::tempdir().unwrap();
        let listed: Vec<_> = [0, 1, 2].map(|_| Partition::read(dir.path()).unwrap()).into();
        let (mut console, mut calls) = (Console::default(), 0);
        let worked = each_listed(&listed, &mut console, |partition, _| {
            calls += 1;
            if calls < 3 {
                return Err(CliError::NotAPartition { path: partition.path.clone() });
            }
            Ok(())
        });
        assert!(worked.is_ok());
        assert_eq!(calls, 3);
        assert_eq!(format!("{:?}", console.exit_code()), format!("{:?}", ExitCode::from(2)));
    }
}
