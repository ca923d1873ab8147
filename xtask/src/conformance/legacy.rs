//! Logs of magic 0 and 1: `dump` with everything printed against the text beside each folder.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::binary::Alluvium;
use crate::tally::{Tally, same_text};
use crate::workspace::{entries, name};

const SUFFIX: &str = ".dump.txt";

/// Compares every `NAME.dump.txt` with what we print for the log in `NAME/`.
pub(super) fn check(alluvium: &Alluvium, dir: &Path, tally: &mut Tally) -> Result<()> {
    for text in entries(dir)? {
        let text_name = name(&text);
        let Some(partition) = text_name.strip_suffix(SUFFIX) else { continue };
        for log in entries(&dir.join(partition))? {
            if log.extension().is_some_and(|extension| extension == "log") {
                let path = format!("{partition}/{}", name(&log));
                tally.check(&format!("dump of {path}"), compare(alluvium, dir, &path, &text));
            }
        }
    }
    Ok(())
}

fn compare(alluvium: &Alluvium, dir: &Path, path: &str, theirs: &Path) -> Result<()> {
    let theirs = fs::read(theirs).with_context(|| format!("cannot read {}", theirs.display()))?;
    let flags = ["dump", "--format", "kafka", "--deep-iteration", "--print-data-log", path];
    same_text(&alluvium.stdout(dir, &flags)?, &theirs)
}
