//! The form of a trace.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::operation::Operation;

/// A whole trace.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) head: Head,
    pub(super) lines: Vec<Line>,
}

/// The first line: how the log was opened.
#[derive(Debug, Deserialize)]
pub(super) struct Head {
    /// Kafka's keys.
    pub(super) config: BTreeMap<String, String>,
    /// The name of the partition's directory.
    pub(super) directory: String,
    pub(super) producer_id_expiration_ms: u64,
    pub(super) start_ms: i64,
}

/// One operation with its result.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    #[serde(skip)]
    pub(super) number: usize,
    #[serde(flatten)]
    pub(super) operation: Operation,
    pub(super) now_ms: i64,
    /// What came back; no key at all after an error.
    #[serde(default)]
    pub(super) ok: Value,
    /// The simple name of the exception's class.
    pub(super) error: Option<String>,
    pub(super) message: Option<String>,
    pub(super) state: State,
}

/// The log after an operation.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(super) struct State {
    pub(super) log_start_offset: i64,
    pub(super) log_end_offset: i64,
    pub(super) high_watermark: i64,
    pub(super) last_stable_offset: i64,
    /// Base offset and bytes of each.
    pub(super) segments: Vec<(i64, u64)>,
}

impl Trace {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut texts = text.lines();
        let head = texts.next().context("the trace is empty")?;
        let head = serde_json::from_str(head).context("line 1 is no configuration")?;
        let mut lines = Vec::new();
        for (index, text) in texts.enumerate() {
            let number = index + 2;
            let line: Line = serde_json::from_str(text)
                .with_context(|| format!("line {number} is no operation"))?;
            lines.push(Line { number, ..line });
        }
        ensure!(!lines.is_empty(), "the trace holds no operation");
        Ok(Self { head, lines })
    }
}

impl Head {
    /// Whether the leader compressed: then bytes may differ, as the output of a compressor is
    /// its own affair.
    pub(super) fn recompresses(&self) -> bool {
        let codec = self.config.get("compression.type").map_or("producer", String::as_str);
        !matches!(codec, "producer" | "uncompressed")
    }
}
