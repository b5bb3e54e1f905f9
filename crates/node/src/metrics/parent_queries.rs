//! Metrics of the queries that tree levels send to their parent levels. A level of a filter tree sends such a query for
//! events that it cannot decide on its own. The metrics are updated once for each query, and are labelled with the
//! filter of the level that sent the query.

use std::collections::BTreeSet;

use firstseen_routing::{Decision, LevelReply, Reason};
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

/// The query metrics of all filters.
pub(super) struct LevelQueryMetrics {
    climbs: Count<FilterLabel>,
    events: Count<FilterLabel>,
    latency_seconds: Spread<FilterLabel>,
    decisions: Count<DecisionLabels>,
}

/// The query metrics of one filter.
#[derive(Clone)]
pub(crate) struct LevelQueryMeter {
    climbs: Counter,
    events: Counter,
    latency_seconds: Histogram,
    first_seen: Counter,
    duplicate: Counter,
    /// Counters in the order of [`Reason::ALL`].
    undecided: [Counter; Reason::ALL.len()],
}

impl LevelQueryMetrics {
    pub(super) fn new(registry: &mut Registry) -> Self {
        let climbs = Self {
            climbs: Sorted::default(),
            events: Sorted::default(),
            latency_seconds: Sorted::new(seconds),
            decisions: Sorted::default(),
        };
        let help = "Queries of a tree level to its parent level about events that it does not know";
        registry.register("climbs", help, climbs.climbs.clone());
        registry.register("climb_events", "Events of these messages", climbs.events.clone());
        let help = "Time from sending a query to the parent level to its reply";
        registry.register_with_unit("climb_latency", help, Unit::Seconds, climbs.latency_seconds.clone());
        let help = "Events of queries to the parent level by its reply, including queries that were not sent";
        registry.register("climb_decisions", help, climbs.decisions.clone());
        climbs
    }

    /// Removes the series of all other filters.
    pub(super) fn keep_filters(&self, names: &BTreeSet<&str>) {
        for count in [&self.climbs, &self.events] {
            count.retain(|label| label.is_kept(names));
        }
        self.latency_seconds.retain(|label| label.is_kept(names));
        self.decisions.retain(|labels| labels.filter.is_empty() || names.contains(labels.filter.as_str()));
    }

    pub(super) fn of(&self, filter: &str) -> LevelQueryMeter {
        let label = FilterLabel::of(filter);
        LevelQueryMeter {
            climbs: self.climbs.of(&label),
            events: self.events.of(&label),
            latency_seconds: self.latency_seconds.of(&label),
            first_seen: self.decision(filter, Decision::FirstSeen),
            duplicate: self.decision(filter, Decision::Duplicate),
            undecided: Reason::ALL.map(|reason| self.decision(filter, Decision::Undecided(reason))),
        }
    }

    fn decision(&self, filter: &str, decision: Decision) -> Counter {
        self.decisions.of(&DecisionLabels::of(filter, decision))
    }
}

impl LevelQueryMeter {
    /// Returns the number of queried events, and how many of them the parent level reported as duplicates.
    pub(crate) fn events_and_duplicates(&self) -> (u64, u64) {
        (self.events.get(), self.duplicate.get())
    }

    /// Counts a query that is sent.
    pub(crate) fn sent(&self, events: usize) {
        self.climbs.inc();
        self.events.inc_by(events as u64);
    }

    /// Records how long the reply to a query took, in microseconds.
    pub(crate) fn answered(&self, elapsed_us: u64) {
        self.latency_seconds.observe(elapsed_us as f64 / 1e6);
    }

    /// Counts the verdicts on the events of a query.
    pub(crate) fn decided(&self, climbed: &LevelReply) {
        let mut first_seen = 0;
        let mut duplicate = 0;
        let mut undecided = [0; Reason::ALL.len()];
        for decision in &climbed.decisions {
            match decision {
                Decision::FirstSeen => first_seen += 1,
                Decision::Duplicate => duplicate += 1,
                Decision::Undecided(reason) => undecided[*reason as usize] += 1,
            }
        }
        self.first_seen.inc_by(first_seen);
        self.duplicate.inc_by(duplicate);
        for (counter, events) in self.undecided.iter().zip(undecided).filter(|(_, events)| *events > 0) {
            counter.inc_by(events);
        }
    }
}
