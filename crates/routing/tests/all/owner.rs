//! Owners of slices that share no events together answer as the engine in one process does.

use std::collections::BTreeMap;

use crate::common::{
    self, Stream, TestRng, clock, count, definition, filter_record, fingerprints, growing, node_record, slice_owner,
    spec, stream,
};
use firstseen_filter::{Digest, FilterSpec, Kind, Limit, Probes, UnitNumber, WindowClock};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    Answer, ClusterMap, Command, Decision, FilterId, FilterPolicies, GroupOwner, GroupReply, Incarnation, Moment,
    MonotonicMs, NodeId, Operation, OwnerLimits, Prober, Reason, SlicedDefinition, SlicedFilter, Submission,
    SubmissionName, Tick, Times, WhenLost,
};

const FILTER: FilterId = FilterId(3);

/// Returns a map that distributes the slices of a filter over `nodes` nodes at random.
fn map(definition: &SlicedDefinition, nodes: u64, rng: &mut TestRng) -> ClusterMap {
    let policies = FilterPolicies { when_lost: WhenLost::FirstSeen, ..FilterPolicies::default() };
    let owners = (0..definition.slicing.slices()).map(|_| slice_owner(NodeId(1 + rng.below(nodes))));
    let record = filter_record(definition, policies, owners.collect());
    ClusterMap {
        nodes: (1..=nodes).map(|id| (NodeId(id), node_record(NodeId(id)))).collect(),
        filters: BTreeMap::from([(FILTER, record)]),
        ..ClusterMap::default()
    }
}

/// All owners of a filter, and one producer.
struct Cluster {
    map: ClusterMap,
    owners: Vec<GroupOwner>,
    prober: Prober,
    clock: WindowClock,
    producer: u128,
    sequence: u64,
    now: Moment,
}

impl Cluster {
    fn build(definition: &SlicedDefinition, rng: &mut TestRng) -> Self {
        let map = map(definition, 3, rng);
        let owner = |group: u32| {
            let node = map.filters[&FILTER].owners[group as usize].node;
            GroupOwner::build(FILTER, &map, group, node, OwnerLimits::default()).unwrap()
        };
        Self {
            owners: (0..definition.slicing.groups()).map(owner).collect(),
            map,
            prober: Prober::new(definition).unwrap(),
            clock: clock(&definition.group),
            producer: 77,
            sequence: 0,
            now: Moment { monotonic_ms: MonotonicMs(1000), wall_ms: 1_790_000_000_000 },
        }
    }

    fn submit(&mut self, group: u32, submission: Submission) -> GroupReply {
        let mut commands = Vec::new();
        self.owners[group as usize].submit(submission, self.now);
        self.owners[group as usize].take_commands(&mut commands);
        match commands.pop() {
            Some(Command::Reply(reply)) if commands.is_empty() => reply,
            other => panic!("one reply a submission: {other:?}"),
        }
    }

    /// Returns the runs of one batch, by group, with the events of each run. Events that never leave the producer are
    /// decided here.
    fn prepare(
        &mut self,
        events: &[(Digest, u64)],
        operation: Operation,
        decisions: &mut [Decision],
    ) -> Vec<(u32, Vec<usize>, Submission)> {
        self.sequence += 1;
        let base_unit = self.clock.now_unit();
        let mut runs: BTreeMap<u32, (Vec<usize>, Submission)> = BTreeMap::new();
        let times_ms: Vec<u64> = events.iter().map(|(_, time_ms)| *time_ms).collect();
        for (event, (digest, time_ms)) in events.iter().enumerate() {
            let tick = if operation.records() {
                self.clock.tick_nth(&times_ms, event)
            } else {
                self.clock.look_up_tick(Some(*time_ms))
            };
            let Some((clock_unit, unit)) = tick else {
                decisions[event] = Decision::Undecided(Reason::Future);
                continue;
            };
            let (own, submission) = runs.entry(self.prober.group(*digest)).or_insert_with(|| {
                let times = Times { base_unit, ..Times::default() };
                (Vec::new(), submission(operation, self.producer, self.sequence, &self.prober, times))
            });
            own.push(event);
            self.prober.push(*digest, &mut submission.probes);
            submission.times.ticks.push(Tick { clock_unit, unit });
        }
        let clock_ms = self.clock.now_ms();
        let finish = |(group, (own, mut submission)): (u32, (Vec<usize>, Submission))| {
            submission.times.clock_ms = clock_ms;
            if submission.times.ticks.iter().all(|tick| (tick.clock_unit, tick.unit) == (base_unit, base_unit)) {
                submission.times.ticks.clear();
            }
            (group, own, submission)
        };
        runs.into_iter().map(finish).collect()
    }
}

