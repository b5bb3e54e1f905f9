//! One line of the audit file, as JSON.
//!
//! # Guarantees
//! - Fields with the same meaning have the same name in all kinds of lines.
//! - The same change produces the same line on every node.
//!
//! This module does not depend on where the lines are written.

use firstseen_meta::{AskedBy, Audited};
use firstseen_routing::TokenId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Maximum length, in characters, of two texts in an audit line: the name of a rejected call, and the reason for the
/// rejection. The length must be limited because both texts may contain input from clients that have no rights at all.
const DENIED_LETTERS_MAX: usize = 300;

/// One line of the audit file. Fields that do not apply to the kind of event are left out.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Line {
    /// Time of the event, by the clock of the node that received the request.
    #[serde(skip_serializing_if = "String::is_empty")]
    at: String,
    /// Kind of event: `change`, `change-here`, `denied`, `came`, `skipped` or `lost`.
    event: String,
    /// Cluster that agreed on the change.
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    /// Index of the entry in the consensus log. If entries were skipped, this is the index of the last skipped entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    /// Index of the entry before the first skipped entry.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_index: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    who: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    from: String,
    /// Public part of the token that identified the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    change: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    call: String,
    /// Reason why a change or a call was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// Number of lines that were lost before this line because the queue of lines was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

impl Line {
    /// Creates the line for an entry of the consensus log.
    pub(crate) fn agreed(audited: &Audited) -> Self {
        match audited {
            Audited::Change { cluster, index, asked_by, change, subject, refused } => Self {
                cluster: cluster.to_string(),
                index: Some(*index),
                change: (*change).to_owned(),
                subject: subject.clone(),
                refused: refused.clone(),
                ..Self::by(asked_by, "change")
            },
            Audited::Skipped { cluster, from_index, to_index } => Self {
                event: "skipped".to_owned(),
                cluster: cluster.to_string(),
                after_index: Some(*from_index),
                index: Some(*to_index),
                ..Self::default()
            },
        }
    }

    /// Creates the line for a rejected call.
    pub(crate) fn denied(who: &AskedBy, call: &str, reason: &str) -> Self {
        Self { call: shortened(call), refused: Some(shortened(reason)), ..Self::by(who, "denied") }
    }

    /// Creates the line for a client that has connected.
    pub(crate) fn came(who: &AskedBy, token: Option<TokenId>) -> Self {
        Self { token: token.map(|token| token.to_string()), ..Self::by(who, "came") }
    }

    /// Creates the line for a change that affects only this node.
    pub(crate) fn changed_here(who: &AskedBy, change: &str, subject: &str) -> Self {
        Self { change: change.to_owned(), subject: subject.to_owned(), ..Self::by(who, "change-here") }
    }

    /// Creates the line that reports how many lines were lost.
    pub(crate) fn lost(count: u64) -> Self {
        Self { event: "lost".to_owned(), lost: Some(count), ..Self::default() }
    }

    /// Returns the cluster to whose consensus log this line belongs, and the index of the log entry that the line
    /// describes. When the line has been written, the audit file contains all entries of that log up to this index.
    /// Returns `None` if the line does not describe a log entry.
    pub(crate) fn place(&self) -> Option<(&str, u64)> {
        Some((&self.cluster, self.index?))
    }

    fn by(who: &AskedBy, event: &str) -> Self {
        let AskedBy { name, from, at_ms } = who;
        Self { at: date(*at_ms), event: event.to_owned(), who: name.clone(), from: from.clone(), ..Self::default() }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(DENIED_LETTERS_MAX).collect()
}

fn date(at_ms: u64) -> String {
    let time = i64::try_from(at_ms).ok().and_then(|at_ms| Timestamp::from_millisecond(at_ms).ok());
    time.map_or_else(String::new, |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use firstseen_routing::ClusterId;

    use super::*;

    #[test]
    fn a_line_says_who_did_what_when() {
        let asked_by = AskedBy { name: "crawler".to_owned(), from: "10.0.0.7:99".to_owned(), at_ms: 1_764_201_600_123 };
        let change = Audited::Change {
            cluster: ClusterId([0xAB; 16]),
            index: 12,
            asked_by: asked_by.clone(),
            change: "drop-filter",
            subject: "a \"b\"\n".to_owned(),
            refused: None,
        };
        let json = serde_json::to_string(&Line::agreed(&change)).expect("a line");
        let cluster = "ab".repeat(16);
        let expected = format!(
            r#"{{"at":"2025-11-27T00:00:00.123Z","event":"change","cluster":"{cluster}","index":12,"who":"crawler","from":"10.0.0.7:99","change":"drop-filter","subject":"a \"b\"\n"}}"#
        );
        assert_eq!(json, expected);
        let line: Line = serde_json::from_str(&json).expect("what was written");
        assert_eq!(line.place(), Some((cluster.as_str(), 12)));
        let denied = serde_json::to_string(&Line::denied(&asked_by, "/s/m", "no")).expect("a line");
        assert!(
            denied.contains(r#""event":"denied""#) && denied.contains(r#""call":"/s/m","refused":"no""#),
            "{denied}"
        );
    }
}
