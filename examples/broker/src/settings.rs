//! Settings of the broker: flags, a properties file with Kafka's keys, defaults.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::{fs, io};

use alluvium_log_manager::{BrokerConfig, ConfigError};
use alluvium_recovery::{Damage, Properties};
use clap::{Parser, ValueEnum};

/// One Kafka broker on one node, over the log storage of Alluvium.
#[derive(Clone, Debug, Default, Parser)]
#[command(name = "alluvium-broker", version)]
#[non_exhaustive]
pub struct Args {
    /// Directory for the data: the same as `log.dirs`. Enough to start.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Address to listen on, by default 127.0.0.1:9092; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Name and port that clients are told to connect to, by default the address that they came to.
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: Option<String>,
    /// Properties file with Kafka's keys, such as a `server.properties`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// One property with Kafka's key; wins over the file.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Address of the Prometheus endpoint; none without.
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<SocketAddr>,
    /// What the kernel is told about fetches in order.
    #[arg(long, value_name = "MODE", default_value = "ahead")]
    pub read_ahead: ReadAheadMode,
    /// Certificate chain for TLS, a PEM file.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key for TLS, a PEM file.
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
}

/// What the kernel is told about consumers that fetch a log in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum ReadAheadMode {
    /// Nothing.
    None,
    /// What comes next is asked for.
    #[default]
    Ahead,
    /// The same, and pages that were brought in for a consumer are let go behind it.
    DropBehind,
}

/// What the broker runs with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// The settings of the logs.
    pub logs: BrokerConfig,
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// What clients are told to connect to; the address that they came to where not set.
    pub advertise: Option<(String, u16)>,
    /// `node.id`: that of the data, or 1, where not set.
    pub node_id: Option<i32>,
    /// `cluster.id` for new data; a random one where not set.
    pub cluster_id: Option<String>,
    /// Where Prometheus asks for metrics.
    pub metrics: Option<SocketAddr>,
    /// `auto.create.topics.enable`.
    pub auto_create_topics: bool,
    /// `num.partitions`: partitions of topics that do not say.
    pub partition_count: u32,
    /// `socket.request.max.bytes`: a larger frame closes the connection.
    pub max_request_bytes: u32,
    /// `fetch.max.bytes`: bytes of one answer to a fetch, beyond its first batch.
    pub max_fetch_bytes: u32,
    /// `max.connections`.
    pub max_connections: u32,
    /// `queued.max.request.bytes`: bytes of requests that are in memory at a time.
    pub max_in_flight_bytes: u32,
    /// `connections.max.idle.ms`: milliseconds without a request after which a connection ends.
    pub max_idle_ms: u64,
    /// Milliseconds in which the next MiB of a frame, or its rest, must have come, and in which
    /// some of an answer must have been read.
    pub stall_ms: u64,
    /// What the kernel is told about fetches in order.
    pub read_ahead: ReadAheadMode,
    /// Certificate and key for TLS.
    #[cfg(feature = "tls")]
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// Why the settings were refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The properties file cannot be read.
    #[error("cannot read {}", path.display())]
    #[non_exhaustive]
    Read {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The properties file is no properties file.
    #[error("{} is no properties file", path.display())]
    #[non_exhaustive]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Damage,
    },
    /// A setting of the logs is refused.
    #[error(transparent)]
    #[non_exhaustive]
    Logs {
        /// Why.
        source: ConfigError,
    },
    /// A setting of the broker is refused.
    #[error("`{key}` is {value}, expected {expected}")]
    #[non_exhaustive]
    Value {
        /// Kafka's key, or the flag.
        key: &'static str,
        /// The value as given.
        value: String,
        /// What is accepted.
        expected: &'static str,
    },
}

