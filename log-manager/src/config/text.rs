//! Settings through serde: maps of Kafka's keys, values as text, numbers or booleans.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{BrokerConfig, LogConfig};

/// A value as any format writes it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Boolean(bool),
    Integer(i64),
    Ratio(f64),
}

impl Scalar {
    fn into_text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Boolean(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Ratio(value) => value.to_string(),
        }
    }
}

fn texts<'de, D: Deserializer<'de>>(source: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = BTreeMap::<String, Scalar>::deserialize(source)?;
    Ok(map.into_iter().map(|(key, value)| (key, value.into_text())).collect())
}

fn borrowed(texts: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    texts.iter().map(|(key, text)| (key.as_str(), text.as_str()))
}

impl<'de> Deserialize<'de> for LogConfig {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        Self::from_properties(borrowed(&texts(source)?)).map_err(D::Error::custom)
    }
}

/// Keys that look misspelled are named in a warning.
impl<'de> Deserialize<'de> for BrokerConfig {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        let texts = texts(source)?;
        let (config, unknown) =
            Self::from_properties(borrowed(&texts)).map_err(D::Error::custom)?;
        for key in unknown {
            tracing::warn!(key = key.key, nearest = key.nearest, "an unknown setting");
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_booleans_and_texts_are_read_alike() {
        let config: LogConfig = serde_json::from_str(
            r#"{"segment.bytes": 2097152, "preallocate": true, "retention.ms": "-1",
                "min.cleanable.dirty.ratio": 0.25}"#,
        )
        .unwrap();
        assert_eq!((config.segment_bytes(), config.retention_ms()), (2_097_152, None));
        assert!(config.preallocate());
        let broker: BrokerConfig = serde_json::from_str(r#"{"log.retention.hours": 1}"#).unwrap();
        assert_eq!(broker.log_defaults().retention_ms(), Some(3_600_000));
    }

    #[test]
    fn a_bad_value_is_refused_with_its_key() {
        let refused = serde_json::from_str::<LogConfig>(r#"{"segment.bytes": 5}"#).unwrap_err();
        assert!(refused.to_string().starts_with("`segment.bytes` is 5"), "{refused}");
    }
}
