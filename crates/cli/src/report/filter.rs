//! The part of a report that describes the filter of a run, which is in this process or in a cluster. The field names
//! of the JSON form do not change between releases, so scripts can rely on them.

use std::collections::BTreeMap;

use firstseen_routing::Reason;
use serde::Serialize;

use crate::text::numbers::{grouped, rate};
use crate::text::size::ByteSize;
use crate::unjudged::UnjudgedReason;

/// The filter that answered, with its numbers.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum FilterReport {
    /// A filter in this process.
    Local(LocalReport),
    /// A filter of a cluster.
    Cluster(ClusterReport),
}

/// Numbers about a filter in this process.
#[derive(Debug, Serialize)]
pub struct LocalReport {
    /// Memory of the filter in bytes.
    pub filter_bytes: u64,
    /// Memory of the filter in bits, divided by the number of events for which the filter has room. If the filter has
    /// no limit, the memory is divided by the number of events that the filter currently contains.
    pub bits_per_event: Option<f64>,
    /// Probability that a new event would now be reported as a duplicate, computed from the present content of the
    /// cells.
    pub expected_fpr: f64,
    /// Description of the filter.
    pub filter: String,
    /// The window that the user asked for.
    pub window: String,
    /// Seed of the hash. With `--seed` and this value, the same run gives the same answers.
    pub seed: u64,
    /// Number of events that came later than the lateness allows, but were still judged. The filter judged them as if
    /// they had come just in time, so a verdict may be wrong. Events that came so late that `--late` applies to them
    /// are not included.
    pub past_lateness: u64,
    /// Explanation of `past_lateness` for users.
    #[serde(skip)]
    pub past_lateness_meaning: String,
}

/// Numbers about a filter of a cluster.
#[derive(Debug, Serialize)]
pub struct ClusterReport {
    /// Addresses of the cluster as the user gave them.
    pub cluster: Vec<String>,
    /// Name of the filter.
    pub filter_name: String,
    /// Description of the filter.
    pub filter: String,
    /// Window of the filter.
    pub window: String,
    /// Numbers of undecided events, by reason.
    pub undecided_reasons: BTreeMap<Reason, u64>,
    /// Number of events whose verdicts are based on only some of the slices, because nodes were down or slices had lost
    /// events. For such a verdict, the probability is higher that a new event is reported as a duplicate.
    pub degraded_events: u64,
    /// Number of these events that would wrongly be reported as duplicates if all of them were new. The nodes estimate
    /// this number.
    pub expected_false_positives: f64,
    /// Traffic with each node.
    pub nodes: Vec<NodeReport>,
    /// Levels of the tree that found duplicates. `None` means that the filter is not in a tree.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeReport>,
    /// Results of the claims. `None` means that the run does not claim records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claims: Option<ClaimsReport>,
}

/// Results of the claims of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct ClaimsReport {
    /// Records whose claim was granted to this run, and which this run wrote.
    pub claimed: u64,
    /// Claimed records that were recorded in the filter after they were written.
    pub confirmed: u64,
    /// Number of claimed records whose leases ended before this run could confirm them. Other consumers have since
    /// claimed or recorded the same events, so these records may have been written twice.
    pub lost: u64,
    /// Claimed records that may or may not have been recorded. Other consumers may also write them when the leases have
    /// ended.
    pub unconfirmed: u64,
    /// Records that waited because other consumers held them.
    pub waited: u64,
    /// Records that other consumers held, or that had no answer, when the run ended. They are in no output.
    pub left: u64,
}

impl ClaimsReport {
    /// Returns a text such as `1,200 claimed, 1,190 confirmed, 10 lost`.
    fn text(&self) -> String {
        let Self { claimed, confirmed, lost, unconfirmed, waited, left } = self;
        let mut text = format!("{} claimed and written, {} confirmed", grouped(*claimed), grouped(*confirmed));
        for (count, words) in [
            (lost, "lost to other consumers, which may have written them too"),
            (unconfirmed, "perhaps not recorded, so that other consumers may write them too"),
            (waited, "waited for others"),
            (left, "left to other consumers, because the run was ended: in no output"),
        ] {
            if *count > 0 {
                text += &format!("; {} {words}", grouped(*count));
            }
        }
        text
    }
}

