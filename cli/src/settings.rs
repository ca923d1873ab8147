//! Settings of topics and of the broker: from the command line and from a properties file.

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_log_manager::{BrokerConfig, LogConfig, LogConfigBuilder, UnknownKey};
use alluvium_recovery::Properties;
use clap::Args;

use crate::console::Console;
use crate::error::{CliError, Whence};
use crate::topic_settings::Keys;

/// Settings of the topic that a command has to know.
#[derive(Args, Debug)]
pub(crate) struct TopicArgs {
    /// A properties file with settings of the broker, such as log.retention.hours, or of the
    /// topic, such as retention.ms
    #[arg(long = "config", value_name = "FILE")]
    file: Option<PathBuf>,

    /// A setting of the topic that is not Kafka's default, such as index.interval.bytes=512; may
    /// be repeated, and goes before the file's
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_setting)]
    pairs: Vec<(String, String)>,
}

/// What was set, and Kafka's defaults for the rest.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) log: LogConfig,
    /// The same without the command line.
    unsaid: LogConfigBuilder,
    /// Keys in the file that look misspelled, and what was meant.
    pub(crate) misspelled: Vec<UnknownKey>,
    /// What the file says, and the cluster of its brokers.
    file: Keys,
    /// What the command line says.
    given: Vec<(String, String)>,
}

/// The keys that say how long records are kept.
pub(crate) const RETENTION_MS: &[&str] =
    &["retention.ms", "log.retention.ms", "log.retention.minutes", "log.retention.hours"];

/// The keys that say how much of a log is kept.
pub(crate) const RETENTION_BYTES: &[&str] = &["retention.bytes", "log.retention.bytes"];

impl Settings {
    /// `file` comes from `whence`.
    fn new(file: Keys, whence: Whence, given: Vec<(String, String)>) -> Result<Self, CliError> {
        let pairs = file.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let (of_topic, of_broker): (Vec<_>, Vec<_>) =
            pairs.partition(|(key, _)| LogConfig::KEYS.contains(key));
        let (broker, misspelled) =
            BrokerConfig::from_properties(of_broker).map_err(whence.clone().refused())?;
        let unsaid = broker.log_defaults().to_builder().properties(of_topic);
        let unsaid = unsaid.map_err(whence.clone().refused())?;
        let log = with_said(&unsaid, whence, &given)?;
        Ok(Self { log, unsaid, misspelled, file, given })
    }

    /// The settings of a broker for which the cluster has these beside its file, and before it.
    pub(crate) fn with_broker(mut self, dynamic: Keys) -> Result<Self, CliError> {
        self.file.extend(dynamic);
        let both = Self::new(self.file, Whence::Broker, self.given)?;
        Ok(Self { misspelled: self.misspelled, ..both })
    }

    /// Whether somebody said one of `keys`.
    pub(crate) fn says(&self, keys: &[&str]) -> bool {
        let given = self.given.iter().map(|(key, _)| key);
        given.chain(self.file.keys()).any(|key| keys.contains(&key.as_str()))
    }

    /// The settings of a topic that has these of its own. The command line goes before them, the
    /// file behind them. Keys of later versions of Kafka are passed over.
    pub(crate) fn of_topic(&self, topic: &str, own: &Keys) -> Result<LogConfig, CliError> {
        let known = own.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let known = known.filter(|(key, _)| LogConfig::KEYS.contains(key));
        let whence = Whence::Topic(topic.to_owned());
        let unsaid = self.unsaid.clone().properties(known).map_err(whence.clone().refused())?;
        with_said(&unsaid, whence, &self.given)
    }
}

/// The settings with those of the command line before them, which may contradict them. What
/// contradicts itself without is told of `whence`.
fn with_said(
    unsaid: &LogConfigBuilder,
    whence: Whence,
    given: &[(String, String)],
) -> Result<LogConfig, CliError> {
    let said = given.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let both = unsaid.clone().properties(said).map_err(Whence::CommandLine.refused())?;
    both.build().map_err(|refused| match unsaid.clone().build() {
        Ok(_) => Whence::CommandLine.refused()(refused),
        Err(refused) => whence.refused()(refused),
    })
}

impl TopicArgs {
    /// The settings of the topic.
    pub(crate) fn config(&self, console: &mut Console) -> Result<LogConfig, CliError> {
        Ok(self.settings(console)?.log)
    }

    /// All settings. Keys in the file that look misspelled are named on standard error.
    pub(crate) fn settings(&self, console: &mut Console) -> Result<Settings, CliError> {
        let settings = self.read()?;
        if let Some(path) = &self.file {
            for key in &settings.misspelled {
                let (key, nearest) = (&key.key, key.nearest);
                console.note(path, None, format_args!("{key}: did you mean {nearest}?"))?;
            }
        }
        Ok(settings)
    }

    /// The properties file.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// All settings, nothing printed.
    pub(crate) fn read(&self) -> Result<Settings, CliError> {
        let properties = match &self.file {
            Some(path) => read(path)?,
            None => Properties::new(),
        };
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        let whence = self.file.clone().map_or(Whence::CommandLine, Whence::File);
        Settings::new(properties.iter().map(owned).collect(), whence, self.pairs.clone())
    }
}

fn read(path: &Path) -> Result<Properties, CliError> {
    let bytes = fs::read(path).map_err(CliError::io("read", path))?;
    Properties::parse(&bytes)
        .map_err(|source| CliError::Properties { path: path.to_path_buf(), source })
}

fn parse_setting(text: &str) -> Result<(String, String), &'static str> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}
