//! What an owner tells to be kept makes another owner that goes on where it stopped.

use std::collections::BTreeMap;

use crate::common::{Dice, definition, digest, filter_record, growing, node_record, slice_owner, spec};
use firstseen_filter::{FilterSpec, Kind, Limit, Probes, Refresh};
use firstseen_routing::{
    CheckpointCursor, ClusterMap, Command, Decision, Durability, Entry, EventTag, FilterId, FilterPolicies,
    FilterRecord, GroupOwner, Incarnation, Moment, NodeId, NodeRecord, Operation, OwnerLimits, Prober, Reason, Record,
    SliceCopy, SlicedDefinition, Submission, SubmissionName, Tick, Times, WhenLost,
};

const FILTER: FilterId = FilterId(3);
const ME: NodeId = NodeId(1);
const KEYS: u64 = 3000;
const EVENTS: usize = 50;

fn map(definition: &SlicedDefinition) -> ClusterMap {
    let policies = FilterPolicies { durability: Durability::Durable, ..FilterPolicies::default() };
    let owners = vec![slice_owner(ME); definition.slicing.slices() as usize];
    let generations = vec![0; definition.slicing.groups() as usize];
    let record = FilterRecord { generations, ..filter_record(definition, policies, owners) };
    ClusterMap {
        nodes: BTreeMap::from([(ME, node_record(ME))]),
        filters: BTreeMap::from([(FILTER, record)]),
        ..ClusterMap::default()
    }
}

/// One owner of a filter that is one group, a producer, and what the owner has told to be kept.
struct Bench {
    map: ClusterMap,
    owner: GroupOwner,
    prober: Prober,
    now: Moment,
    unit: u64,
    is_named: bool,
    kept: Vec<Record>,
    told: Vec<(Submission, Vec<Decision>)>,
}

impl Bench {
    fn new(definition: &SlicedDefinition, is_named: bool) -> Self {
        let map = map(definition);
        let owner = GroupOwner::build(FILTER, &map, 0, ME, OwnerLimits::default()).unwrap();
        let (prober, now) = (Prober::new(definition).unwrap(), Moment { monotonic_ms: 1000, wall_ms: 0 });
        let (kept, told) = (owner.checkpoint(true), Vec::new());
        Self { map, owner, prober, now, unit: 100, is_named, kept, told }
    }

    /// A batch at the present, of which one event in ten is late.
    fn batch(&mut self, dice: &mut Dice) -> Submission {
        let sequence = self.told.len() as u64;
        let mut probes = Probes::new(self.prober.shape());
        (0..EVENTS).for_each(|_| self.prober.push(digest(dice.below(KEYS)), &mut probes));
        self.unit += dice.below(3);
        let clock_unit = self.unit;
        let late = |dice: &mut Dice| if dice.below(10) == 0 { dice.below(8) } else { 0 };
        let ticks = (0..EVENTS).map(|_| Tick { clock_unit, unit: clock_unit - late(dice) }).collect();
        let name = |event: usize| SubmissionName { source: 9, number: sequence * EVENTS as u64 + event as u64 };
        Submission {
            reply_to: sequence,
            operation: Operation::Observe,
            producer: 7,
            sequence,
            names: if self.is_named { (0..EVENTS).map(name).collect() } else { Vec::new() },
            from: None,
            probes,
            times: Times { base_unit: clock_unit, ticks, clock_ms: clock_unit * 1000 },
            deadline_ms: u64::MAX,
            again: false,
            traceparent: None,
        }
    }

    fn submit(&mut self, submission: Submission) -> Vec<Decision> {
        self.now.monotonic_ms += 10;
        let mut commands = Vec::new();
        self.owner.submit(submission, self.now, &mut commands);
        let mut decisions = None;
        for command in commands {
            match command {
                Command::Record(record) => {
                    assert!(decisions.is_none(), "told before it is kept");
                    self.kept.push(record);
                }
                Command::Reply(reply) => decisions = Some(reply.decisions),
                Command::OpenGeneration { number, .. } => {
                    let record = self.map.filters.get_mut(&FILTER).unwrap();
                    record.generations[0] = number;
                    self.owner.map_changed(&self.map, self.now, &mut Vec::new());
                }
                Command::SlicesComplete { .. } => {}
                other => panic!("one node: {other:?}"),
            }
        }
        decisions.expect("one owner answers at once")
    }

    /// Another owner, from what was kept of this one.
    fn again(&self) -> Self {
        let mut other = Self {
            map: self.map.clone(),
            owner: GroupOwner::build(FILTER, &self.map, 0, ME, OwnerLimits::default()).unwrap(),
            prober: self.prober,
            kept: Vec::new(),
            told: Vec::new(),
            ..*self
        };
        for entry in self.kept.iter().flat_map(|record| &record.entries) {
            other.owner.restore(entry.clone(), self.now).unwrap();
        }
        other.owner.end_restore(true);
        other
    }
}

