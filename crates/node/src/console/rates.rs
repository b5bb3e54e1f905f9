//! Computes rates per second from counters that only increase. A rate is the increase of a counter over the last
//! [`WINDOW_SAMPLES`] samples, divided by the time between them. At least two samples are needed to compute a rate. A
//! node that has restarted or has failed to answer therefore has no rates until two new samples of it have arrived.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use firstseen_routing::{Incarnation, NodeId};
use firstseen_wire::proto::peer::{FilterSample, SampleReply};

/// Number of samples between the two samples from which a rate is computed.
const WINDOW_SAMPLES: usize = 5;

/// Upper end of the first latency class, in milliseconds. The upper end of each further class is twice as high
/// (`SampleReply`).
const FIRST_CLASS_MS: f64 = 0.1;

/// Recent samples of all nodes.
#[derive(Default)]
pub(super) struct RecentSamples(BTreeMap<NodeId, Window>);

/// Recent samples of one start of a node.
pub(super) struct Window {
    incarnation: Incarnation,
    /// Samples with the times at which they arrived, in monotonic milliseconds. The newest sample is last.
    samples: VecDeque<(u64, Arc<SampleReply>)>,
}

/// A filter on one node, with its current and its earlier counters.
pub(super) struct Counted<'a> {
    /// The current sample.
    pub(super) now: &'a FilterSample,
    before: Option<(&'a FilterSample, f64)>,
}

impl RecentSamples {
    /// Adds the samples that the nodes sent at `at_ms`. A node without a sample has not answered.
    pub(super) fn take(&mut self, at_ms: u64, said: BTreeMap<NodeId, (Incarnation, Arc<SampleReply>)>) {
        self.0.retain(|node, window| said.get(node).is_some_and(|(incarnation, _)| *incarnation == window.incarnation));
        for (node, (incarnation, sample)) in said {
            let window = self.0.entry(node).or_insert(Window { incarnation, samples: VecDeque::new() });
            window.samples.push_back((at_ms, sample));
            if window.samples.len() > WINDOW_SAMPLES + 1 {
                window.samples.pop_front();
            }
        }
    }

    /// Returns the newest sample of a node. Returns `None` if the node has not answered.
    pub(super) fn of(&self, node: NodeId) -> Option<&SampleReply> {
        self.0.get(&node).and_then(Window::newest)
    }

    /// Returns a filter on a node. Returns `None` if the node has not answered or does not have the filter.
    pub(super) fn filter(&self, node: NodeId, filter: u64) -> Option<Counted<'_>> {
        self.0.get(&node)?.filter(filter)
    }

    /// Returns the events per second that a node answers, for all filters together.
    pub(super) fn events_per_s(&self, node: NodeId) -> Option<f64> {
        let window = self.0.get(&node)?;
        window.seconds()?;
        let filters = window.newest()?.filters.iter();
        let rates = filters.filter_map(|filter| window.filter(filter.filter_id)?.per_s(events));
        // The sum of an empty iterator of floating-point numbers would be -0.
        Some(rates.fold(0.0, |sum, rate| sum + rate))
    }
}

impl Window {
    fn newest(&self) -> Option<&SampleReply> {
        self.samples.back().map(|(_, sample)| &**sample)
    }

    /// Returns the duration of the window in seconds.
    fn seconds(&self) -> Option<f64> {
        let (from_ms, _) = self.samples.front()?;
        let (to_ms, _) = self.samples.back()?;
        (to_ms > from_ms).then(|| (to_ms - from_ms) as f64 / 1e3)
    }

    fn filter(&self, filter: u64) -> Option<Counted<'_>> {
        let now = find(self.newest()?, filter)?;
        let oldest = self.samples.front().map(|(_, sample)| &**sample);
        // A filter that did not exist in the earlier sample had counted nothing at that time.
        let before = self.seconds().zip(oldest).and_then(|(seconds, oldest)| Some((find(oldest, filter)?, seconds)));
        Some(Counted { now, before })
    }
}

/// Finds a filter in a sample. The filters of a sample are sorted by number.
fn find(sample: &SampleReply, filter: u64) -> Option<&FilterSample> {
    let place = sample.filters.binary_search_by_key(&filter, |sample| sample.filter_id).ok()?;
    sample.filters.get(place)
}

