//! Tests events that have a time to live of their own, in filters whose owner stamps the events with its own time. The
//! expected verdicts come from an exact model, which counts time in the units of the filter.

use std::collections::{BTreeMap, HashMap};

use crate::common::{TestRng, definition, digest, filter_record, fingerprints, node_record, slice_owner, spec};
use firstseen_filter::{Kind, Probes, Unit};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    ClockSource, ClusterMap, Command, Decision, FilterId, FilterPolicies, GroupOwner, Moment, MonotonicMs, NodeId,
    Operation, OwnerLimits, Prober, Reason, SlicedDefinition, Submission, Times,
};

const BEGIN_MS: u64 = 1_790_000_000_000;
const KEYS: u64 = 40;
const STEPS: u64 = 3_000;
const SEED: u64 = 3;

/// An owner of all slices that uses the time of day.
struct ByWall {
    owner: GroupOwner,
    definition: SlicedDefinition,
    sequence: u64,
}

impl ByWall {
    fn new(kind: Kind, slicing: &str) -> Self {
        let spec = if kind == Kind::Cuckoo { fingerprints("10m", 1_000) } else { spec(kind, "10m", 1 << 14, 8) };
        let definition = definition(&spec, slicing);
        let policies = FilterPolicies { clock: ClockSource::Wall, ..FilterPolicies::default() };
        let owners = (0..definition.slicing.slices()).map(|_| slice_owner(NodeId(1))).collect();
        let map = ClusterMap {
            nodes: BTreeMap::from([(NodeId(1), node_record(NodeId(1)))]),
            filters: BTreeMap::from([(FilterId(1), filter_record(&definition, policies, owners))]),
            ..ClusterMap::default()
        };
        let owner = GroupOwner::build(FilterId(1), &map, 0, NodeId(1), OwnerLimits::default()).unwrap();
        Self { owner, definition, sequence: 0 }
    }

    fn unit_ms(&self) -> u64 {
        let Unit::Milliseconds(unit_ms) = self.definition.group.unit else { panic!("a window of time") };
        unit_ms
    }

    fn ask(&mut self, operation: Operation, key: u64, now_ms: u64, ttl_ms: Option<u64>) -> Decision {
        let prober = Prober::new(&self.definition).unwrap();
        let mut probes = Probes::new(prober.shape());
        prober.push(digest(key), &mut probes);
        self.sequence += 1;
        let submission = Submission {
            times: Times { ttl_ms, ..Times::default() },
            ..plain_submission(self.sequence, operation, probes)
        };
        let mut commands = Vec::new();
        self.owner.submit(submission, Moment { monotonic_ms: MonotonicMs(5), wall_ms: now_ms });
        self.owner.take_commands(&mut commands);
        let replies = commands.into_iter().filter_map(|command| match command {
            Command::Reply(reply) => reply.answers.decisions().first().copied(),
            _ => None,
        });
        replies.last().expect("a reply")
    }
}

/// Regression test: `SET k 1 NX EX 2` was still a duplicate after 4 s, because nodes that stamp events ignored the time
/// to live.
#[test]
fn an_owner_that_stamps_events_counts_their_lives() {
    println!("seed {SEED}");
    for (kind, slicing) in
        [(Kind::Timing, "none"), (Kind::Timing, "vertical:2"), (Kind::Cuckoo, "none"), (Kind::Timing, "horizontal:1")]
    {
        let mut owner = ByWall::new(kind, slicing);
        let (unit_ms, span_units) = (owner.unit_ms(), owner.definition.group.rule.span_units);
        let mut expiry_by_key: HashMap<u64, u64> = HashMap::new();
        let (mut rng, mut now_ms, mut seen) = (TestRng(SEED), BEGIN_MS, 0);
        for step in 0..STEPS {
            now_ms += rng.below(2 * unit_ms);
            let (key, now) = (rng.below(KEYS), now_ms / unit_ms);
            let ttl_ms = (rng.below(4) > 0).then(|| 1 + rng.below((span_units - 1) * unit_ms));
            let is_known = expiry_by_key.get(&key).is_some_and(|expiry| *expiry > now);
            let expected = if is_known { Decision::Duplicate } else { Decision::FirstSeen };
            let operation = if rng.below(5) == 0 { Operation::Lookup } else { Operation::Observe };
            let ttl_ms = ttl_ms.filter(|_| operation == Operation::Observe);
            let found = owner.ask(operation, key, now_ms, ttl_ms);
            assert_eq!(found, expected, "{kind} {slicing}, seed {SEED}, step {step}: key {key}, for {ttl_ms:?}");
            seen += u64::from(is_known);
            if !is_known && operation == Operation::Observe {
                let units = ttl_ms.map_or(span_units, |ttl_ms| ttl_ms.div_ceil(unit_ms) + 1);
                expiry_by_key.insert(key, now + units);
            }
        }
        assert!(seen > STEPS / 10 && seen < STEPS, "{seen} of {STEPS}");
    }
}

#[test]
fn lives_that_cannot_be_kept_are_refused() {
    const INVALID: Decision = Decision::Undecided(Reason::Invalid);
    for slicing in ["none", "vertical:2"] {
        let mut owner = ByWall::new(Kind::Timing, slicing);
        let longest_ms = (owner.definition.group.rule.span_units - 1) * owner.unit_ms();
        for (operation, ttl_ms, expected) in [
            (Operation::Observe, 0, INVALID),
            (Operation::Observe, longest_ms + 1, INVALID),
            (Operation::Observe, u64::MAX, INVALID),
            (Operation::Lookup, 1_000, INVALID),
            (Operation::Observe, longest_ms, Decision::FirstSeen),
        ] {
            assert_eq!(owner.ask(operation, 1, BEGIN_MS, Some(ttl_ms)), expected, "{slicing}: {operation:?} {ttl_ms}");
        }
        let mut generations = ByWall::new(Kind::Generations, slicing);
        assert_eq!(generations.ask(Operation::Observe, 1, BEGIN_MS, Some(1_000)), INVALID, "{slicing}");
    }
}
