//! The log of a running node: to stderr, for people or as JSON.

use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

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
const QUIET: &str = "openraft=error,openraft::replication=off,h2=warn,hyper=warn,tower=warn";

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

/// Starts the log; `RUST_LOG` comes before the configuration.
///
/// # Errors
/// A word that is no level or directive.
pub(super) fn start(config: &LogConfig) -> anyhow::Result<()> {
    let filter = match std::env::var(EnvFilter::DEFAULT_ENV) {
        Ok(directives) if !directives.is_empty() => EnvFilter::builder().parse(directives)?,
        _ => filter(&config.level)?,
    };
    let log = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.format {
        LogFormat::Human => log.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
    Ok(())
}
