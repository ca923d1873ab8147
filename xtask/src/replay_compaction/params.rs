//! What Kafka's cleaner was given, and what it reported.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result};
use serde::Deserialize;

/// One `params.json`.
#[derive(Debug, Deserialize)]
pub(super) struct Params {
    config: HashMap<String, String>,
    pub(super) passes: Vec<Pass>,
}

/// One pass.
#[derive(Debug, Deserialize)]
pub(super) struct Pass {
    #[serde(rename = "pass")]
    pub(super) number: u32,
    pub(super) first_dirty_offset: i64,
    pub(super) first_uncleanable_offset: i64,
    pub(super) now_ms: i64,
    pub(super) offset_map_bytes: usize,
    pub(super) dup_buffer_load_factor: f64,
    pub(super) next_dirty_offset: i64,
    pub(super) messages_read: u64,
    pub(super) messages_written: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    pub(super) log_end_offset: i64,
}

impl Params {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text =
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("cannot parse {}", path.display()))
    }

    /// A setting of the log that is a number.
    pub(super) fn number<T: FromStr>(&self, key: &str) -> Result<T>
    where
        T::Err: std::error::Error + Send + Sync + 'static,
    {
        let text = self.config.get(key).with_context(|| format!("{key} is not set"))?;
        text.parse().with_context(|| format!("{key} is no number"))
    }
}
