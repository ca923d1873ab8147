#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod config;

pub use config::{
    CleanupPolicy, CompressionType, ConfigError, Expected, LogConfig, LogConfigBuilder,
};
