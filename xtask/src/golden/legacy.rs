//! Logs of magic 0 and 1, written with Kafka's record classes, and what its dump tool prints.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::kafka::{DumpTool, Kafka};
use crate::workspace::{self, entries, name};

/// Makes `NAME/` and `NAME.dump.txt` for each magic under `dir`.
///
/// # Errors
///
/// When Java fails.
pub(crate) fn make(kafka: &Kafka, dir: &Path) -> Result<()> {
    workspace::empty_dir(dir)?;
    workspace::run(kafka.java("harness.LegacyLogs").arg(dir))?;
    let mut tool = DumpTool::start(kafka, dir)?;
    for partition in entries(dir)? {
        let partition = name(&partition);
        let log = format!("{partition}/00000000000000000000.log");
        let printed = tool.run(&["--deep-iteration", "--print-data-log"], &log)?;
        let text = dir.join(format!("{partition}.dump.txt"));
        fs::write(&text, printed.stdout)
            .with_context(|| format!("cannot write {}", text.display()))?;
    }
    Ok(())
}
