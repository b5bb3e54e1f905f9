//! The counts of all nodes, taken from their metrics.

use std::collections::BTreeMap;

/// A link, as the sending node and the name of the receiving node.
type Link = (usize, String);

/// Counts of all nodes since they started, or between two moments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Events that arrived from producers. An event counts each time that it was sent.
    pub(super) sent_events: f64,
    /// Visits of nodes, summed over all events.
    pub(super) visits: f64,
    /// Events tested and set at each node, counted once per slice.
    pub(super) work: Vec<f64>,
    pub(super) messages: BTreeMap<Link, f64>,
    pub(super) bytes: BTreeMap<Link, f64>,
}

impl Counts {
    /// Returns the counts in the metrics of all nodes.
    pub(super) fn of(metrics: &[String]) -> Self {
        Self {
            sent_events: metrics.iter().map(|text| total(text, "producer_received_events_total")).sum(),
            visits: metrics.iter().map(|text| total(text, "filter_pipeline_node_visits_total")).sum(),
            work: metrics
                .iter()
                .map(|text| total(text, "filter_test_visits_total") + total(text, "filter_set_visits_total"))
                .collect(),
            messages: of_links(metrics, "link_messages_sent_total"),
            bytes: of_links(metrics, "link_sent_bytes_total"),
        }
    }

    /// Subtracts the traffic that links have even without any events, for example because nodes measure each other's
    /// clocks. `rest` is the traffic that was counted during a period without events. The factor `share` adapts it to
    /// the length of the present period.
    ///
    /// If at most one message of a link is left after the subtraction, the traffic of this link counts as zero.
    pub(super) fn without(mut self, rest: &Self, share: f64) -> Self {
        for (link, count) in &mut self.messages {
            *count -= share * rest.messages.get(link).copied().unwrap_or(0.0);
        }
        for (link, count) in &mut self.bytes {
            *count -= share * rest.bytes.get(link).copied().unwrap_or(0.0);
        }
        self.messages.retain(|_, count| *count > 1.0);
        self.bytes.retain(|link, _| self.messages.contains_key(link));
        self
    }

    /// Returns what was counted after `before`.
    pub(super) fn since(&self, before: &Self) -> Self {
        Self {
            sent_events: self.sent_events - before.sent_events,
            visits: self.visits - before.visits,
            work: self.work.iter().zip(&before.work).map(|(now, before)| now - before).collect(),
            messages: rises(&self.messages, &before.messages),
            bytes: rises(&self.bytes, &before.bytes),
        }
    }
}

/// Returns the links on which more was counted than before, with the difference.
fn rises(now: &BTreeMap<Link, f64>, before: &BTreeMap<Link, f64>) -> BTreeMap<Link, f64> {
    let rises = now.iter().map(|(link, count)| (link.clone(), count - before.get(link).copied().unwrap_or(0.0)));
    rises.filter(|(_, count)| *count > 0.0).collect()
}

/// Returns the sum of all series of a name.
fn total(metrics: &str, name: &str) -> f64 {
    series(metrics, name).map(|(_, value)| value).sum()
}

/// Returns the series of a name by link.
fn of_links(metrics: &[String], name: &str) -> BTreeMap<Link, f64> {
    let mut links = BTreeMap::new();
    for (node, text) in metrics.iter().enumerate() {
        for (labels, value) in series(text, name) {
            links.extend(label(labels, "peer").map(|peer| ((node, peer), value)));
        }
    }
    links
}

/// Returns the series of a name, as their labels and values.
fn series<'a>(metrics: &'a str, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
    let name = format!("firstseen_{name}");
    metrics.lines().filter_map(move |line| {
        let rest = line.strip_prefix(&name).filter(|rest| rest.starts_with(['{', ' ']))?;
        let (labels, value) = rest.rsplit_once(' ')?;
        Some((labels, value.parse().ok()?))
    })
}

/// Returns the value of one label.
fn label(labels: &str, name: &str) -> Option<String> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_told_apart_and_other_names_left_out() {
        let metrics = [
            "# HELP firstseen_link_sent_bytes x\nfirstseen_link_sent_bytes_total{peer=\"b\"} 7\n\
             firstseen_link_sent_bytes_total{peer=\"c\"} 5\nfirstseen_link_sent_bytes_total_more{peer=\"c\"} 9\n\
             firstseen_filter_test_visits_total{filter=\"f\"} 3\nfirstseen_filter_set_visits_total{filter=\"f\"} 2\n",
            "firstseen_link_sent_bytes_total{peer=\"a\"} 4\nfirstseen_producer_received_events_total 8\n",
        ];
        let counts = Counts::of(&metrics.map(str::to_owned));
        let links = [((0, "b".to_owned()), 7.0), ((0, "c".to_owned()), 5.0), ((1, "a".to_owned()), 4.0)];
        assert_eq!(counts.bytes, BTreeMap::from(links));
        assert_eq!((counts.work.as_slice(), counts.sent_events), ([5.0, 0.0].as_slice(), 8.0));
        let later = Counts {
            bytes: BTreeMap::from([((0, "b".to_owned()), 9.0), ((0, "c".to_owned()), 5.0)]),
            ..counts.clone()
        };
        let rest = Counts {
            messages: BTreeMap::from([((0, "b".to_owned()), 4.0), ((0, "c".to_owned()), 4.0)]),
            bytes: BTreeMap::from([((0, "b".to_owned()), 2.0)]),
            ..Counts::default()
        };
        let busy = Counts {
            messages: BTreeMap::from([((0, "b".to_owned()), 5.0), ((0, "c".to_owned()), 3.0)]),
            ..counts.clone()
        };
        let alone = busy.without(&rest, 0.5);
        assert_eq!(alone.messages, BTreeMap::from([((0, "b".to_owned()), 3.0)]));
        assert_eq!(alone.bytes, BTreeMap::from([((0, "b".to_owned()), 6.0)]));
        assert_eq!(later.since(&counts).bytes, BTreeMap::from([((0, "b".to_owned()), 2.0)]));
    }
}
