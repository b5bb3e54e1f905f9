//! The report's part about the filter: one in this process, or one of a cluster.
//!
//! Promises: the JSON names below. Must not know: how the figures were computed.

use std::collections::BTreeMap;

use firstseen_routing::Reason;
use serde::Serialize;

use crate::text::numbers::{grouped, rate};
use crate::text::size::ByteSize;
use crate::unjudged::UnjudgedReason;

/// The filter that answered.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FilterReport {
    /// A filter in this process.
    Here(HereReport),
    /// A filter of a cluster.
    Cluster(ClusterReport),
}

/// A filter in this process.
#[derive(Debug, Serialize)]
pub struct HereReport {
    /// Bytes that the filter takes.
    pub filter_bytes: u64,
    /// Bits of the filter for each event that it has room for, or, where that has no limit, for each event that is
    /// alive in it.
    pub bits_per_event: Option<f64>,
    /// The chance that a new event would be called a duplicate now, from the cells as they are.
    pub expected_fpr: f64,
    /// What the filter is.
    pub filter: String,
    /// The window as asked for.
    pub window: String,
    /// Seed of the hash: with `--seed` the same run gives the same answers.
    pub seed: u64,
    /// Events that came later than the lateness allows, and not so late that `--late` answered them: judged as if they had come just
    /// in time.
    pub past_lateness: u64,
    /// What a person must know of these.
    #[serde(skip)]
    pub past_lateness_meaning: String,
}

/// A filter of a cluster.
#[derive(Debug, Serialize)]
pub struct ClusterReport {
    /// Addresses that were given.
    pub cluster: Vec<String>,
    /// The filter's name.
    pub filter_name: String,
    /// What the filter is.
    pub filter: String,
    /// Its window.
    pub window: String,
    /// Events not decided, by reason.
    pub undecided_reasons: BTreeMap<Reason, u64>,
    /// Events whose verdicts rest on fewer slices than usual, as nodes were down or slices had lost something: more of
    /// them may be new though they were called duplicates.
    pub degraded_events: u64,
    /// How many of these would be called duplicates by mistake if all were new, as the nodes estimate it.
    pub expected_false_positives: f64,
    /// The traffic with each node.
    pub nodes: Vec<NodeReport>,
    /// For a filter in a tree, the levels that found duplicates.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeReport>,
    /// Where records are claimed before they are written, what became of the claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<ClaimsReport>,
}

/// What became of the claims of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ClaimsReport {
    /// Records that this run got to write, and wrote.
    pub claimed: u64,
    /// Of these, the ones that were recorded afterwards.
    pub confirmed: u64,
    /// Of these, the ones whose leases were over, and whose events others have claimed or recorded: they may be written twice.
    pub lost: u64,
    /// Of these, the ones that may be recorded or not: others may write them, too, when the leases are over.
    pub unconfirmed: u64,
    /// Records that waited for others.
    pub waited: u64,
    /// Records that others held, or that were unanswered, when the run was ended: they are in no output.
    pub left: u64,
}

impl ClaimsReport {
    /// `1,200 claimed, 1,190 confirmed, 10 lost`.
    fn text(&self) -> String {
        let Self { claimed, confirmed, lost, unconfirmed, waited, left } = self;
        let mut text = format!("{} claimed and written, {} confirmed", grouped(*claimed), grouped(*confirmed));
        for (count, words) in [
            (lost, "lost to others, which may have written them, too"),
            (unconfirmed, "perhaps not recorded, so that others may write them, too"),
            (waited, "waited for others"),
            (left, "left to others, as the run was ended: in no output"),
        ] {
            if *count > 0 {
                text += &format!("; {} {words}", grouped(*count));
            }
        }
        text
    }
}

/// The traffic with a node, both ways.
#[derive(Debug, Serialize)]
pub struct NodeReport {
    /// Its name; empty for traffic through whichever node could be reached.
    pub node: String,
    /// Batches that were sent.
    pub batches: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Bytes of the answers.
    pub received_bytes: u64,
}

impl NodeReport {
    /// `a: 12 batches, 3.2 MiB, 80 KiB back`.
    fn text(&self) -> String {
        let Self { node, batches, sent_bytes, received_bytes } = self;
        let node = if node.is_empty() { "any" } else { node };
        let sent = ByteSize(*sent_bytes);
        let received = ByteSize(*received_bytes);
        let batches = if *batches == 1 { "1 batch".to_owned() } else { format!("{} batches", grouped(*batches)) };
        format!("{node}: {batches}, {sent}, {received} back")
    }
}

/// Where the levels of a tree found duplicates.
#[derive(Debug, Serialize)]
pub struct TreeReport {
    /// The place of the filter that was asked.
    pub place: String,
    /// Duplicates that each level found, from the root to this place.
    pub duplicates_by_level: Vec<u64>,
}

