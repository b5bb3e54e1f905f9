//! A node whose lease has ended answers from its knowledge and records nothing.

use std::collections::BTreeMap;

use crate::common::{definition, digest, filter_record, node_record, slice_owner, spec};
use firstseen_filter::{FilterSpec, Kind, Probes, Refresh};
use firstseen_mesh::plain_submission;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    ClusterMap, Command, Decision, FilterId, FilterPolicies, GroupOwner, Lease, Moment, MonotonicMs, NodeId, Operation,
    OwnerLimits, Prober, Reason, Submission,
};

const FILTER: FilterId = FilterId(3);
const ME: NodeId = NodeId(1);
const LEASE_MS: u64 = 10_000;
const SKEW_MS: u64 = 1_000;
const CUT_OFF: Decision = Decision::Undecided(Reason::CutOff);

/// The owner of all slices of a filter, whose lease was requested at the beginning.
struct Alone {
    owner: GroupOwner,
    prober: Prober,
    sequence: u64,
    began: Moment,
}

impl Alone {
    fn new(spec: &FilterSpec, slicing: &str, rules: Rules) -> Self {
        let definition = definition(spec, slicing);
        let owners = (0..definition.slicing.slices()).map(|_| slice_owner(ME)).collect();
        let map = ClusterMap {
            nodes: BTreeMap::from([(ME, node_record(ME))]),
            filters: BTreeMap::from([(FILTER, filter_record(&definition, FilterPolicies::default(), owners))]),
            ..ClusterMap::default()
        };
        let limits = OwnerLimits { rules, ..OwnerLimits::default() };
        let mut owner = GroupOwner::build(FILTER, &map, 0, ME, limits).unwrap();
        let began = Moment { monotonic_ms: MonotonicMs(500), wall_ms: 1_790_000_000_000 };
        owner.set_lease(Lease::granted(began, LEASE_MS, SKEW_MS));
        Self { owner, prober: Prober::new(&definition).unwrap(), sequence: 0, began }
    }

    /// Returns the decision on an event at the given times after the beginning.
    fn ask(&mut self, key: u64, operation: Operation, (monotonic_ms, wall_ms): (u64, u64)) -> Decision {
        self.sequence += 1;
        let mut probes = Probes::new(self.prober.shape());
        self.prober.push(digest(key), &mut probes);
        let submission = Submission { producer: 77, ..plain_submission(self.sequence, operation, probes) };
        let Moment { monotonic_ms: began_ms, wall_ms: began_wall_ms } = self.began;
        let now = Moment { monotonic_ms: began_ms.after(monotonic_ms), wall_ms: began_wall_ms + wall_ms };
        let mut commands = Vec::new();
        self.owner.submit(submission, now);
        self.owner.take_commands(&mut commands);
        let decision = commands.iter().find_map(|command| match command {
            Command::Reply(reply) => Some(reply.answers.decisions()[0]),
            _ => None,
        });
        decision.expect("it is answered at once")
    }

    fn observe(&mut self, key: u64, after_ms: u64) -> Decision {
        self.ask(key, Operation::Observe, (after_ms, after_ms))
    }
}

fn bloom() -> FilterSpec {
    spec(Kind::Bloom, "unbounded", 1 << 16, 5)
}

#[test]
fn a_new_event_is_undecided_and_not_recorded_when_the_lease_is_over() {
    for slicing in ["none", "vertical:3"] {
        let mut alone = Alone::new(&bloom(), slicing, Rules::default());
        assert_eq!(alone.observe(1, LEASE_MS - 1), Decision::FirstSeen, "{slicing}");
        assert_eq!(alone.observe(2, LEASE_MS), CUT_OFF, "{slicing}");
        assert_eq!(alone.observe(1, LEASE_MS), Decision::Duplicate, "{slicing}: it answers what it knows");
        let lookup = alone.ask(2, Operation::Lookup, (LEASE_MS, LEASE_MS));
        assert_eq!(lookup, Decision::FirstSeen, "{slicing}: nothing was recorded, and a lookup asks for no leave");
        alone.owner.set_lease(Lease::granted(alone.began, 2 * LEASE_MS, SKEW_MS));
        assert_eq!(alone.observe(2, LEASE_MS), Decision::FirstSeen, "{slicing}");
    }
}

#[test]
fn a_lease_is_over_by_whichever_clock_is_first() {
    let mut alone = Alone::new(&bloom(), "none", Rules::default());
    let asleep = (1, LEASE_MS + SKEW_MS);
    assert_eq!(alone.ask(1, Operation::Observe, asleep), CUT_OFF);
    assert_eq!(alone.ask(1, Operation::Observe, (1, LEASE_MS)), Decision::FirstSeen);
}

#[test]
fn an_event_that_would_be_recorded_anew_is_undecided_too() {
    let refreshing = FilterSpec { refresh: Refresh::Refresh, ..spec(Kind::Timing, "1h", 1 << 16, 5) };
    for slicing in ["none", "vertical:3"] {
        let mut alone = Alone::new(&refreshing, slicing, Rules::default());
        assert_eq!(alone.observe(1, 0), Decision::FirstSeen, "{slicing}");
        assert_eq!(alone.observe(1, 1), Decision::Duplicate, "{slicing}");
        assert_eq!(alone.observe(1, LEASE_MS), CUT_OFF, "{slicing}");
    }
}

#[test]
fn a_node_that_breaks_the_rule_of_leases_records_for_ever() {
    for slicing in ["none", "vertical:3"] {
        let mut alone = Alone::new(&bloom(), slicing, Rules::without(Rule::HoldsLease));
        assert_eq!(alone.observe(1, 100 * LEASE_MS), Decision::FirstSeen, "{slicing}");
    }
}
