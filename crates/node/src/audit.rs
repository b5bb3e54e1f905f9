//! What is written down of who did what: changes that are agreed on, changes of this node alone, and what was refused.
//!
//! Promises: who writes a line never waits for the disk, and no line has a secret in it; lines that find no room are counted in
//! the next one. Refusals are counted, also where there is no file. Must not know: files (the writer is given one), who may do what.

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

/// Lines of callers that come or are refused in one second at most.
const VISITS_MAX: u64 = 100;
/// The same of strangers, who show nothing: they can neither fill a disk nor take the lines of others.
const STRANGERS_MAX: u64 = 5;

/// Where lines come from.
pub(crate) struct Audit {
    clock: Arc<dyn Clock>,
    /// None where there is no file: then changes are in the log.
    lines: Option<mpsc::Sender<Line>>,
    /// Lines that found no room since the last that did.
    lost: Arc<AtomicU64>,
    visits: Visits,
    strangers: Visits,
    refusals: Refusals,
}

/// The second of the newest line about a caller that came or was refused, and how many there were in it.
#[derive(Default)]
struct Visits {
    second: AtomicU64,
    count: AtomicU64,
}

impl Visits {
    /// Whether another line is written in this second.
    fn has_room(&self, second: u64, most: u64) -> bool {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.count.store(0, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed) < most
    }
}

/// Where lines come out: of this node, and of the agreement.
pub(crate) struct AuditWriter {
    lines: mpsc::Receiver<Line>,
    agreed: mpsc::Receiver<Audited>,
    lost: Arc<AtomicU64>,
    file: AuditFile,
}

impl Audit {
    /// Lines for `file`, with their writer and where the agreement sends its own; for the log where there is none.
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

    /// A caller, as lines name it, now.
    pub(crate) fn who(&self, caller: &Caller, from: Option<SocketAddr>) -> AskedBy {
        let from = from.map(|from| from.to_string()).unwrap_or_default();
        AskedBy { name: caller.name(), from, at_ms: self.clock.wall_ms() }
    }

    /// The second since 1970.
    pub(crate) fn now_s(&self) -> u64 {
        self.clock.wall_ms() / 1_000
    }

    /// Somebody was refused a call.
    pub(crate) fn denied(&self, who: &AskedBy, call: &str, reason: &str) {
        tracing::debug!(who = who.name, from = who.from, call, reason, "a caller is refused");
        self.refusals.call(&who.name);
        self.visited(&self.visits, VISITS_MAX, who, || Line::denied(who, call, reason));
    }

    /// Somebody who has shown nothing that counts was refused a call.
    pub(crate) fn denied_stranger(&self, from: Option<SocketAddr>, call: &str, reason: &str) {
        let who = self.who(&Caller::showing(Some(Arc::default())), from);
        tracing::debug!(from = who.from, call, reason, "a stranger is refused");
        self.refusals.call(STRANGERS);
        self.visited(&self.strangers, STRANGERS_MAX, &who, || Line::denied(&who, call, reason));
    }

    /// What callers were refused.
    pub(crate) fn refusals(&self) -> &Refusals {
        &self.refusals
    }

    /// Somebody has connected and shown its certificate, or this token.
    pub(crate) fn came(&self, who: &AskedBy, token: Option<TokenId>) {
        self.visited(&self.visits, VISITS_MAX, who, || Line::came(who, token));
    }

    /// Somebody has changed something of this node alone.
    pub(crate) fn changed_here(&self, who: &AskedBy, change: &str, subject: &str) {
        tracing::info!(who = who.name, from = who.from, change, subject, "somebody has changed this node");
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
    /// Writes until nothing more comes.
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
                tracing::error!(file = %path, %error, "the audit file cannot be written: a line is lost");
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
        // Strangers take no lines from those who are known; here they come first.
        (0..3 * STRANGERS_MAX).for_each(|_| audit.denied_stranger(None, "/a/b", "who"));
        drop((audit, agreed));
        writer.write().await;
        let text = std::fs::read_to_string(&path).expect("lines");
        assert_eq!(text.matches(r#""refused":"why""#).count() as u64, VISITS_MAX + 1);
        // They may fall into two seconds.
        let strangers = text.matches(r#""refused":"who""#).count() as u64;
        assert!((STRANGERS_MAX..=2 * STRANGERS_MAX).contains(&strangers), "{strangers}");
        assert!(text.contains(r#""lost":2"#), "two hundred, and those of strangers");
    }
}
