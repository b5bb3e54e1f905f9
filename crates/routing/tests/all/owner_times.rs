//! Owners that stamp events themselves, and owners whose windows count events.

use std::collections::BTreeMap;

use crate::common::{definition, digest, filter_record, node_record, slice_owner, spec};
use firstseen_filter::{
    CellDefinition, CounterStorage, DecayRule, DecayingCells, DecayingShape, Kind, Probes, TimingCells, Unit,
    UnitNumber, WindowRule,
};
use firstseen_mesh::plain_submission;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    ClockSource, ClusterMap, Command, Decision, FilterId, FilterPolicies, FromLevel, GroupOwner, GroupReply, Moment,
    MonotonicMs, NodeId, Operation, OwnerLimits, Prober, Reason, SlicedDefinition, Submission, Tick, Times,
};

/// Returns the owner of a filter with one slice on one node.
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
        times: Times { base_unit: UnitNumber(base_unit), ..Times::default() },
        deadline_ms: MonotonicMs(5),
        ..plain_submission(sequence, operation, probes)
    };
    let mut commands = Vec::new();
    owner.submit(submission, Moment { monotonic_ms: MonotonicMs(5), wall_ms });
    owner.take_commands(&mut commands);
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
        (reply.answers.decisions()[0], reply.answers.clock_ms())
    };
    assert_eq!(observe(1_000_000), (Decision::FirstSeen, Some(1_000_000)));
    assert_eq!(observe(1_000_500), (Decision::Duplicate, Some(1_000_500)));
    assert_eq!(observe(900_000), (Decision::Duplicate, Some(1_000_500)));
    // A year of silence is no reason to reject an event.
    assert_eq!(observe(1_000_000 + 31_536_000_000), (Decision::FirstSeen, Some(31_537_000_000)));
}

#[test]
fn a_retry_is_not_counted_twice() {
    let mut definition = definition(&spec(Kind::Bloom, "unbounded", 1000, 4), "none");
    let rule = DecayRule::Lasting { lambda: 0.5, fraction_bits: 4 };
    let shape = DecayingShape { cells: 4096, hashes: 4, rule, storage: CounterStorage::Basic };
    definition.group.cells = CellDefinition::Decaying(DecayingCells { shape });
    definition.group.unit = Unit::Milliseconds(1000);
    definition.group.rule = WindowRule { span_units: 100, lateness_units: 0 };
    let mut owner = owner(&definition, ClockSource::Event);
    let mut ask = |operation, sequence, unit, keys: &[u64]| {
        let reply = submit(&mut owner, &definition, operation, sequence, unit, 60_000, keys);
        assert_eq!(reply.answers.decisions(), vec![Decision::FirstSeen; keys.len()]);
        reply.answers.estimates().to_vec()
    };
    assert_eq!(ask(Operation::Count, 1, 50, &[7, 7, 8]), [1.0, 2.0, 1.0]);
    assert_eq!(ask(Operation::Count, 1, 50, &[7, 7, 8]), [2.0, 2.0, 1.0], "estimated again, not counted again");
    assert_eq!(ask(Operation::Estimate, 2, 51, &[7, 8, 9]), [1.0, 0.5, 0.0]);
    assert_eq!(ask(Operation::Count, 3, 51, &[8]), [1.5]);
    let reply = submit(&mut owner, &definition, Operation::Observe, 4, 51, 0, &[7]);
    assert!(
        matches!(reply.answers.decisions()[0], Decision::Undecided(_)),
        "a filter of frequencies finds no duplicates"
    );
}

const UNIT_MS: u64 = 1000;
const HOUR: u64 = 3600;
/// The present, in units of one second. The clock skew is one second, and the step is one minute.
const NOW: u64 = 1_790_000_000;

/// The owner of a filter with a window of one hour, and producers that look only at their own clocks.
struct Times1h {
    owner: GroupOwner,
    definition: SlicedDefinition,
    sequence: u64,
}