fn submission(operation: Operation, producer: u128, sequence: u64, prober: &Prober, times: Times) -> Submission {
    let probes = Probes::new(prober.shape());
    Submission { producer, times, ..plain_submission(sequence, operation, probes) }
}

fn is_definite(reply: &GroupReply) -> bool {
    reply.answers.decisions().iter().all(|decision| !matches!(decision, Decision::Undecided(_)))
}

/// Sends a stream through the owners and the engine, with lookups and retries in between.
fn check_like_engine(definition: &SlicedDefinition, stream: &Stream, rng: &mut TestRng) {
    let mut cluster = Cluster::build(definition, rng);
    let mut engine = SlicedFilter::build(definition).unwrap();
    let events: Vec<(Digest, u64)> = stream.digests.iter().copied().zip(stream.times_ms.iter().copied()).collect();
    let mut answered: Vec<(u32, Submission, Vec<Decision>)> = Vec::new();
    let mut start = 0;
    while start < events.len() {
        let end = (start + 1 + rng.below(300) as usize).min(events.len());
        let operation = if rng.below(6) == 0 { Operation::Lookup } else { Operation::Observe };
        let (digests, times_ms) = (&stream.digests[start..end], &stream.times_ms[start..end]);
        let mut answers = vec![Answer::Undecided; end - start];
        match operation {
            Operation::Observe => engine.observe_batch(digests, times_ms, &mut answers),
            _ => engine.lookup_batch(digests, times_ms, &mut answers),
        }
        let expected: Vec<Decision> = answers.into_iter().map(Decision::from).collect();
        let mut decisions = vec![Decision::Undecided(Reason::Unknown); end - start];
        for (group, own, submission) in cluster.prepare(&events[start..end], operation, &mut decisions) {
            let reply = cluster.submit(group, submission.clone());
            assert_eq!((reply.reply_to, reply.answers.is_degraded()), (submission.reply_to, false));
            assert!(reply.answers.clock_ms() <= engine.now_ms());
            own.iter().zip(reply.answers.decisions()).for_each(|(event, decision)| decisions[*event] = *decision);
            if operation == Operation::Observe && is_definite(&reply) {
                answered.push((group, submission, reply.answers.decisions().to_vec()));
            }
        }
        assert_eq!(decisions, expected, "{:?} {}: {start}..{end}", definition.group.window, definition.slicing);
        if let Some((group, submission, decisions)) =
            answered.get(rng.below(answered.len().max(1) as u64) as usize).cloned()
        {
            let again = cluster.submit(group, Submission { reply_to: 9, ..submission });
            assert_eq!((again.reply_to, again.answers.decisions()), (9, &decisions[..]), "a retry gets the same reply");
        }
        start = end;
    }
}

#[test]
fn owners_answer_as_the_engine_in_one_place() {
    let sized = |kind, window: &str| FilterSpec {
        capacity_events: Some(1000),
        ..FilterSpec::new(kind, window.parse().unwrap())
    };
    let mut rng = TestRng(31);
    for spec in [
        spec(Kind::Bloom, "unbounded", 5000, 4),
        spec(Kind::Bloom, "landmark:2s", 3000, 3),
        sized(Kind::Timing, "2s"),
        FilterSpec { future_max_ms: 4000, lateness_ms: Some(500), ..sized(Kind::Timing, "2s") },
        FilterSpec { refresh: firstseen_filter::Refresh::Refresh, ..sized(Kind::Timing, "2s") },
        growing(Kind::Timing, "2s", 200, Limit::Cardinality, 4),
        growing(Kind::Timing, "2s", 100, Limit::Density, 2),
        sized(Kind::Generations, "2s"),
        FilterSpec { jumps: Some(4), ..sized(Kind::Counting, "2s") },
        sized(Kind::Stable, "unbounded"),
        sized(Kind::Cuckoo, "2s"),
        FilterSpec { future_max_ms: 4000, lateness_ms: Some(500), rate: 0.001, ..sized(Kind::Cuckoo, "2s") },
        FilterSpec { refresh: firstseen_filter::Refresh::Refresh, ..fingerprints("2s", 300) },
        FilterSpec { capacity_events: Some(800), ..FilterSpec::new(Kind::Cuckoo, "800events".parse().unwrap()) },
        FilterSpec::new(Kind::Timing, "800events".parse().unwrap()),
        FilterSpec::new(Kind::Generations, "800events".parse().unwrap()),
        FilterSpec::new(Kind::Counting, "800events".parse().unwrap()),
        FilterSpec::new(Kind::Bloom, "landmark:800events".parse().unwrap()),
        FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Bloom, "landmark:hour".parse().unwrap()) },
    ] {
        for slicing in ["none", "horizontal:2", "horizontal:7"] {
            // A filter that counts events cannot be divided.
            let Ok(definition) = SlicedDefinition::new(&spec, slicing.parse().unwrap()) else { continue };
            let stream = stream(&mut rng, 4000, 900, 5, 3000);
            check_like_engine(&definition, &stream, &mut rng);
        }
    }
}