impl Settings {
    /// The defaults, for logs with these settings: a free port of this machine alone.
    #[must_use]
    pub fn new(logs: BrokerConfig) -> Self {
        Self {
            logs,
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            advertise: None,
            node_id: None,
            cluster_id: None,
            metrics: None,
            auto_create_topics: true,
            partition_count: 1,
            max_request_bytes: 100 << 20,
            max_fetch_bytes: 55 << 20,
            max_connections: 10_000,
            max_in_flight_bytes: 256 << 20,
            max_idle_ms: 600_000,
            stall_ms: 30_000,
            read_ahead: ReadAheadMode::default(),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Reads the properties file, the flags on top of it.
    ///
    /// # Errors
    ///
    /// The first setting that is refused.
    pub fn read(args: &Args) -> Result<Self, SettingsError> {
        let mut properties = match &args.config {
            Some(path) => read_file(path)?,
            None => Properties::new(),
        };
        for pair in &args.set {
            let (key, value) = pair.split_once('=').ok_or_else(|| SettingsError::Value {
                key: "--set",
                value: pair.clone(),
                expected: "KEY=VALUE",
            })?;
            properties.set(key.trim(), value.trim());
        }
        if let Some(data) = &args.data {
            properties.set("log.dirs", data.to_string_lossy());
        }
        if properties.value("log.dirs").or_else(|| properties.value("log.dir")).is_none() {
            let (key, value) = ("--data", "not given".to_owned());
            return Err(SettingsError::Value { key, value, expected: "a directory" });
        }
        let mut settings = Self::from_properties(&properties)?;
        settings.listen = args.listen.unwrap_or(settings.listen);
        settings.metrics = args.metrics;
        settings.read_ahead = args.read_ahead;
        if let Some(text) = &args.advertise {
            settings.advertise = Some(host_and_port("--advertise", text)?);
        }
        #[cfg(feature = "tls")]
        {
            settings.tls = args.tls_cert.clone().zip(args.tls_key.clone());
        }
        Ok(settings)
    }

    fn from_properties(properties: &Properties) -> Result<Self, SettingsError> {
        let (logs, unknown) = BrokerConfig::from_properties(properties.iter())
            .map_err(|source| SettingsError::Logs { source })?;
        for key in unknown {
            tracing::warn!(key.key, nearest = key.nearest, "an unknown setting");
        }
        let mut settings = Self::new(logs);
        settings.listen.set_port(DEFAULT_PORT);
        if let Some(text) = properties.value("listeners") {
            settings.listen = listener(text)?;
        }
        if let Some(text) = properties.value("advertised.listeners") {
            let address = plaintext("advertised.listeners", text)?;
            settings.advertise = Some(host_and_port("advertised.listeners", address)?);
        }
        let number = |key, default| integer(properties, key, default);
        settings.node_id = match properties.value("node.id") {
            Some(_) => Some(i32::try_from(number("node.id", 1)?).unwrap_or(i32::MAX)),
            None => None,
        };
        settings.cluster_id = properties.value("cluster.id").map(str::to_owned);
        settings.auto_create_topics = match properties.value("auto.create.topics.enable") {
            None | Some("true") => true,
            Some("false") => false,
            Some(value) => {
                let (key, value) = ("auto.create.topics.enable", value.to_owned());
                return Err(SettingsError::Value { key, value, expected: "true or false" });
            }
        };
        settings.partition_count = number("num.partitions", settings.partition_count)?;
        settings.max_request_bytes =
            number("socket.request.max.bytes", settings.max_request_bytes)?;
        settings.max_fetch_bytes = number("fetch.max.bytes", settings.max_fetch_bytes)?;
        settings.max_connections = number("max.connections", settings.max_connections)?;
        if let Some(text) = properties.value("connections.max.idle.ms") {
            settings.max_idle_ms = idle_ms(text)?;
        }
        settings.max_in_flight_bytes =
            number("queued.max.request.bytes", settings.max_in_flight_bytes)?
                .max(settings.max_request_bytes);
        Ok(settings)
    }
}

fn read_file(path: &PathBuf) -> Result<Properties, SettingsError> {
    let bytes =
        fs::read(path).map_err(|source| SettingsError::Read { path: path.clone(), source })?;
    Properties::parse(&bytes)
        .map_err(|source| SettingsError::Damaged { path: path.clone(), source })
}

fn integer(properties: &Properties, key: &'static str, default: u32) -> Result<u32, SettingsError> {
    let Some(text) = properties.value(key) else { return Ok(default) };
    if let Ok(number @ 1..=0x7fff_ffff) = text.trim().parse() {
        return Ok(number);
    }
    let expected = "a whole number from 1 to 2147483647";
    Err(SettingsError::Value { key, value: text.to_owned(), expected })
}

/// As in Kafka, below 0 is never.
fn idle_ms(text: &str) -> Result<u64, SettingsError> {
    let parsed = text.trim().parse::<i64>().map_err(|_no_number| SettingsError::Value {
        key: "connections.max.idle.ms",
        value: text.to_owned(),
        expected: "milliseconds",
    });
    Ok(u64::try_from(parsed?).unwrap_or(u64::MAX))
}

/// The address behind the first listener that is no controller's: `PLAINTEXT://host:port`.
fn plaintext<'a>(key: &'static str, text: &'a str) -> Result<&'a str, SettingsError> {
    let mut listeners = text.split(',').filter_map(|listener| listener.trim().split_once("://"));
    let found = listeners.find(|(name, _)| !name.eq_ignore_ascii_case("CONTROLLER"));
    found.map(|(_, address)| address).ok_or_else(|| SettingsError::Value {
        key,
        value: text.to_owned(),
        expected: "PLAINTEXT://HOST:PORT",
    })
}

/// An address to listen on; no host is every interface.
fn listener(text: &str) -> Result<SocketAddr, SettingsError> {
    let key = "listeners";
    let (host, port) = host_and_port(key, plaintext(key, text)?)?;
    let host = match host.as_str() {
        "" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        host => host.trim_matches(['[', ']']).parse().map_err(|_name| SettingsError::Value {
            key,
            value: text.to_owned(),
            expected: "an IP address, localhost or nothing as its host",
        })?,
    };
    Ok(SocketAddr::new(host, port))
}

fn host_and_port(key: &'static str, text: &str) -> Result<(String, u16), SettingsError> {
    let split = text.rsplit_once(':');
    let parsed = split.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?)));
    parsed.ok_or_else(|| SettingsError::Value {
        key,
        value: text.to_owned(),
        expected: "HOST:PORT",
    })
}