impl Times1h {
    fn new(slicing: &str, rules: Rules) -> Self {
        let mut definition = definition(&spec(Kind::Timing, "1h", 1 << 16, 5), slicing);
        definition.group.unit = Unit::Milliseconds(UNIT_MS);
        definition.group.rule = WindowRule { span_units: HOUR, lateness_units: HOUR / 8 };
        definition.group.cells = wide(definition.group.cells);
        definition.group.future_max_ms = 60_000;
        let policies = FilterPolicies { clock: ClockSource::Event, ..FilterPolicies::default() };
        let record = filter_record(
            &definition,
            policies,
            (0..definition.slicing.slices()).map(|_| slice_owner(NodeId(1))).collect(),
        );
        let map = ClusterMap {
            nodes: BTreeMap::from([(NodeId(1), node_record(NodeId(1)))]),
            filters: BTreeMap::from([(FilterId(1), record)]),
            ..ClusterMap::default()
        };
        let limits = OwnerLimits { rules, ..OwnerLimits::default() };
        let owner = GroupOwner::build(FilterId(1), &map, 0, NodeId(1), limits).unwrap();
        Self { owner, definition, sequence: 0 }
    }

    /// Returns the decisions on events of `producer`. Each event is a key with a unit.
    fn ask(&mut self, producer: u128, operation: Operation, events: &[(u64, u64)]) -> Vec<Decision> {
        self.ask_of((producer, None), operation, events)
    }

    fn ask_of(
        &mut self,
        (producer, from): (u128, Option<FromLevel>),
        operation: Operation,
        events: &[(u64, u64)],
    ) -> Vec<Decision> {
        let prober = Prober::new(&self.definition).unwrap();
        let mut probes = Probes::new(prober.shape());
        let (mut ticks, mut clock_unit) = (Vec::new(), 0);
        for (key, unit) in events {
            prober.push(digest(*key), &mut probes);
            clock_unit = if operation.records() { *unit.max(&clock_unit) } else { clock_unit };
            ticks.push(Tick { clock_unit: UnitNumber(clock_unit), unit: UnitNumber(*unit) });
        }
        self.sequence += 1;
        let submission = Submission {
            producer,
            times: Times { base_unit: UnitNumber::FIRST, ticks, clock_ms: None, ttl_ms: None },
            from,
            ..plain_submission(self.sequence, operation, probes)
        };
        let mut commands = Vec::new();
        self.owner.submit(submission, Moment { monotonic_ms: MonotonicMs(5), wall_ms: NOW * UNIT_MS });
        self.owner.take_commands(&mut commands);
        let mut replies = commands.into_iter().filter_map(|command| match command {
            Command::Reply(reply) => Some(reply.answers.decisions().to_vec()),
            _ => None,
        });
        replies.next().expect("a reply")
    }

    fn keys(&mut self, unit: u64) -> Vec<Decision> {
        self.ask(1, Operation::Observe, &[1, 2, 3, 4, 5].map(|key| (key, unit)))
    }
}

/// Returns the same cells with timers that cover more than an hour of seconds.
fn wide(cells: CellDefinition) -> CellDefinition {
    let CellDefinition::Timing(TimingCells { geometry, refresh, equal_timers, growth, asked }) = cells else {
        panic!("timers")
    };
    let geometry = firstseen_filter::Geometry::new(geometry.cells(), geometry.hashes(), 16, geometry.layout()).unwrap();
    CellDefinition::Timing(TimingCells { geometry, refresh, equal_timers, growth, asked })
}

const FIRST_SEEN: [Decision; 5] = [Decision::FirstSeen; 5];
const DUPLICATES: [Decision; 5] = [Decision::Duplicate; 5];
const FUTURE: Decision = Decision::Undecided(Reason::Future);
const SLICINGS: [&str; 2] = ["none", "vertical:2"];

