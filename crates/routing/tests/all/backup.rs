//! Tests backups of slice groups. A group sends its cells to the backup while it continues to record events, and a
//! group on another node is then built from the backup. The new group must know every event that was answered before
//! the backup began.

use std::collections::BTreeMap;

use crate::common::{definition, digest, filter_record, fingerprints, growing, node_record, slice_owner, spec};
use firstseen_filter::{FilterSpec, GenerationNumber, Kind, Limit, Probes, UnitNumber};
use firstseen_mesh::plain_submission;
use firstseen_routing::{
    AskCells, BackupCells, CellParts, ClusterMap, Command, Decision, FilterId, FilterPolicies, FilterRecord,
    GroupOwner, Incarnation, Moment, MonotonicMs, NodeId, Operation, OwnerLimits, Prober, Proposal, SliceOwner,
    SlicedDefinition, Submission, Tick, Times,
};

const FILTER: FilterId = FilterId(3);
const ME: NodeId = NodeId(1);
const EVENTS: u64 = 50;
const BATCHES_BEFORE: u64 = 20;

fn map(definition: &SlicedDefinition, generations: Vec<GenerationNumber>, is_complete: bool) -> ClusterMap {
    let complete_since = Incarnation(u64::from(is_complete));
    let owner = SliceOwner { complete_since, has_gap: !is_complete, ..slice_owner(ME) };
    let owners = vec![owner; definition.slicing.slices() as usize];
    let record = FilterRecord { generations, ..filter_record(definition, FilterPolicies::default(), owners) };
    ClusterMap {
        nodes: BTreeMap::from([(ME, node_record(ME))]),
        filters: BTreeMap::from([(FILTER, record)]),
        ..ClusterMap::default()
    }
}

struct Bench {
    definition: SlicedDefinition,
    map: ClusterMap,
    owner: GroupOwner,
    prober: Prober,
    now: Moment,
    sequence: u64,
}

impl Bench {
    fn new(definition: &SlicedDefinition, generations: Vec<GenerationNumber>, is_complete: bool) -> Self {
        let map = map(definition, generations, is_complete);
        let owner = GroupOwner::build(FILTER, &map, 0, ME, OwnerLimits::default()).unwrap();
        let (prober, now) =
            (Prober::new(definition).unwrap(), Moment { monotonic_ms: MonotonicMs(1000), wall_ms: 10_000_000 });
        Self { definition: definition.clone(), map, owner, prober, now, sequence: 0 }
    }

    /// Returns the decisions on a batch of these keys at unit `unit`.
    fn ask(&mut self, keys: std::ops::Range<u64>, unit: UnitNumber) -> Vec<Decision> {
        let mut probes = Probes::new(self.prober.shape());
        let ticks = keys.clone().map(|_| Tick { clock_unit: unit, unit }).collect();
        keys.for_each(|key| self.prober.push(digest(key), &mut probes));
        self.sequence += 1;
        self.now.monotonic_ms = self.now.monotonic_ms.after(10);
        let submission = Submission {
            producer: 7,
            times: Times { base_unit: unit, ticks, clock_ms: Some(unit.0 * 1000), ttl_ms: None },
            ..plain_submission(self.sequence, Operation::Observe, probes)
        };
        let mut commands = Vec::new();
        self.owner.submit(submission, self.now);
        self.owner.take_commands(&mut commands);
        let mut decisions = None;
        for command in commands {
            match command {
                Command::Reply(reply) => decisions = Some(reply.answers.decisions().to_vec()),
                Command::Propose(Proposal::OpenGeneration { number, .. }) => {
                    self.map.filters.get_mut(&FILTER).unwrap().generations = vec![number];
                    self.owner.map_changed(&self.map, self.now);
                    self.owner.take_commands(&mut Vec::new());
                }
                other => panic!("one node: {other:?}"),
            }
        }
        decisions.expect("one owner answers at once")
    }

    /// Marks all slices as complete in the cluster map.
    fn forgive(&mut self) {
        let generations = self.map.filters[&FILTER].generations.clone();
        self.map = map(&self.definition, generations, true);
        self.owner.map_changed(&self.map, self.now);
        self.owner.take_commands(&mut Vec::new());
    }
}

