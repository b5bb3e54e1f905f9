//! Writes the log of a running node to stderr, as text for users or as JSON.

use std::io::{IsTerminal, stderr};

use serde::{Deserialize, Serialize};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt};

/// Format of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text for users.
    #[default]
    Human,
    /// One JSON object per line.
    Json,
}

/// The section `[log]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LogConfig {
    /// The format of the log.
    pub format: LogFormat,
    /// Minimum level of the messages that are logged: `error`, `warn`, `info`, `debug` or `trace`. The value can also
    /// be a list of directives in the form of `RUST_LOG`. If the environment variable `RUST_LOG` is set, it takes
    /// precedence over this setting.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::default(), level: "info".to_owned() }
    }
}

/// Directives that silence libraries whose errors the node reports itself.
const QUIET: &str =
    "openraft=error,openraft::replication=off,openraft::core::raft_core=off,h2=warn,hyper=warn,tower=warn";

/// Returns the filter for `level`.
///
/// # Errors
/// Returns an error if a word is neither a level nor a directive.
pub(super) fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    // The library would interpret a word that is not a level as the name of a target, and then write nothing.
    for word in level.split(',').filter(|word| !word.contains('=')) {
        word.trim().parse::<LevelFilter>().map_err(|_| anyhow::anyhow!("`{word}` is no level"))?;
    }
    Ok(EnvFilter::builder().parse(format!("{QUIET},{level}"))?)
}

/// A receiver of log lines and spans.
pub(super) type Sink = Box<dyn Layer<Registry> + Send + Sync>;

/// Starts the log, and also sends spans to `others`. The environment variable `RUST_LOG` takes precedence over the
/// configuration.
///
/// # Errors
/// Returns an error if a word is neither a level nor a directive.
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