/// Streams batches, takes checkpoints meanwhile and forgets what came before them, then compares.
fn goes_on(definition: &SlicedDefinition, seed: u64, may_differ: bool) {
    let mut dice = Dice(seed);
    let mut bench = Bench::new(definition, dice.below(2) == 0);
    let mut cursor: Option<(CheckpointCursor, usize)> = None;
    let mut checkpoints = 0;
    for _ in 0..120 {
        let batch = bench.batch(&mut dice);
        let decisions = bench.submit(batch.clone());
        bench.told.push((batch, decisions));
        match &mut cursor {
            None if dice.below(20) == 0 => {
                cursor = Some((CheckpointCursor::default(), bench.kept.len()));
                bench.kept.extend(bench.owner.checkpoint(true));
            }
            Some((cells, begun)) => match bench.owner.checkpoint_cells(cells, 1 + dice.below(900) as usize) {
                Some(records) => bench.kept.extend(records),
                None => {
                    bench.kept.push(bench.owner.checkpoint_end());
                    bench.kept.drain(..*begun);
                    cursor = None;
                    checkpoints += 1;
                }
            },
            None => {}
        }
    }
    assert!(checkpoints > 0 || bench.owner.bytes() > 20_000, "{checkpoints} checkpoints");
    let mut again = bench.again();
    let (mut events, mut differ) = (0, 0);
    let mut compare = |one: &[Decision], other: &[Decision]| {
        events += one.len();
        differ += one.iter().zip(other).filter(|(one, other)| one != other).count();
    };
    for (batch, decisions) in std::mem::take(&mut bench.told) {
        let retry = Submission { again: true, ..batch.clone() };
        let (one, other) = (bench.submit(retry.clone()), again.submit(retry));
        let definite = |decision: &Decision| !matches!(decision, Decision::Undecided(_));
        let same = decisions.iter().zip(&other).all(|(told, other)| !definite(told) || told == other);
        assert!(same, "seed {seed}: a retry is told the same");
        compare(&one, &other);
        bench.told.push((batch, decisions));
    }
    for _ in 0..40 {
        let batch = bench.batch(&mut dice);
        let (one, other) = (bench.submit(batch.clone()), again.submit(batch.clone()));
        bench.told.push((batch, one.clone()));
        compare(&one, &other);
    }
    // A batch that fills one generation and begins the next is kept as all of the next: who knows an event is the same,
    // who is taken for another one is not.
    let differ_max = if may_differ { events / 200 } else { 0 };
    assert!(differ <= differ_max, "seed {seed}: {differ} of {events} are told otherwise");
}

fn specs() -> Vec<FilterSpec> {
    let lateness = |spec: FilterSpec| FilterSpec { lateness_ms: Some(5_000), ..spec };
    vec![
        spec(Kind::Bloom, "unbounded", 1 << 14, 5),
        lateness(spec(Kind::Timing, "100s", 1 << 14, 5)),
        lateness(FilterSpec { refresh: Refresh::Refresh, ..spec(Kind::Timing, "100s", 1 << 14, 5) }),
        spec(Kind::Generations, "100s", 1 << 14, 5),
    ]
}

#[test]
fn an_owner_goes_on_where_another_stopped() {
    for (index, spec) in specs().into_iter().enumerate() {
        for slicing in ["none", "vertical:4"] {
            (0..6).for_each(|seed| goes_on(&definition(&spec, slicing), seed * 100 + index as u64, false));
        }
    }
}

#[test]
fn filters_that_grow_go_on_too() {
    for kind in [Kind::Timing, Kind::Bloom] {
        let window = if kind == Kind::Bloom { "unbounded" } else { "100s" };
        let spec = growing(kind, window, 600, Limit::Cardinality, 8);
        for slicing in ["none", "vertical:4"] {
            (0..6).for_each(|seed| goes_on(&definition(&spec, slicing), seed, slicing == "none"));
        }
    }
}

#[test]
fn a_window_of_events_goes_on_where_it_stopped() {
    let spec = spec(Kind::Generations, "1000events", 1 << 14, 5);
    (0..6).for_each(|seed| goes_on(&definition(&spec, "none"), seed, false));
}