impl TreeReport {
    /// `root 12, level 1 34, athens 560`.
    fn text(&self) -> String {
        let last = self.duplicates_by_level.len().saturating_sub(1);
        let levels = self.duplicates_by_level.iter().enumerate().map(|(level, found)| match level {
            level if level == last => format!("{} {}", self.place, grouped(*found)),
            0 => format!("root {}", grouped(*found)),
            level => format!("level {level} {}", grouped(*found)),
        });
        levels.collect::<Vec<_>>().join(", ")
    }
}

impl FilterReport {
    /// The words beside the number of undecided events.
    pub(crate) fn undecided(&self, is_dropped: bool) -> String {
        let fate = if is_dropped { "dropped" } else { "passed on" };
        match self {
            Self::Here(_) => format!(": {fate} and not recorded, for the reasons under `not judged`"),
            Self::Cluster(report) => {
                let reasons = report.undecided_reasons.iter().map(|(reason, count)| {
                    let perhaps = if reason.may_have_recorded() { " (perhaps recorded)" } else { "" };
                    format!("{} {}{perhaps}", grouped(*count), UnjudgedReason::from(*reason).name())
                });
                format!(": {fate}; {}", reasons.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Whether the run has left records to others, as it was ended.
    pub(crate) fn left_to_others(&self) -> bool {
        let Self::Cluster(report) = self else { return false };
        report.claims.is_some_and(|claims| claims.left > 0)
    }

    /// Name and value of each line about the filter.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Here(report) => {
                let bits = report.bits_per_event.map_or(String::new(), |bits| format!(", {bits:.1} bits an event"));
                let mut lines = Vec::new();
                if report.past_lateness > 0 {
                    let text = grouped(report.past_lateness) + &report.past_lateness_meaning;
                    lines.push(("past lateness", text));
                }
                lines.extend([
                    ("filter", format!("{}, window {}, seed {}", report.filter, report.window, report.seed)),
                    ("memory", format!("{}{bits}", ByteSize(report.filter_bytes))),
                    ("expected fpr", rate(report.expected_fpr)),
                ]);
                lines
            }
            Self::Cluster(report) => {
                let ClusterReport { filter_name, filter, window, degraded_events, .. } = report;
                let expected = report.expected_false_positives;
                let mut lines = vec![
                    ("cluster", report.cluster.join(", ")),
                    ("filter", format!("{filter_name}: {filter}, window {window}")),
                ];
                lines.extend(report.nodes.iter().map(|node| ("sent to", node.text())));
                lines.extend(report.tree.as_ref().map(|tree| ("duplicates at", tree.text())));
                lines.extend(report.claims.as_ref().map(|claims| ("claims", claims.text())));
                if *degraded_events > 0 {
                    let events = grouped(*degraded_events);
                    let rate = rate(expected / *degraded_events as f64);
                    let events = format!("{events} events without slices that are down or have lost something");
                    lines.push(("degraded", format!("{events}; of new ones {rate} are called duplicates")));
                }
                lines
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undecided_events_are_reported_by_reason() {
        let report = FilterReport::Cluster(ClusterReport {
            cluster: vec!["a:1".to_owned()],
            filter_name: "clicks".to_owned(),
            filter: "timing".to_owned(),
            window: "1h".to_owned(),
            undecided_reasons: BTreeMap::from([(Reason::Unknown, 3), (Reason::Overloaded, 1200)]),
            degraded_events: 0,
            expected_false_positives: 0.0,
            nodes: Vec::new(),
            tree: None,
            claims: None,
        });
        assert_eq!(report.undecided(false), ": passed on; 1,200 overloaded, 3 unknown (perhaps recorded)");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["undecided_reasons"]["unknown"], &json["filter_name"]), (&3.into(), &"clicks".into()));
        assert!(json.get("duplicates_by_level").is_none(), "{json}");
    }

    #[test]
    fn batches_are_counted_as_people_do() {
        let text = |batches| NodeReport { node: "a".to_owned(), batches, sent_bytes: 7, received_bytes: 0 }.text();
        assert!(text(1).starts_with("a: 1 batch, "), "{}", text(1));
        assert!(text(1200).starts_with("a: 1,200 batches, "), "{}", text(1200));
    }

    #[test]
    fn duplicates_are_reported_by_level() {
        let tree = |hits: &[u64]| TreeReport { place: "athens".to_owned(), duplicates_by_level: hits.to_vec() };
        assert_eq!(tree(&[7]).text(), "athens 7");
        assert_eq!(tree(&[1200, 0, 34]).text(), "root 1,200, level 1 0, athens 34");
        assert_eq!(serde_json::to_value(tree(&[1, 2])).unwrap()["duplicates_by_level"], serde_json::json!([1, 2]));
    }
}