/// Creates the owner of an undivided filter of timers, for events with idempotency keys.
fn alone() -> (Cluster, SlicedDefinition) {
    let definition = definition(&spec(Kind::Timing, "1h", 20_000, 4), "none");
    (Cluster::build(&definition, &mut TestRng(1)), definition)
}

/// Returns a batch of events that all have the same time.
fn batch(cluster: &Cluster, sequence: u64, keys: impl Iterator<Item = u64>) -> Submission {
    let times = Times { base_unit: UnitNumber(10), ticks: Vec::new(), clock_ms: Some(1), ttl_ms: None };
    let mut batch = submission(Operation::Observe, 5, sequence, &cluster.prober, times);
    keys.for_each(|key| cluster.prober.push(common::digest(key), &mut batch.probes));
    batch
}

#[test]
fn a_restarted_producer_gets_the_first_verdicts_under_its_names() {
    let (mut cluster, _) = alone();
    let named = |cluster: &Cluster, producer, sequence, numbers: std::ops::Range<u64>| Submission {
        producer,
        names: numbers.clone().map(|number| SubmissionName { source: 4, number }).collect(),
        // Every third event repeats an earlier one.
        ..batch(cluster, sequence, numbers.map(|number| number - number % 3))
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    for (sequence, start) in (0..1000).step_by(100).enumerate() {
        let submission = named(&cluster, 5, sequence as u64, start..start + 100);
        first.extend_from_slice(cluster.submit(0, submission).answers.decisions());
    }
    // The restarted producer does not know which events have replies, and combines them in different batches.
    for (sequence, start) in (460..1160).step_by(70).enumerate() {
        let submission = named(&cluster, 6, sequence as u64, start..start + 70);
        second.extend_from_slice(cluster.submit(0, submission).answers.decisions());
    }
    assert_eq!(second[..540], first[460..]);
    let first_seen = |decisions: &[Decision]| decisions.iter().filter(|d| **d == Decision::FirstSeen).count();
    assert_eq!((first_seen(&first), first_seen(&second[540..])), (334, 53), "number 999 has a reply already");
    // If a key occurs twice in a batch, both count as one submission.
    let mut twice = batch(&cluster, 99, [70_000, 70_000].into_iter());
    twice.names = vec![SubmissionName { source: 8, number: 1 }; 2];
    assert_eq!(cluster.submit(0, twice).answers.decisions(), [Decision::FirstSeen; 2]);
}

#[test]
fn a_forgotten_name_is_too_old() {
    let (mut cluster, _) = alone();
    let horizon_ms = u64::from(FilterPolicies::default().retry_horizon_ms);
    let first = batch(&cluster, 1, 0..50);
    let second = batch(&cluster, 2, 50..100);
    assert_eq!(cluster.submit(0, first.clone()).answers.decisions(), [Decision::FirstSeen; 50]);
    cluster.now.monotonic_ms = cluster.now.monotonic_ms.after(horizon_ms - 1);
    assert_eq!(cluster.submit(0, first.clone()).answers.decisions(), [Decision::FirstSeen; 50]);
    cluster.now.monotonic_ms = cluster.now.monotonic_ms.after(1);
    assert_eq!(cluster.submit(0, first.clone()).answers.decisions(), [Decision::Undecided(Reason::TooOld); 50]);
    assert_eq!(cluster.submit(0, second).answers.decisions(), [Decision::FirstSeen; 50]);
    let other = Submission { producer: 6, ..first };
    assert_eq!(cluster.submit(0, other).answers.decisions(), [Decision::Duplicate; 50]);
    let state = cluster.owners[0].state(usize::MAX);
    assert_eq!((state.batches, state.events, state.decisions.undecided_for(Reason::TooOld)), (5, 250, 50));
    assert_eq!((state.decisions.first_seen, state.decisions.duplicate), (150, 50));
}

#[test]
fn a_submission_that_does_not_fit_is_refused_and_leaves_nothing() {
    let (mut cluster, _) = alone();
    let good = batch(&cluster, 1, 0..3);
    let mut other_shape = good.clone();
    other_shape.probes.reset(firstseen_filter::ProbeShape::Spread { cells: 7, hashes: 1 });
    other_shape.probes.push_positions(&[1]).unwrap();
    let few_ticks = Times { ticks: vec![Tick::default()], ..good.times.clone() };
    let name = SubmissionName { source: 1, number: 1 };
    let counting = Submission { operation: Operation::Count, ..good.clone() };
    for (submission, reason) in [
        (other_shape, Reason::Invalid),
        (Submission { times: few_ticks, ..good.clone() }, Reason::Invalid),
        (Submission { names: vec![name], ..good.clone() }, Reason::Invalid),
        (counting, Reason::Invalid),
        (Submission { deadline_ms: MonotonicMs(999), ..good.clone() }, Reason::Overloaded),
        (
            Submission { times: Times { base_unit: UnitNumber::NEVER, ..Times::default() }, ..good.clone() },
            Reason::Future,
        ),
    ] {
        let reply = cluster.submit(0, submission.clone());
        assert_eq!(reply.answers.decisions(), vec![Decision::Undecided(reason); submission.probes.len()]);
        assert_eq!(reply.spent.map(|spent| spent.len()), Some(submission.probes.len()));
    }
    // A rejected submission may be sent again under its key.
    assert_eq!(cluster.submit(0, good.clone()).answers.decisions(), [Decision::FirstSeen; 3]);
    assert_eq!(
        cluster.submit(0, Submission { names: Vec::new(), ..good }).answers.decisions(),
        [Decision::FirstSeen; 3]
    );
}

#[test]
fn an_owner_follows_the_map() {
    let (mut cluster, definition) = alone();
    let events = |cluster: &Cluster, sequence| batch(cluster, sequence, 0..3);
    assert!(!{ cluster.submit(0, events(&cluster, 1)) }.answers.is_degraded());
    let mut map = cluster.map.clone();
    let node = map.filters[&FILTER].owners[0].node;
    let other = NodeId(1 + node.0 % 3);
    assert!(GroupOwner::build(FILTER, &map, 0, other, OwnerLimits::default()).is_err());
    assert!(GroupOwner::build(FilterId(9), &map, 0, node, OwnerLimits::default()).is_err());
    assert!(GroupOwner::build(FILTER, &map, definition.slicing.groups(), node, OwnerLimits::default()).is_err());
    // The node has restarted, and its cells are lost.
    map.nodes.get_mut(&node).unwrap().incarnation = Incarnation(2);
    cluster.owners[0] = GroupOwner::build(FILTER, &map, 0, node, OwnerLimits::default()).unwrap();
    assert!({ cluster.submit(0, events(&cluster, 2)) }.answers.is_degraded());
    map.filters.get_mut(&FILTER).unwrap().owners[0].complete_since = Incarnation(2);
    cluster.owners[0].map_changed(&map, cluster.now);
    cluster.owners[0].take_commands(&mut Vec::new());
    let reply = cluster.submit(0, events(&cluster, 3));
    assert_eq!((reply.answers.is_degraded(), reply.answers.decisions()), (false, &[Decision::Duplicate; 3][..]));
    cluster.owners[0].drain(cluster.now);
    cluster.owners[0].take_commands(&mut Vec::new());
    assert_eq!(cluster.submit(0, events(&cluster, 4)).answers.decisions(), [Decision::Undecided(Reason::NotReady); 3]);
    map.filters.clear();
    cluster.owners[0].map_changed(&map, cluster.now);
    cluster.owners[0].take_commands(&mut Vec::new());
    assert_eq!(cluster.submit(0, events(&cluster, 5)).answers.decisions(), [Decision::Undecided(Reason::StaleMap); 3]);
}

#[test]
fn the_engine_finds_both_answers_in_the_streams() {
    let mut engine = common::filter(&spec(Kind::Timing, "2s", 5000, 4), "horizontal:7");
    let answers = common::observe(&mut engine, &stream(&mut TestRng(31), 4000, 900, 5, 3000), 100);
    let (first, again, late) = (Answer::FirstSeen, Answer::Duplicate, Answer::Late);
    assert!([first, again, late].into_iter().all(|answer| count(&answers, answer) > 50));
}

#[test]
fn events_that_are_not_decided_do_not_let_a_window_of_events_pass() {
    let rng = &mut TestRng(3);
    let definition = definition(&spec(Kind::Timing, "300events", 1 << 14, 5), "none");
    let mut cluster = Cluster::build(&definition, rng);
    let mut map = cluster.map.clone();
    let node = map.filters[&FILTER].owners[0].node;
    map.filters.get_mut(&FILTER).unwrap().policies.when_lost = WhenLost::Undecided;
    map.nodes.get_mut(&node).unwrap().incarnation = Incarnation(2);
    cluster.owners[0] = GroupOwner::build(FILTER, &map, 0, node, OwnerLimits::default()).unwrap();
    // Producers send undecided events again, because none of them was recorded.
    for sequence in 1..=20 {
        let events = batch(&cluster, sequence, 0..100);
        assert_eq!(cluster.submit(0, events).answers.decisions(), [Decision::Undecided(Reason::SlicesDown); 100]);
    }
}
