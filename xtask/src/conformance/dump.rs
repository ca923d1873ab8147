//! `dump --format kafka --deep-iteration` against the text of Kafka's own tool.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};

use super::binary::Alluvium;
use crate::tally::{Tally, same_text};
use crate::workspace::{entries, name};

/// Compares every file of `clean/` that has a text in `dump/`, and demands that every text has
/// its file.
pub(super) fn check(alluvium: &Alluvium, dir: &Path, tally: &mut Tally) -> Result<()> {
    let clean = dir.join("clean");
    let mut texts: BTreeSet<String> =
        entries(&dir.join("dump"))?.iter().map(|path| name(path)).collect();
    for partition in entries(&clean)?.into_iter().filter(|path| path.is_dir()) {
        for file in entries(&partition)? {
            let text = format!("{}.{}.txt", name(&partition), name(&file));
            if !texts.remove(&text) {
                continue;
            }
            let path = format!("{}/{}", name(&partition), name(&file));
            let theirs = dir.join("dump").join(&text);
            tally.check(&format!("dump of {path}"), compare(alluvium, &clean, &path, &theirs));
        }
    }
    for text in texts {
        tally.check(&format!("dump/{text}"), Err(anyhow!("has no file in clean/")));
    }
    Ok(())
}

fn compare(alluvium: &Alluvium, clean: &Path, path: &str, theirs: &Path) -> Result<()> {
    let theirs = fs::read(theirs).with_context(|| format!("cannot read {}", theirs.display()))?;
    let ours = alluvium.stdout(clean, &["dump", "--format", "kafka", "--deep-iteration", path])?;
    same_text(&ours, &theirs)
}
