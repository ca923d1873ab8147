//! Settings of topics and of the broker: from the command line and from a properties file.

use std::fs;
use std::path::{Path, PathBuf};

use alluvium_log_manager::{BrokerConfig, ConfigError, LogConfig, LogConfigBuilder, UnknownKey};
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

    /// As [`with_broker`](Self::with_broker), with those settings of the cluster that are not
    /// refused, and why the others are.
    pub(crate) fn with_broker_but_refused(&self, dynamic: Keys) -> (Self, Vec<CliError>) {
        let with = |dynamic: &Keys| self.clone().with_broker(dynamic.clone());
        let (both, mut refused) = without_refused(dynamic, with);
        let both = both.unwrap_or_else(|error| {
            refused.push(error);
            self.clone()
        });
        (both, refused)
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

    /// As [`of_topic`](Self::of_topic), with those settings of the topic that are not refused, and
    /// why the others are.
    pub(crate) fn of_topic_but_refused(
        &self,
        topic: &str,
        own: &Keys,
    ) -> (LogConfig, Vec<CliError>) {
        let (log, mut refused) = without_refused(own.clone(), |own| self.of_topic(topic, own));
        let log = log.unwrap_or_else(|error| {
            refused.push(error);
            self.log.clone()
        });
        (log, refused)
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

/// What `build` makes of `keys` without those that it refuses, and why it refuses them. Fails where
/// it refuses what is not among them.
fn without_refused<T>(
    mut keys: Keys,
    build: impl Fn(&Keys) -> Result<T, CliError>,
) -> (Result<T, CliError>, Vec<CliError>) {
    let mut refused = Vec::new();
    loop {
        let error = match build(&keys) {
            Err(error) => error,
            built => return (built, refused),
        };
        let before = keys.len();
        if let CliError::Config { source, .. } = &error {
            keys.retain(|key, _| !blames(source, key));
        }
        if keys.len() == before {
            return (Err(error), refused);
        }
        refused.push(error);
    }
}

fn blames(error: &ConfigError, key: &str) -> bool {
    match error {
        ConfigError::Unknown { key: unknown, .. } => unknown == key,
        ConfigError::Value { key: refused, .. } => *refused == key,
        ConfigError::Conflict { key: one, other, .. } => [*one, *other].contains(&key),
        _ => false,
    }
}

impl TopicArgs {
    /// The settings of the topic.
    pub(crate) fn config(&self, console: &mut Console) -> Result<LogConfig, CliError> {
        Ok(self.settings(console)?.log)
    }

    /// All settings. Keys in the file that look misspelled are named on standard error.
    pub(crate) fn settings(&self, console: &mut Console) -> Result<Settings, CliError> {
        let settings = self.with_keys(&self.keys()?)?;
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

    /// All settings but those in the file that are refused, and why they are. Nothing is printed.
    pub(crate) fn but_refused(&self) -> Result<(Settings, Vec<CliError>), CliError> {
        let (settings, refused) = without_refused(self.keys()?, |keys| self.with_keys(keys));
        Ok((settings?, refused))
    }

    fn with_keys(&self, keys: &Keys) -> Result<Settings, CliError> {
        let whence = self.file.clone().map_or(Whence::CommandLine, Whence::File);
        Settings::new(keys.clone(), whence, self.pairs.clone())
    }

    /// What the properties file says.
    fn keys(&self) -> Result<Keys, CliError> {
        let Some(path) = &self.file else { return Ok(Keys::new()) };
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Ok(read(path)?.iter().map(owned).collect())
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
