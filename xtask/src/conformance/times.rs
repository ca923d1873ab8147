//! `lookup --timestamp` against what the broker answered to a consumer.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::binary::Alluvium;
use crate::tally::Tally;
use crate::workspace::{entries, name};

/// One answer: the first record at or after `timestamp`, or none.
#[derive(Debug, Deserialize, PartialEq)]
struct Answer {
    timestamp: i64,
    offset: Option<i64>,
    found_timestamp: Option<i64>,
}

/// Asks every question of every `PARTITION.offsets-for-times.jsonl`; each answer is a check.
pub(super) fn check(
    alluvium: &Alluvium,
    disk: &Path,
    views: &Path,
    tally: &mut Tally,
) -> Result<()> {
    for file in entries(views)? {
        let file_name = name(&file);
        let Some(partition) = file_name.strip_suffix(".offsets-for-times.jsonl") else { continue };
        let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let theirs = parse(&text).with_context(|| format!("cannot read {}", file.display()))?;
        let ours = ask(alluvium, disk, partition, &theirs);
        compare(partition, ours, &theirs, tally);
    }
    Ok(())
}

fn compare(partition: &str, ours: Result<Vec<Answer>>, theirs: &[Answer], tally: &mut Tally) {
    match ours {
        Ok(ours) => {
            for (our, their) in ours.iter().zip(theirs) {
                let what = format!("{partition} at time {}", their.timestamp);
                let same = || {
                    ensure!(our == their, "ours {our:?}, Kafka's {their:?}");
                    Ok(())
                };
                tally.check(&what, same());
            }
        }
        Err(error) => tally.check(&format!("look-ups by time in {partition}"), Err(error)),
    }
}

fn ask(
    alluvium: &Alluvium,
    disk: &Path,
    partition: &str,
    questions: &[Answer],
) -> Result<Vec<Answer>> {
    let mut args = vec!["lookup".to_owned(), partition.to_owned(), "--json".to_owned()];
    args.extend(questions.iter().map(|asked| format!("--timestamp={}", asked.timestamp)));
    let answers = parse(&alluvium.stdout(disk, &args)?)?;
    let (asked, got) = (questions.len(), answers.len());
    ensure!(asked == got, "{asked} questions, {got} answers");
    Ok(answers)
}

fn parse(lines: &[u8]) -> Result<Vec<Answer>> {
    serde_json::Deserializer::from_slice(lines)
        .into_iter()
        .collect::<Result<_, _>>()
        .context("a line is no answer")
}