#[test]
fn a_producer_from_the_future_ends_no_window_of_others() {
    for slicing in SLICINGS {
        let mut owner = Times1h::new(slicing, Rules::default());
        assert_eq!((owner.keys(NOW), owner.keys(NOW)), (FIRST_SEEN.to_vec(), DUPLICATES.to_vec()));
        for days in [0, 1, 6, 13, 20, 400] {
            let ahead = days * 24 * HOUR + HOUR;
            assert_eq!(owner.ask(2, Operation::Observe, &[(900 + days, NOW + ahead)]), [FUTURE], "{slicing}: {days} d");
            // The producer's clock is wrong, but its event of the present is right.
            let mixed = owner.ask(2, Operation::Observe, &[(1900 + days, NOW + ahead), (1, NOW)]);
            assert_eq!(mixed, [FUTURE, Decision::Duplicate], "{slicing}: {days} d");
            assert_eq!(owner.ask(2, Operation::Lookup, &[(1, NOW + ahead), (1, NOW)])[1], Decision::Duplicate);
            assert_eq!(owner.keys(NOW), DUPLICATES, "{slicing}: {days} d");
        }
        // Many producers send whole batches of such events.
        for producer in 10..20 {
            let events: Vec<(u64, u64)> = (0..400).map(|key| (10_000 + key, NOW + 9 * HOUR)).collect();
            assert_eq!(owner.ask(producer, Operation::Observe, &events), [FUTURE; 400]);
        }
        assert_eq!(owner.keys(NOW), DUPLICATES, "{slicing}");
        // Clocks may differ by the step and the skew together.
        assert_eq!(owner.ask(2, Operation::Observe, &[(901, NOW + 60)]), [Decision::FirstSeen]);
        assert_eq!(owner.keys(NOW), DUPLICATES, "{slicing}");
    }
}

#[test]
fn without_the_rule_one_event_ends_the_window() {
    for slicing in SLICINGS {
        let mut owner = Times1h::new(slicing, Rules::without(Rule::ConfirmsFutureTimes));
        owner.keys(NOW);
        assert_eq!(owner.ask(2, Operation::Observe, &[(900, NOW + 13 * 24 * HOUR)]), [Decision::FirstSeen]);
        assert_ne!(owner.keys(NOW), DUPLICATES, "{slicing}");
    }
}

#[test]
fn a_replay_passes_gaps_and_broken_times_of_others_do_not() {
    let start = NOW / 2;
    for slicing in SLICINGS {
        let mut owner = Times1h::new(slicing, Rules::default());
        // A producer that sends alone may use any times of its clock.
        for hours in [0, 5, 24 * 30] {
            assert_eq!(owner.keys(start + hours * HOUR), FIRST_SEEN, "{slicing}: after {hours} h");
            assert_eq!(owner.keys(start + hours * HOUR), DUPLICATES, "{slicing}: after {hours} h");
        }
        let now = start + 24 * 30 * HOUR;
        // Two producers replay the same log, and a third producer sends broken times.
        let batch = |from: u64, unit: u64| (0..60).map(|key| (from + key, unit)).collect::<Vec<_>>();
        for producer in [1, 2, 1, 2] {
            owner.ask(producer, Operation::Observe, &batch(producer as u64 * 1000, now));
        }
        owner.keys(now);
        for ahead in [2 * HOUR, 100 * HOUR] {
            assert_eq!(owner.ask(3, Operation::Observe, &[(7777, now + ahead)]), [FUTURE], "{slicing}");
            assert_eq!(owner.keys(now), DUPLICATES, "{slicing}");
        }
        // The log has a gap. Gradually most events lie after the gap.
        let next = now + 48 * HOUR;
        let mut refused = 0;
        for round in 0..4 {
            for producer in [1, 2] {
                let decisions = owner.ask(
                    producer,
                    Operation::Observe,
                    &batch(100_000 + round * 1000 + producer as u64 * 100, next),
                );
                refused += decisions.iter().filter(|decision| **decision == FUTURE).count();
            }
        }
        assert!((1..=180).contains(&refused), "{slicing}: {refused} refused");
        assert_eq!((owner.keys(next), owner.keys(next)), (FIRST_SEEN.to_vec(), DUPLICATES.to_vec()), "{slicing}");
    }
}

#[test]
fn lookups_move_no_clock_of_an_owner() {
    for slicing in SLICINGS {
        let mut owner = Times1h::new(slicing, Rules::default());
        owner.keys(NOW - 2 * HOUR);
        for unit in [NOW - HOUR, NOW, NOW + 1000 * HOUR] {
            assert_eq!(
                owner.ask(9, Operation::Lookup, &[(1, unit)]),
                [Decision::FirstSeen],
                "{slicing}: by then it is gone"
            );
            assert_eq!(owner.ask(9, Operation::Lookup, &[(1, NOW - 2 * HOUR + 1)]), [Decision::Duplicate], "{slicing}");
        }
        assert_eq!(owner.keys(NOW - 2 * HOUR), DUPLICATES, "{slicing}");
    }
}
