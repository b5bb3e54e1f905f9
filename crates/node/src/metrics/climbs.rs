//! Metrics of the events that levels of trees bring up.
//!
//! Promises: they are counted once for each climb, by the filter that the events came from. Must not know: how events
//! climb.

use firstseen_routing::Climbed;
use firstseen_routing::{Decision, Reason};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::{Count, FilterLabel, Sorted, Spread, reason_name, seconds};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct DecisionLabels {
    filter: String,
    decision: &'static str,
    reason: String,
}

impl DecisionLabels {
    fn of(filter: &str, decision: Decision) -> Self {
        let (decision, reason) = match decision {
            Decision::FirstSeen => ("first_seen", String::new()),
            Decision::Duplicate => ("duplicate", String::new()),
            Decision::Undecided(reason) => ("undecided", reason_name(reason)),
        };
        Self { filter: filter.to_owned(), decision, reason }
    }
}

/// The climbs of all filters.
pub(super) struct ClimbMetrics {
    climbs: Count<FilterLabel>,
    events: Count<FilterLabel>,
    latency_seconds: Spread<FilterLabel>,
    decisions: Count<DecisionLabels>,
}

/// The climbs of one filter.
#[derive(Clone)]
pub(crate) struct ClimbMeter {
    climbs: Counter,
    events: Counter,
    latency_seconds: Histogram,
    first_seen: Counter,
    duplicate: Counter,
    /// In the order of [`Reason::ALL`].
    undecided: [Counter; Reason::ALL.len()],
}

impl ClimbMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let (climbs, events, decisions) = (Sorted::default(), Sorted::default(), Sorted::default());
        let climbs = Self { climbs, events, latency_seconds: Sorted::new(seconds), decisions };
        let help = "Messages of events that a level of a tree does not know to the level above";
        registry.register("climbs", help, climbs.climbs.clone());
        registry.register("climb_events", "Events of these messages", climbs.events.clone());
        let help = "From a climb being sent to its answer";
        registry.register_with_unit("climb_latency", help, Unit::Seconds, climbs.latency_seconds.clone());
        let help = "Events that were to climb, by the reply of the level above; also of climbs that were not sent";
        registry.register("climb_decisions", help, climbs.decisions.clone());
        climbs
    }

    /// Removes the series of other filters.
    pub(super) fn keep_filters(&self, is_kept: impl Fn(&str) -> bool) {
        let is_kept_of = |label: &FilterLabel| is_kept(&label.filter);
        [&self.climbs, &self.events].into_iter().for_each(|count| count.retain(is_kept_of));
        self.latency_seconds.retain(is_kept_of);
        self.decisions.retain(|labels| is_kept(&labels.filter));
    }

    pub(super) fn of(&self, filter: &str) -> ClimbMeter {
        let label = FilterLabel::of(filter);
        let decision = |decision| self.decisions.of(&DecisionLabels::of(filter, decision));
        ClimbMeter {
            climbs: self.climbs.of(&label),
            events: self.events.of(&label),
            latency_seconds: self.latency_seconds.of(&label),
            first_seen: decision(Decision::FirstSeen),
            duplicate: decision(Decision::Duplicate),
            undecided: Reason::ALL.map(|reason| decision(Decision::Undecided(reason))),
        }
    }
}

impl ClimbMeter {
    /// Events that were to climb, and those of them that the level above called duplicates.
    pub(crate) fn events_and_duplicates(&self) -> (u64, u64) {
        (self.events.get(), self.duplicate.get())
    }

    /// A climb is sent.
    pub(crate) fn sent(&self, events: usize) {
        self.climbs.inc();
        self.events.inc_by(events as u64);
    }

    /// A climb that was sent is answered.
    pub(crate) fn answered(&self, elapsed_us: u64) {
        self.latency_seconds.observe(elapsed_us as f64 / 1e6);
    }

    /// Counts the verdicts on the events of a climb.
    pub(crate) fn decided(&self, climbed: &Climbed) {
        let count =
            |verdict: Decision| climbed.decisions.iter().filter(|decision| **decision == verdict).count() as u64;
        let (first_seen, duplicate) = (count(Decision::FirstSeen), count(Decision::Duplicate));
        self.first_seen.inc_by(first_seen);
        self.duplicate.inc_by(duplicate);
        if first_seen + duplicate < climbed.decisions.len() as u64 {
            for (reason, counter) in Reason::ALL.into_iter().zip(&self.undecided) {
                counter.inc_by(count(Decision::Undecided(reason)));
            }
        }
    }
}