#[test]
fn what_was_taken_up_and_not_told_is_unknown() {
    let definition = definition(&specs()[1], "vertical:4");
    let mut bench = Bench::new(&definition, false);
    let batch = bench.batch(&mut Dice(1));
    bench.submit(batch.clone());
    // The process ends when its cells are set, and nothing was told.
    for record in &mut bench.kept {
        record.entries.retain(|entry| !matches!(entry, Entry::Told { .. }));
    }
    let decisions = bench.again().submit(Submission { again: true, ..batch });
    let unknown = Decision::Undecided(Reason::Unknown);
    assert!(decisions.iter().all(|decision| *decision == unknown), "{decisions:?}");
}

/// A named batch is told, the node starts again, and the names come back for other events: as of a topic that was made anew.
/// What was kept by a version that knew no tags tells whoever has the name what was told.
#[test]
fn names_tell_nothing_to_other_events_after_a_start_either() {
    for (slicing, knows_tags) in [("none", true), ("vertical:4", true), ("none", false), ("vertical:4", false)] {
        let mut bench = Bench::new(&definition(&specs()[1], slicing), true);
        let batch = bench.batch(&mut Dice(1));
        let told = bench.submit(batch.clone());
        for entry in bench.kept.iter_mut().flat_map(|record| &mut record.entries) {
            if let (false, Entry::Told { names, .. } | Entry::Taken { names, .. }) = (knows_tags, entry) {
                names.iter_mut().for_each(|event| event.tag = EventTag::NONE);
            }
        }
        let mut others = Probes::new(bench.prober.shape());
        (0..EVENTS as u64).for_each(|event| bench.prober.push(digest(KEYS + event), &mut others));
        let others = Submission { producer: 8, probes: others, ..batch.clone() };
        let mut again = bench.again();
        let expected: Vec<Decision> = if knows_tags {
            told.iter().map(|told| renamed(*told)).collect()
        } else {
            told.iter().map(|told| again_or_new(*told)).collect()
        };
        assert_eq!(again.submit(others), expected, "{slicing}");
        let retry = again.submit(Submission { producer: 9, ..batch });
        let is_told = |(told, again): (&Decision, &Decision)| matches!(told, Decision::Undecided(_)) || told == again;
        assert!(told.iter().zip(&retry).all(is_told), "{slicing}: whose names they are is told the same");
    }
}

/// What another event is told under a name of which `told` was told.
fn renamed(told: Decision) -> Decision {
    match told {
        Decision::Undecided(_) => Decision::FirstSeen,
        _ => Decision::Undecided(Reason::NameReused),
    }
}

fn again_or_new(told: Decision) -> Decision {
    match told {
        Decision::Undecided(_) => Decision::FirstSeen,
        told => told,
    }
}

/// One slice, whose other copy is at a node that is down, and this one's node has started again.
fn beside_a_copy_that_is_down() -> ClusterMap {
    let mut map = map(&definition(&spec(Kind::Bloom, "unbounded", 1 << 14, 5), "none"));
    let other = NodeRecord { is_down: true, ..node_record(NodeId(2)) };
    map.nodes.insert(NodeId(2), other);
    map.nodes.get_mut(&ME).unwrap().incarnation = Incarnation(2);
    let record = map.filters.get_mut(&FILTER).unwrap();
    record.policies.when_lost = WhenLost::Duplicate;
    let owner = slice_owner(NodeId(2));
    record.copies = vec![SliceCopy { slice: 0, owner, replaces: None, since_epoch: 1 }];
    map
}

#[test]
fn a_copy_that_has_read_everything_back_records_when_the_map_knows() {
    let mut map = beside_a_copy_that_is_down();
    let mut bench = Bench::new(&map.filters[&FILTER].definition.clone(), false);
    bench.owner = GroupOwner::build(FILTER, &map, 0, ME, OwnerLimits::default()).unwrap();
    bench.owner.end_restore(true);
    let batch = bench.batch(&mut Dice(1));
    let ask = |bench: &mut Bench, sequence| {
        let mut commands = Vec::new();
        bench.now.monotonic_ms += 10;
        bench.owner.submit(Submission { sequence, ..batch.clone() }, bench.now, &mut commands);
        let records = commands.iter().filter(|command| matches!(command, Command::Record(_))).count();
        let mut replies = commands.into_iter().filter_map(|command| match command {
            Command::Reply(reply) => Some((reply.decisions[0], reply.degraded)),
            _ => None,
        });
        (replies.next().expect("an answer"), records)
    };
    // What it recorded now, the other would come back without, and would not know that it lacks it.
    assert_eq!(ask(&mut bench, 0), ((Decision::Duplicate, true), 0));
    map.filters.get_mut(&FILTER).unwrap().owners[0].complete_since = Incarnation(2);
    map.version += 1;
    bench.owner.map_changed(&map, bench.now, &mut Vec::new());
    assert_eq!(ask(&mut bench, 1), ((Decision::FirstSeen, false), 1));
}
