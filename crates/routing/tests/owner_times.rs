//! Owners that stamp events themselves, and owners that count.

mod common;

use std::collections::BTreeMap;

use common::{definition, digest, filter_record, node_record, slice_owner, spec};
use firstseen_filter::{CellDefinition, CounterStorage, DecayRule, DecayingShape, Kind, Probes, Unit, WindowRule};
use firstseen_routing::{
    ClockSource, ClusterMap, Command, Decision, FilterId, FilterPolicies, GroupOwner, GroupReply, Moment, NodeId,
    Operation, OwnerLimits, Prober, SlicedDefinition, Submission, Times,
};

/// One node with one slice.
fn owner(definition: &SlicedDefinition, clock: ClockSource) -> GroupOwner {
    let policies = FilterPolicies { clock, ..FilterPolicies::default() };
    let record = filter_record(definition, policies, vec![slice_owner(NodeId(1))]);
    let map = ClusterMap {
        nodes: BTreeMap::from([(NodeId(1), node_record(NodeId(1)))]),
        filters: BTreeMap::from([(FilterId(1), record)]),
        ..ClusterMap::default()
    };
    GroupOwner::build(FilterId(1), &map, 0, NodeId(1), OwnerLimits::default()).unwrap()
}

fn submit(
    owner: &mut GroupOwner,
    definition: &SlicedDefinition,
    operation: Operation,
    sequence: u64,
    base_unit: u64,
    wall_ms: u64,
    keys: &[u64],
) -> GroupReply {
    let prober = Prober::new(definition).unwrap();
    let mut probes = Probes::new(prober.shape());
    keys.iter().for_each(|key| prober.push(digest(*key), &mut probes));
    let submission = Submission {
        reply_to: 1,
        operation,
        producer: 1,
        sequence,
        names: Vec::new(),
        probes,
        times: Times { base_unit, ..Times::default() },
        deadline_ms: 5,
        from: None,
        again: false,
        traceparent: None,
    };
    let mut commands = Vec::new();
    owner.submit(submission, Moment { monotonic_ms: 5, wall_ms }, &mut commands);
    let Some(Command::Reply(reply)) = commands.pop() else { panic!("a reply") };
    reply
}

#[test]
fn an_owner_by_the_wall_clock_never_steps_back() {
    let definition = definition(&spec(Kind::Timing, "1s", 1000, 4), "none");
    let mut owner = owner(&definition, ClockSource::Wall);
    let mut sequence = 0;
    let mut observe = |wall_ms: u64| {
        sequence += 1;
        let reply = submit(&mut owner, &definition, Operation::Observe, sequence, 0, wall_ms, &[1]);
        (reply.decisions[0], reply.clock_ms)
    };
    assert_eq!(observe(1_000_000), (Decision::FirstSeen, 1_000_000));
    assert_eq!(observe(1_000_500), (Decision::Duplicate, 1_000_500));
    assert_eq!(observe(900_000), (Decision::Duplicate, 1_000_500));
    // A year of silence is no reason to refuse.
    assert_eq!(observe(1_000_000 + 31_536_000_000), (Decision::FirstSeen, 31_537_000_000));
}

#[test]
fn a_retry_is_not_counted_twice() {
    let mut definition = definition(&spec(Kind::Bloom, "unbounded", 1000, 4), "none");
    let rule = DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 };
    let shape = DecayingShape { cells: 4096, hashes: 4, rule, storage: CounterStorage::Basic };
    definition.group.cells = CellDefinition::Decaying { shape };
    definition.group.unit = Unit::Milliseconds(1000);
    definition.group.rule = WindowRule { span_units: 100, lateness_units: 0 };
    let mut owner = owner(&definition, ClockSource::Event);
    let mut ask = |operation, sequence, unit, keys: &[u64]| {
        let reply = submit(&mut owner, &definition, operation, sequence, unit, 60_000, keys);
        assert_eq!(reply.decisions, vec![Decision::FirstSeen; keys.len()]);
        reply.estimates
    };
    assert_eq!(ask(Operation::Count, 1, 50, &[7, 7, 8]), [1.0, 2.0, 1.0]);
    assert_eq!(ask(Operation::Count, 1, 50, &[7, 7, 8]), [2.0, 2.0, 1.0], "estimated again, not counted again");
    assert_eq!(ask(Operation::Estimate, 2, 51, &[7, 8, 9]), [1.0, 0.5, 0.0]);
    assert_eq!(ask(Operation::Count, 3, 51, &[8]), [1.5]);
    let reply = submit(&mut owner, &definition, Operation::Observe, 4, 51, 0, &[7]);
    assert!(matches!(reply.decisions[0], Decision::Undecided(_)), "a filter of frequencies tells no duplicates");
}