/// Returns the number of all answered events.
pub(super) fn events(sample: &FilterSample) -> u64 {
    sample.first_seen + sample.duplicate + undecided(sample).map(|(_, events)| events).sum::<u64>()
}

/// Returns the number of undecided events for each reason number.
pub(super) fn undecided(sample: &FilterSample) -> impl Iterator<Item = (u64, u64)> {
    sample.undecided.as_chunks::<2>().0.iter().map(|[reason, events]| (*reason, *events))
}

impl Counted<'_> {
    /// Returns how fast a counter rises per second.
    pub(super) fn per_s(&self, count: impl Fn(&FilterSample) -> u64) -> Option<f64> {
        let (before, seconds) = self.before?;
        Some(count(self.now).saturating_sub(count(before)) as f64 / seconds)
    }

    /// Returns the number of batches in each latency class during the window.
    pub(super) fn latencies(&self) -> Vec<u64> {
        let before = self.before.map_or(&[][..], |(before, _)| &before.latency_batches);
        let before = before.iter().copied().chain(std::iter::repeat(0));
        self.now.latency_batches.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect()
    }

    /// Returns whether an earlier sample exists, so that rates can be computed.
    pub(super) fn has_window(&self) -> bool {
        self.before.is_some()
    }
}

/// Returns the time within which the given share of all batches was answered, in milliseconds. Returns `None` if there
/// were no batches.
pub(super) fn quantile_ms(classes: &[u64], share: f64) -> Option<f64> {
    let all: u64 = classes.iter().sum();
    if all == 0 {
        return None;
    }
    let wanted = all as f64 * share;
    let mut below = 0.0;
    let mut from_ms = 0.0;
    let mut to_ms = FIRST_CLASS_MS;
    for batches in classes.iter().map(|batches| *batches as f64) {
        if batches > 0.0 && below + batches >= wanted {
            return Some(from_ms + (to_ms - from_ms) * ((wanted - below) / batches).clamp(0.0, 1.0));
        }
        below += batches;
        from_ms = to_ms;
        to_ms *= 2.0;
    }
    Some(from_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(1);

    fn sample(first_seen: u64) -> Arc<SampleReply> {
        let latency_batches = vec![first_seen, 0, first_seen];
        let filter = FilterSample { filter_id: 7, first_seen, latency_batches, ..FilterSample::default() };
        Arc::new(SampleReply { filters: vec![filter], ..SampleReply::default() })
    }

    fn says(said: &mut RecentSamples, at_ms: u64, incarnation: u64, first_seen: u64) -> Option<f64> {
        said.take(at_ms, BTreeMap::from([(NODE, (Incarnation(incarnation), sample(first_seen)))]));
        assert_eq!(said.events_per_s(NODE), said.filter(NODE, 7)?.per_s(events));
        said.filter(NODE, 7)?.per_s(|filter| filter.first_seen)
    }

    #[test]
    fn a_rate_needs_two_answers_of_one_start() {
        let mut said = RecentSamples::default();
        assert_eq!(says(&mut said, 1_000, 1, 100), None);
        assert_eq!(says(&mut said, 3_000, 1, 300), Some(100.0));
        assert_eq!(says(&mut said, 4_000, 2, 10), None, "it was started anew");
        said.take(5_000, BTreeMap::new());
        assert!(said.of(NODE).is_none() && said.filter(NODE, 7).is_none(), "it has not answered");
        assert_eq!(says(&mut said, 6_000, 2, 1_000), None, "what it has counted meanwhile is of no second");
        for second in 7..20 {
            assert_eq!(
                says(&mut said, second * 1_000, 2, second * 10),
                Some(10.0).filter(|_| second > 11).or(Some(0.0))
            );
        }
    }

    #[test]
    fn latencies_are_those_of_the_window() {
        let mut said = RecentSamples::default();
        says(&mut said, 0, 1, 40);
        says(&mut said, 1_000, 1, 50);
        let classes = said.filter(NODE, 7).expect("it has answered").latencies();
        assert_eq!(classes, [10, 0, 10]);
        assert_eq!(quantile_ms(&classes, 0.25), Some(0.05));
        assert_eq!(quantile_ms(&classes, 0.5), Some(0.1));
        assert!((quantile_ms(&classes, 0.99).expect("batches") - 0.396).abs() < 1e-9);
        assert_eq!(quantile_ms(&[0, 0], 0.5), None);
    }
}
