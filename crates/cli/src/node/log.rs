//! The log of a running node: to stderr, for people or as JSON.

use std::io::{IsTerminal, stderr};

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Human,
    /// One JSON object a line.
    Json,
}

/// The section `[log]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// The format of the log.
    pub format: LogFormat,
    /// Which lines are written: `error`, `warn`, `info`, `debug`, `trace`, or directives as in `RUST_LOG`, which comes
    /// first.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info".to_owned() }
    }
}

/// Directives that silence libraries where the node reports the same error itself.
const QUIET: &str =
    "openraft=error,openraft::replication=off,openraft::core::raft_core=off,h2=warn,hyper=warn,tower=warn";

/// The filter for `level`.
///
/// # Errors
/// A word that is no level or directive.
pub(super) fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    // The library takes a word that is no level for the name of a target, and would write nothing then.
    for word in level.split(',').filter(|word| !word.contains('=')) {
        word.trim().parse::<LevelFilter>().map_err(|_| anyhow::anyhow!("`{word}` is no level"))?;
    }
    Ok(EnvFilter::builder().parse(format!("{QUIET},{level}"))?)
}

/// A receiver of lines and spans.
pub(super) type Sink = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log, and sends spans to `others`; `RUST_LOG` comes before the configuration.
///
/// # Errors
/// A word that is no level or directive.
pub(super) fn start(config: &LogConfig, others: Option<Sink>) -> anyhow::Result<()> {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(directives) if !directives.is_empty() => EnvFilter::builder().parse(directives)?,
        _ => filter(&config.level)?,
    };
    let lines = fmt::layer().with_writer(stderr);
    let lines: Sink = match config.format {
        LogFormat::Human => lines.with_ansi(stderr().is_terminal()).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    };
    let sinks: Vec<Sink> = others.into_iter().chain([lines]).collect();
    tracing_subscriber::registry().with(sinks).init();
    Ok(())
}
