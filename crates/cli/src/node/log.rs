//! What a node tells while it runs: to stderr, for people or as JSON.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

use super::config_file::{LogConfig, LogFormat};

/// What libraries say on the way to an answer that the node tells itself.
const QUIET: &str = "openraft=error,openraft::replication=off,h2=warn,hyper=warn,tower=warn";

/// What `level` lets through.
///
/// # Errors
/// A level or directive that is none.
pub(super) fn filter(level: &str) -> anyhow::Result<EnvFilter> {
    // The library takes a word that is no level for the name of a target, and is silent then.
    for word in level.split(',').filter(|word| !word.contains('=')) {
        word.trim().parse::<LevelFilter>().map_err(|_| anyhow::anyhow!("`{word}` is no level"))?;
    }
    Ok(EnvFilter::builder().parse(format!("{QUIET},{level}"))?)
}

/// Starts the log; `RUST_LOG` comes before the configuration.
///
/// # Errors
/// A level or directive that is none.
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
