#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod api;
mod broker;
mod net;
mod observe;
mod settings;
mod store;
mod wire;

pub use broker::{Broker, StartError};
pub use settings::{Args, ReadAheadMode, Settings, SettingsError};
