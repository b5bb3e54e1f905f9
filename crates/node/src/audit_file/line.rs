//! One line of the audit file, as JSON.
//!
//! Promises: fields of one meaning have one name; the same change gives the same line on every node. Must not know: where lines
//! go.

use firstseen_meta::{AskedBy, Audited};
use firstseen_routing::TokenId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Letters of a call that was refused, and of the reason: both may repeat what strangers send.
const DENIED_LETTERS_MAX: usize = 300;

/// One line. What is not of its event is left out.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Line {
    /// When, by the clock of the node that was asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    at: String,
    /// What happened: `change`, `change-here`, `denied`, `came`, `skipped` or `lost`.
    event: String,
    /// The cluster in which a change was agreed on.
    #[serde(skip_serializing_if = "String::is_empty")]
    cluster: String,
    /// The entry of the agreement; of entries that were skipped, the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u64>,
    /// The entry before those that were skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    after_index: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    who: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    from: String,
    /// The public part of the token by which it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    change: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    subject: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    call: String,
    /// Why a change or a call was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// Lines that found no room before this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<u64>,
}

impl Line {
    /// Something that was agreed on.
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

    /// A caller that was refused.
    pub(crate) fn denied(who: &AskedBy, call: &str, reason: &str) -> Self {
        Self { call: shortened(call), refused: Some(shortened(reason)), ..Self::by(who, "denied") }
    }

    /// A caller that has connected.
    pub(crate) fn came(who: &AskedBy, token: Option<TokenId>) -> Self {
        Self { token: token.map(|token| token.to_string()), ..Self::by(who, "came") }
    }

    /// A change of this node alone.
    pub(crate) fn changed_here(who: &AskedBy, change: &str, subject: &str) -> Self {
        Self { change: change.to_owned(), subject: subject.to_owned(), ..Self::by(who, "change-here") }
    }

    /// Lines that found no room.
    pub(crate) fn lost(count: u64) -> Self {
        Self { event: "lost".to_owned(), lost: Some(count), ..Self::default() }
    }

    /// The cluster and the entry up to which the agreement is written down with this line.
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