const DEFAULT_PORT: u16 = 9092;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[&str]) -> Result<Settings, SettingsError> {
        let set = pairs.iter().map(|&pair| pair.to_owned()).collect();
        Settings::read(&Args { data: Some("/d".into()), set, ..Args::default() })
    }

    #[test]
    fn a_directory_alone_is_enough() {
        let settings = read(&[]).unwrap();
        assert_eq!(settings.logs.log_dirs(), [PathBuf::from("/d")]);
        assert_eq!(settings.listen.to_string(), "127.0.0.1:9092");
        assert!(Settings::read(&Args::default()).is_err());
    }

    #[test]
    fn the_keys_of_a_server_properties_are_read() {
        let settings = read(&[
            "listeners=PLAINTEXT://:19092,CONTROLLER://:9093",
            "advertised.listeners=PLAINTEXT://example.org:29092",
            "node.id=3",
            "num.partitions=4",
            "auto.create.topics.enable=false",
            "log.retention.hours=1",
        ])
        .unwrap();
        assert_eq!(settings.listen.to_string(), "0.0.0.0:19092");
        assert_eq!(settings.advertise, Some(("example.org".to_owned(), 29092)));
        assert_eq!((settings.node_id, settings.partition_count), (Some(3), 4));
        assert!(!settings.auto_create_topics);
        assert_eq!(settings.logs.log_defaults().retention_ms(), Some(3_600_000));
    }

    #[test]
    fn a_flag_wins_over_the_file_and_a_file_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("server.properties");
        let text = "# Kafka's\nlog.dirs=/file\nnum.partitions = 4\nnode.id=3\n";
        fs::write(&path, text).unwrap();
        let mut args = Args { config: Some(path), ..Args::default() };
        let settings = Settings::read(&args).unwrap();
        assert_eq!(settings.logs.log_dirs(), [PathBuf::from("/file")]);
        assert_eq!((settings.node_id, settings.partition_count), (Some(3), 4));

        args.set = vec!["num.partitions=5".to_owned()];
        args.data = Some("/flag".into());
        let settings = Settings::read(&args).unwrap();
        assert_eq!(settings.logs.log_dirs(), [PathBuf::from("/flag")]);
        assert_eq!((settings.node_id, settings.partition_count), (Some(3), 5));

        args.config = Some(folder.path().join("absent"));
        let refused = Settings::read(&args).unwrap_err().to_string();
        assert!(refused.contains("absent"), "{refused}");
    }

    #[test]
    fn a_bad_value_names_its_key() {
        for (pair, key) in [
            ("num.partitions=0", "num.partitions"),
            ("auto.create.topics.enable=maybe", "auto.create.topics.enable"),
            ("listeners=nonsense", "listeners"),
            ("listeners=PLAINTEXT://x.example:1", "listeners"),
            ("log.segment.bytes=1", "`log.segment.bytes` is 1"),
            ("connections.max.idle.ms=soon", "connections.max.idle.ms"),
            ("nonsense", "--set"),
        ] {
            let refused = read(&[pair]).unwrap_err().to_string();
            assert!(refused.contains(key), "{pair}: {refused}");
        }
    }
}