/// Sends all cells while the group continues, and writes them into another group.
fn comes_back(definition: &SlicedDefinition, is_endless: bool) {
    let mut former = Bench::new(definition, vec![GenerationNumber::FIRST], true);
    let unit = |batch: u64| if is_endless { UnitNumber::FIRST } else { UnitNumber(100 + batch / 4) };
    for batch in 0..BATCHES_BEFORE {
        former.ask(batch * EVENTS..(batch + 1) * EVENTS, unit(batch));
    }
    let (mut sent, mut batch): (Vec<CellParts>, u64) = (Vec::new(), BATCHES_BEFORE);
    for slice in 0..definition.slicing.slices_per_group() {
        let mut from = None;
        loop {
            let cells =
                former.owner.read_cells(&AskCells { slice, unit: UnitNumber::FIRST, from }).expect("it is here");
            let BackupCells { parts, is_complete } = cells;
            assert!(is_complete);
            from = parts.next;
            sent.push(parts);
            former.ask(batch * EVENTS..(batch + 1) * EVENTS, unit(BATCHES_BEFORE));
            batch += 1;
            if from.is_none() {
                break;
            }
        }
    }
    assert!(former.owner.read_cells(&AskCells { slice: 99, unit: UnitNumber::FIRST, from: None }).is_none());
    let mut again = Bench::new(definition, former.map.filters[&FILTER].generations.clone(), false);
    for parts in sent.iter().chain(&sent) {
        let mut commands = Vec::new();
        again.owner.write_cells(parts.clone(), again.now).expect("they fit");
        again.owner.take_commands(&mut commands);
        again.owner.tick(again.now);
        again.owner.take_commands(&mut commands);
        assert!(
            !commands.iter().any(|command| matches!(command, Command::Propose(Proposal::SlicesComplete { .. }))),
            "something may be missing"
        );
    }
    let present = unit(BATCHES_BEFORE);
    let before = again.ask(0..EVENTS, present);
    assert!(before.iter().all(|decisions| matches!(decisions, Decision::Undecided(_))), "incomplete: {before:?}");
    again.forgive();
    for batch in 0..BATCHES_BEFORE {
        let decisions = again.ask(batch * EVENTS..(batch + 1) * EVENTS, present);
        assert!(decisions.iter().all(|decisions| *decisions == Decision::Duplicate), "batch {batch}: {decisions:?}");
    }
    let new = again.ask(1_000_000..1_000_000 + EVENTS, present);
    assert!(new.iter().filter(|decisions| **decisions == Decision::FirstSeen).count() as u64 > EVENTS - 10, "{new:?}");
    let stranger = CellParts { slice: 99, ..sent[0].clone() };
    assert!(again.owner.write_cells(stranger, again.now).is_err());
}

#[test]
fn events_with_earlier_replies_are_known() {
    let specs: [(FilterSpec, bool); 4] = [
        (spec(Kind::Bloom, "unbounded", 1 << 16, 5), true),
        (spec(Kind::Timing, "100s", 1 << 16, 5), false),
        (spec(Kind::Generations, "100s", 1 << 16, 5), false),
        (fingerprints("100s", 50_000), false),
    ];
    for (spec, is_endless) in specs {
        for slicing in ["none", "vertical:4"] {
            let Ok(definition) = SlicedDefinition::new(&spec, slicing.parse().unwrap()) else { continue };
            comes_back(&definition, is_endless);
        }
    }
}

#[test]
fn a_window_of_events_is_not_over_because_its_count_has_come_back() {
    for spec in [spec(Kind::Timing, "2000events", 1 << 16, 5), fingerprints("2000events", 2000)] {
        comes_back(&definition(&spec, "none"), false);
    }
}

#[test]
fn generations_come_back_with_their_numbers() {
    comes_back(&definition(&growing(Kind::Bloom, "unbounded", 700, Limit::Cardinality, 4), "vertical:4"), true);
}

/// The remaining room of a full filter must not be filled a second time after the backup is restored.
#[test]
fn a_full_filter_comes_back_full() {
    let definition = definition(&growing(Kind::Timing, "100s", 1_000, Limit::Cardinality, 1), "vertical:4");
    let mut former = Bench::new(&definition, vec![GenerationNumber::FIRST], true);
    for batch in 0..18 {
        former.ask(batch * EVENTS..(batch + 1) * EVENTS, UnitNumber(100));
    }
    let mut again = Bench::new(&definition, vec![GenerationNumber::FIRST], false);
    for slice in 0..4 {
        let BackupCells { parts, .. } =
            former.owner.read_cells(&AskCells { slice, unit: UnitNumber::FIRST, from: None }).expect("it is here");
        assert!(parts.next.is_none(), "few cells");
        again.owner.write_cells(parts, again.now).expect("they fit");
        again.owner.take_commands(&mut Vec::new());
    }
    again.forgive();
    let mut new = 0;
    for batch in 100..140 {
        let decisions = again.ask(batch * EVENTS..(batch + 1) * EVENTS, UnitNumber(100));
        new += decisions.iter().filter(|decisions| **decisions == Decision::FirstSeen).count();
    }
    assert!((30..300).contains(&new), "there is room for about 100: {new}");
}
