//! Checks the validity dates of a node's certificates. If the node's own certificate is expired or not yet valid, the
//! node refuses to start, because the other nodes would reject its connections. A warning is printed some time before a
//! certificate expires.

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, SystemTime};

use firstseen_wire::validity::{Doubt, Validity};
use jiff::Timestamp;

use super::config_file::NodeFile;
use crate::exit::UsageError;

/// How long before a certificate expires a warning is printed.
const SOON: Duration = Duration::from_secs(30 * 24 * 3600);

/// Returns warnings about certificates that expire soon.
///
/// # Errors
/// Returns a [`UsageError`] that says which file has expired or is not valid yet, since or from when, and what to do.
pub(super) fn check(file: &NodeFile, path: &Path) -> anyhow::Result<Vec<String>> {
    let Some(tls) = &file.node.tls else { return Ok(Vec::new()) };
    let files = tls.files();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let doubts = files.doubts(now, SOON).map_err(|error| wrong(path, error))?;
    for doubt in &doubts {
        if !doubt.is_authority && !matches!(doubt.validity, Validity::EndsSoon(_)) {
            return Err(wrong(path, text(doubt, now)).into());
        }
    }
    let server = tls.server_files(&file.node.name).server().map_err(|error| wrong(path, error))?;
    server.accepts_itself(now).map_err(|reason| wrong(path, reason))?;
    Ok(doubts.iter().map(|doubt| text(doubt, now)).collect())
}

fn wrong(path: &Path, text: impl Display) -> UsageError {
    UsageError(format!("{}, [tls]: {text}", path.display()))
}

fn text(Doubt { path, is_authority, validity }: &Doubt, now: Duration) -> String {
    let what = if *is_authority { "the authority's certificate" } else { "certificate" };
    let how = match validity {
        Validity::NotYet(from_s) => format!(
            "is valid from {} only, and this machine's clock shows {}: set the clock, or put another certificate there",
            date(*from_s),
            date(now.as_secs())
        ),
        Validity::Over(since_s) => {
            format!("has expired, on {}: put a new one there, signed by the cluster's authority", date(*since_s))
        }
        Validity::EndsSoon(at_s) => {
            format!("expires on {}: put a new one there before: the node takes it over", date(*at_s))
        }
    };
    let accepted = match (is_authority, validity) {
        (true, Validity::Over(_) | Validity::NotYet(_)) => " (nodes accept what it has signed all the same)",
        _ => "",
    };
    format!("{what} {} {how}{accepted}", path.display())
}

/// Returns the date as text for users.
fn date(time_s: u64) -> String {
    let time = i64::try_from(time_s).ok().and_then(|time_s| Timestamp::from_second(time_s).ok());
    time.map_or_else(|| format!("second {time_s} since 1970"), |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}