/// Traffic with a node in both directions.
#[derive(Debug, Serialize)]
pub struct NodeReport {
    /// Name of the node. It is empty for traffic through any node that was reachable.
    pub node: String,
    /// Number of batches that were sent.
    pub batches: u64,
    /// Bytes of the batches that were sent.
    pub sent_bytes: u64,
    /// Bytes of the answers that were received.
    pub received_bytes: u64,
}

impl NodeReport {
    /// Returns a text such as `a: 12 batches, 3.2 MiB, 80 KiB back`.
    fn text(&self) -> String {
        let Self { node, batches, sent_bytes, received_bytes } = self;
        let node = if node.is_empty() { "any" } else { node };
        let sent = ByteSize(*sent_bytes);
        let received = ByteSize(*received_bytes);
        let batches = if *batches == 1 { "1 batch".to_owned() } else { format!("{} batches", grouped(*batches)) };
        format!("{node}: {batches}, {sent}, {received} back")
    }
}

/// Numbers of duplicates that the levels of a tree found.
#[derive(Debug, Serialize)]
pub struct TreeReport {
    /// Position in the tree of the filter that was asked.
    pub place: String,
    /// Duplicates that each level found, from the root to the filter that was asked.
    pub duplicates_by_level: Vec<u64>,
}

impl TreeReport {
    /// Returns a text such as `root 12, level 1 34, athens 560`.
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
    /// Returns the explanation that follows the number of undecided events.
    pub(crate) fn undecided(&self, is_dropped: bool) -> String {
        let fate = if is_dropped { "dropped" } else { "passed on" };
        match self {
            Self::Local(_) => format!(": {fate} and not recorded, for the reasons under `not judged`"),
            Self::Cluster(report) => {
                let reasons = report.undecided_reasons.iter().map(|(reason, count)| {
                    let perhaps = if reason.may_have_recorded() { " (perhaps recorded)" } else { "" };
                    format!("{} {}{perhaps}", grouped(*count), UnjudgedReason::from(*reason).name())
                });
                format!(": {fate}; {}", reasons.collect::<Vec<_>>().join(", "))
            }
        }
    }

    /// Returns whether records were left to other consumers because the run was ended.
    pub(crate) fn left_to_others(&self) -> bool {
        let Self::Cluster(report) = self else { return false };
        report.claims.is_some_and(|claims| claims.left > 0)
    }

    /// Returns the name and the value of each line about the filter.
    pub(crate) fn lines(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Local(report) => {
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
                let ClusterReport {
                    filter_name,
                    filter,
                    window,
                    degraded_events,
                    expected_false_positives: expected,
                    ..
                } = report;
                let mut lines = vec![
                    ("cluster", report.cluster.join(", ")),
                    ("filter", format!("{filter_name}: {filter}, window {window}")),
                ];
                lines.extend(report.nodes.iter().map(|node| ("sent to", node.text())));
                lines.extend(report.tree.as_ref().map(|tree| ("duplicates at", tree.text())));
                lines.extend(report.claims.as_ref().map(|claims| ("claims", claims.text())));
                if *degraded_events > 0 {
                    lines.push(("degraded", degraded(*degraded_events, *expected)));
                }
                lines
            }
        }
    }
}

/// Returns a sentence about `events` events that were judged without some of their slices. `expected` is the number of
/// new events among them that are expected to be reported as duplicates.
fn degraded(events: u64, expected: f64) -> String {
    let share = expected / events as f64;
    let effect = if expected > 0.0 {
        format!("about {} of the new ones among them are reported as duplicates", rate(share))
    } else {
        "this reports no new event as a duplicate, but with `--when-lost first-seen` or `--tree-cut-off local` it can \
         report a duplicate as new"
            .to_owned()
    };
    format!("{} events were judged without slices that are down or have lost something; {effect}", grouped(events))
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
    fn the_effect_of_lost_slices_is_a_sentence() {
        let none = "1,200 events were judged without slices that are down or have lost something; this reports no new \
                    event as a duplicate, but with `--when-lost first-seen` or `--tree-cut-off local` it can report a \
                    duplicate as new";
        assert_eq!(degraded(1200, 0.0), none);
        let some = degraded(1200, 12.0);
        assert!(some.ends_with("; about 1.0000 % of the new ones among them are reported as duplicates"), "{some}");
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
