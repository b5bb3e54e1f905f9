//! Requests the overview of a cluster from a node over plain HTTP. The size of the reply and the time to receive it are
//! limited, so a node that is faulty cannot block the display. If the request fails, the error message names the node
//! and says what to do.

use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use firstseen_node::{OVERVIEW_VERSION, Overview};
use firstseen_records::printable;

use crate::exit::UsageError;
use crate::node::health::get;

/// Maximum size of an answer in bytes. An overview of 256 filters with ten minutes of history each takes a quarter of
/// this.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// How long to wait until a node knows its rates. A node computes them from two counts that are taken one second apart.
const SETTLED_MAX: Duration = Duration::from_secs(4);

/// Maximum number of overviews that wait to be shown.
const UNREAD_MAX: usize = 1;

/// The node that is asked.
#[derive(Clone)]
pub(super) struct Source {
    address: String,
}

impl Source {
    pub(super) fn at(address: String) -> Self {
        Self { address }
    }

    /// Returns the present overview as JSON.
    pub(super) fn text(&self) -> anyhow::Result<String> {
        let Self { address } = self;
        let answer = get(address, "/api/v1/overview", ANSWER_BYTES_MAX);
        let answer =
            answer.with_context(|| format!("no answer from {address}: name a node's address for HTTP with --http"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        match head.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            Some("404") => bail!(UsageError(format!(
                "the node at {address} has no console: say `console = true` in `[http]` of its configuration, and start it again"
            ))),
            status => {
                bail!("{address} answers {}: {}", status.map(printable).unwrap_or_default(), printable(body.trim()))
            }
        }
    }

    /// Returns an overview as JSON that includes the rates. If the rates are not known in time, the overview has no
    /// rates.
    pub(super) fn settled(&mut self) -> anyhow::Result<String> {
        let begun = Instant::now();
        loop {
            let text = self.text()?;
            let overview = read(&text)?;
            let is_known = overview.verdicts.events_per_s().is_some() || overview.filters.is_empty();
            if is_known || begun.elapsed() > SETTLED_MAX {
                return Ok(text);
            }
            thread::sleep(Duration::from_millis(250));
        }
    }

    /// Requests overviews in intervals of `pause`. The receiver gets each overview, or the reason why there is none.
    pub(super) fn every(&self, pause: Duration) -> Receiver<Result<Overview, String>> {
        let (send, overviews) = sync_channel(UNREAD_MAX);
        let source = self.clone();
        thread::spawn(move || {
            loop {
                let overview = source.text().and_then(|text| read(&text)).map_err(|error| format!("{error:#}"));
                // The receiver no longer exists, because the command has ended.
                if send.send(overview).is_err() {
                    return;
                }
                thread::sleep(pause);
            }
        });
        overviews
    }
}

/// Parses an overview. Unknown names are skipped.
pub(super) fn read(text: &str) -> anyhow::Result<Overview> {
    let overview: Overview = serde_json::from_str(text).context("the node's answer is not an overview")?;
    if overview.version != OVERVIEW_VERSION {
        bail!(
            "the node's overview has version {}, and this program reads version {OVERVIEW_VERSION}: use the newer firstseen of the two",
            overview.version
        );
    }
    Ok(overview)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_and_new_names_are_skipped() {
        assert!(read("{}").unwrap_err().to_string().contains("version 0"));
        let overview = read(r#"{ "version": 1, "of_tomorrow": 1, "cluster": { "node": "a", "more": 2 } }"#).unwrap();
        assert_eq!(overview.cluster.node, "a");
    }
}
