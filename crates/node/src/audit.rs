//! The audit log, which records which principal did what: changes that the cluster agreed on, changes of this node
//! alone, and rejected calls.
//!
//! # Guarantees
//! - A caller that writes a line never waits for the disk.
//! - No line contains a secret.
//! - If lines are lost because the queue is full, the next line reports their number.
//! - Rejections are counted even if there is no audit file.
//!
//! This module does not depend on files, because the writer receives an open file. It also does not depend on access
//! rights.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstseen_meta::{AUDITED_WAITING_MAX, AskedBy, Audited};
use firstseen_routing::TokenId;
use tokio::sync::mpsc;

use crate::audit_file::{AuditFile, Line};
use crate::clock::Clock;
use crate::refusals::{Refusals, STRANGERS};
use crate::roles::Caller;

/// Maximum number of lines per second about callers that connect or are rejected.
const VISITS_MAX: u64 = 100;
/// Maximum number of audit lines per second about callers that have presented no identity. Any client can cause such
/// lines. Without the limit, these lines could fill the disk or displace the lines about other callers.
const STRANGERS_MAX: u64 = 5;

/// The source of audit lines.
pub(crate) struct Audit {
    clock: Arc<dyn Clock>,
    /// Queue of lines. `None` means that there is no audit file, so changes are written to the log.
    lines: Option<mpsc::Sender<Line>>,
    /// Number of lines that were lost since the last successful line.
    lost: Arc<AtomicU64>,
    visits: Visits,
    strangers: Visits,
    refusals: Refusals,
}

/// Counter of the lines about connections and rejections in the current second.
#[derive(Default)]
struct Visits {
    second: AtomicU64,
    count: AtomicU64,
}

impl Visits {
    /// Returns whether another line may be written in this second.
    fn has_room(&self, second: u64, most: u64) -> bool {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.count.store(0, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed) < most
    }
}

/// Writes the lines of this node and of the consensus group to the audit file.
pub(crate) struct AuditWriter {
    lines: mpsc::Receiver<Line>,
    agreed: mpsc::Receiver<Audited>,
    lost: Arc<AtomicU64>,
    file: AuditFile,
}

impl Audit {
    /// Creates the object through which the node writes its audit lines. If there is an audit file, this function also
    /// returns the writer of the file, and the channel through which the consensus group sends its own audit lines to
    /// that writer.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        file: Option<AuditFile>,
    ) -> (Arc<Self>, Option<(AuditWriter, mpsc::Sender<Audited>)>) {
        let mut audit = Self {
            clock,
            lines: None,
            lost: Arc::default(),
            visits: Visits::default(),
            strangers: Visits::default(),
            refusals: Refusals::default(),
        };
        let Some(file) = file else { return (Arc::new(audit), None) };
        let (sender, lines) = mpsc::channel(AUDITED_WAITING_MAX);
        let (agreed_sender, agreed) = mpsc::channel(AUDITED_WAITING_MAX);
        audit.lines = Some(sender);
        let writer = AuditWriter { lines, agreed, lost: audit.lost.clone(), file };
        (Arc::new(audit), Some((writer, agreed_sender)))
    }

    /// Returns the identity of a caller for an audit line, with the current time.
    pub(crate) fn who(&self, caller: &Caller, from: Option<SocketAddr>) -> AskedBy {
        let from = from.map(|from| from.to_string()).unwrap_or_default();
        AskedBy { name: caller.name(), from, at_ms: self.clock.wall_ms() }
    }

    /// Returns the current time in seconds since 1970.
    pub(crate) fn now_s(&self) -> u64 {
        self.clock.wall_ms() / 1_000
    }

    /// Records that a call was rejected.
    pub(crate) fn denied(&self, who: &AskedBy, call: &str, reason: &str) {
        tracing::debug!(who = who.name, from = who.from, call, reason, "a call is rejected");
        self.refusals.call(&who.name);
        self.visited(&self.visits, VISITS_MAX, who, || Line::denied(who, call, reason));
    }

    /// Records that a call of a caller without a valid identity was rejected.
    pub(crate) fn denied_stranger(&self, from: Option<SocketAddr>, call: &str, reason: &str) {
        let who = self.who(&Caller::showing(Some(Arc::default())), from);
        tracing::debug!(from = who.from, call, reason, "a call without a valid identity is rejected");
        self.refusals.call(STRANGERS);
        self.visited(&self.strangers, STRANGERS_MAX, &who, || Line::denied(&who, call, reason));
    }

    /// Returns the counters of rejections.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Records that a client has connected with a certificate, or has presented this token.
    pub(crate) fn came(&self, who: &AskedBy, token: Option<TokenId>) {
        self.visited(&self.visits, VISITS_MAX, who, || Line::came(who, token));
    }

    /// Records a change that affects only this node.
    pub(crate) fn changed_here(&self, who: &AskedBy, change: &str, subject: &str) {
        tracing::info!(who = who.name, from = who.from, change, subject, "a client has changed this node");
        self.write(|| Line::changed_here(who, change, subject));
    }

    fn visited(&self, visits: &Visits, most: u64, who: &AskedBy, line: impl FnOnce() -> Line) {
        if self.lines.is_none() {
            return;
        }
        if visits.has_room(who.at_ms / 1_000, most) {
            self.write(line);
        } else {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn write(&self, line: impl FnOnce() -> Line) {
        if let Some(lines) = &self.lines
            && lines.try_send(line()).is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AuditWriter {
    /// Writes lines until all senders have been dropped.
    pub(crate) async fn write(mut self) {
        loop {
            let line = tokio::select! {
                biased;
                Some(audited) = self.agreed.recv() => Line::agreed(&audited),
                Some(line) = self.lines.recv() => line,
                else => return,
            };
            let lost = self.lost.swap(0, Ordering::Relaxed);
            if let Err(error) = self.file.append(&line, lost) {
                let path = self.file.path().display();
                tracing::error!(file = %path, %error, "writing the audit file failed: a line is lost");
                self.lost.fetch_add(lost + 1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test]
    async fn strangers_cannot_fill_a_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("audit.jsonl");
        let file = AuditFile::open(&path).expect("a file");
        let (audit, writer) = Audit::new(Arc::new(SystemClock::new()), Some(file));
        let (writer, agreed) = writer.expect("a writer");
        let at = |at_ms| AskedBy { name: "nobody".to_owned(), from: String::new(), at_ms };
        (0..3 * VISITS_MAX).for_each(|_| audit.denied(&at(999), "/a/b", "why"));
        audit.denied(&at(1_000), "/a/b", "why");
        // Callers without an identity do not use up the lines of known callers. In this test, they make their calls
        // first.
        (0..3 * STRANGERS_MAX).for_each(|_| audit.denied_stranger(None, "/a/b", "who"));
        drop((audit, agreed));
        writer.write().await;
        let text = std::fs::read_to_string(&path).expect("lines");
        assert_eq!(text.matches(r#""refused":"why""#).count() as u64, VISITS_MAX + 1);
        // The rejections may fall into two different seconds.
        let strangers = text.matches(r#""refused":"who""#).count() as u64;
        assert!((STRANGERS_MAX..=2 * STRANGERS_MAX).contains(&strangers), "{strangers}");
        assert!(text.contains(r#""lost":2"#), "two hundred, and those of strangers");
    }
}
