//! Tests slices that have no room for an entry from another copy, from a backup or from a journal. If an event could
//! not be recorded, it must not count as recorded. If a copy lacks events for this reason, it must not count as
//! complete.

use crate::common::{TestRng, definition, digest, fingerprints, observation};
use crate::network::{FILTER, Network, instance};
use firstseen_filter::{FilterSlice, GenerationNumber, PartError, ProbeShape, Probes, Stamp, UnitNumber};
use firstseen_mesh::{Link, Way};
use firstseen_routing::{
    AnswerWhen, AskCells, BackupCells, Branch, CellParts, Command, CutOff, Decision, Entry, FilterPolicies, GroupOwner,
    Moment, MonotonicMs, NodeId, Operation, OwnerLimits, PeerBody, PeerMessage, PositionLists, Proposal, SetAcks,
    SlicedDefinition, Submission, Times, TreeMode,
};

const WINDOW: &str = "10s";
/// Number of fingerprints that exceeds the slots of a region, so that all of its buckets and its stash are full.
const TOO_MANY: u64 = 60_000;
const FIRST: NodeId = NodeId(1);
const SECOND: NodeId = NodeId(2);

fn one_region() -> SlicedDefinition {
    let definition = definition(&fingerprints(WINDOW, 1), "none");
    assert_eq!(definition.group.cells.geometry().unwrap().blocks(), 1);
    definition
}

/// Returns events with more fingerprints than a region has room for. The events differ for each seed.
fn too_many(definition: &SlicedDefinition, seed: u64) -> Probes {
    let ProbeShape::Spread { cells, .. } = ProbeShape::of(definition.group.cells.geometry().unwrap()) else { panic!() };
    let mut probes = Probes::new(ProbeShape::Spread { cells, hashes: 1 });
    let mut rng = TestRng(seed);
    (0..TOO_MANY).for_each(|_| probes.push_positions(&[rng.below(cells)]).unwrap());
    probes
}

/// Returns the cells of several full slices. When the cells of all these slices are merged into one empty slice, that
/// slice has no room for any further event at `unit`.
///
/// The cells of a single full slice would not be enough. When they are merged into an empty slice, the entries can be
/// stored in different places than before, so some places may stay free.
fn full_cells(definition: &SlicedDefinition, unit: UnitNumber) -> Vec<CellParts> {
    let stamps = vec![Stamp::on_time(unit); TOO_MANY as usize];
    let full = |seed| {
        let mut slice = FilterSlice::build(&definition.group).unwrap();
        assert!(matches!(
            slice.put_probes(GenerationNumber::FIRST, &too_many(definition, seed), &stamps),
            Err(PartError::Full)
        ));
        CellParts {
            runs: vec![slice.cell_run(GenerationNumber::FIRST, 0, usize::MAX).unwrap()],
            ..CellParts::default()
        }
    };
    (1..=4).map(full).collect()
}

fn policies() -> FilterPolicies {
    FilterPolicies { answer: AnswerWhen::Safe, ..FilterPolicies::default() }
}

struct World {
    network: Network,
    definition: SlicedDefinition,
}

impl World {
    /// Creates two copies of a slice that consists of one region.
    fn new() -> Self {
        let definition = one_region();
        // Copies are not compared in this test. Only records transfer events between them.
        let limits = OwnerLimits { rescan_every_ms: Some(u64::MAX), ..OwnerLimits::default() };
        let mut network = Network::new(&definition, policies(), &[FIRST], limits, TestRng(3));
        network.add_node(SECOND);
        network.add_copies([(0, SECOND)]);
        network.nodes().into_iter().for_each(|node| network.deliver_map(node));
        Self { network, definition }
    }

    fn unit(&self, time_ms: u64) -> UnitNumber {
        let firstseen_filter::Unit::Milliseconds(unit_ms) = self.definition.group.unit else { panic!() };
        UnitNumber(time_ms / unit_ms)
    }

    /// Submits an event that occurs at `time_ms`.
    fn submit(&mut self, number: u64, time_ms: u64) {
        let times = Times { base_unit: self.unit(time_ms), ticks: Vec::new(), clock_ms: Some(time_ms), ttl_ms: None };
        let question = Submission { times, ..observation(number) };
        self.network.submit_at(instance(0, FIRST), &[digest(number)], question);
    }

    fn decisions(&self) -> Vec<(u64, Decision)> {
        self.network.replies.iter().map(|reply| (reply.reply_to, reply.answers.decisions()[0])).collect()
    }

    /// Fills the slice of a node, so that it has no room at `unit`. The node cannot even take all of these cells.
    fn fill(&mut self, node: NodeId, unit: UnitNumber) {
        let (now, full) = (self.network.now(), full_cells(&self.definition, unit));
        self.network.command(instance(0, node), |owner| {
            let written = full.iter().map(|parts| owner.write_cells(parts.clone(), now));
            assert!(written.last().is_some_and(|last| last.is_err()));
        });
    }
}

#[test]
fn a_record_for_which_a_copy_has_no_room_is_sent_again_until_it_has() {
    let mut world = World::new();
    let time_ms = world.network.now().wall_ms;
    world.fill(SECOND, world.unit(time_ms));
    world.submit(1, time_ms);
    for _ in 0..3 {
        world.network.settle();
        world.network.wait(1_000);
    }
    world.network.settle();
    assert_eq!(world.decisions(), [], "one of the copies has no record of it");
    // One window later, all of these events have expired. A copy learns that from the next event.
    world.network.wait(30_000);
    world.submit(2, world.network.now().wall_ms);
    world.network.settle();
    world.network.wait(1_000);
    world.network.settle();
    assert_eq!(world.decisions(), [(1, Decision::FirstSeen), (2, Decision::FirstSeen)]);
    // Nothing is sent again any more.
    assert!(!(0..10).any(|_| {
        world.network.wait(1_000);
        world.network.deliver()
    }));
}

/// Returns the records in flight to the other copy, as the numbers of the events that they record.
fn on_their_way(world: &World) -> Vec<u64> {
    let of = |way: &Way| match way {
        Way::Peer(.., PeerMessage { body: PeerBody::Mirror(_, mirrored), .. }) => mirrored.name.sequence,
        way => panic!("no record: {way:?}"),
    };
    world.network.mesh.links().on(Link::between(FIRST, SECOND)).map(of).collect()
}

#[test]
fn only_the_records_that_were_refused_are_sent_again() {
    let mut world = World::new();
    let time_ms = world.network.now().wall_ms;
    world.fill(SECOND, world.unit(time_ms));
    world.submit(1, time_ms);
    world.network.settle();
    world.submit(2, time_ms);
    assert_eq!(on_their_way(&world), [2]);
    // The second record is still in flight when the first record is sent again.
    world.network.wait(1_000);
    assert_eq!(on_their_way(&world), [2, 1]);
    world.network.settle();
    world.network.wait(1_000);
    assert_eq!(on_their_way(&world), [1, 2], "both were refused by now");
}

/// The reason may also be that the maximum number of generations exists. When one of them has expired, the copy accepts
/// the record.
#[test]
fn a_record_that_is_refused_is_sent_again_whatever_the_reason_is() {
    let mut world = World::new();
    let time_ms = world.network.now().wall_ms;
    world.submit(1, time_ms);
    let sent = world.network.take((FIRST, SECOND)).expect("a record");
    let PeerBody::Mirror(Some(number), _) = sent.body else { panic!("{sent:?}") };
    let acks = SetAcks { refused_numbers: vec![number.number], ..SetAcks::default() };
    world.network.put((SECOND, FIRST), PeerMessage { body: PeerBody::SetAcks(acks), ..sent });
    world.network.settle();
    assert_eq!((on_their_way(&world), world.decisions()), (vec![], vec![]));
    world.network.wait(1_000);
    assert_eq!(on_their_way(&world), [1]);
    world.network.settle();
    assert_eq!(world.decisions(), [(1, Decision::FirstSeen)]);
}

#[test]
fn a_copy_without_room_for_all_that_it_fetches_is_not_complete() {
    let mut world = World::new();
    let time_ms = world.network.now().wall_ms;
    world.submit(1, time_ms);
    world.network.settle();
    world.network.lose(SECOND);
    world.network.start_anew(SECOND);
    world.network.nodes().into_iter().for_each(|node| world.network.deliver_map(node));
    world.fill(SECOND, world.unit(time_ms));
    for _ in 0..5 {
        world.network.settle();
        world.network.wait(1_000);
    }
    assert!(!world.network.agree_on_complete(), "it lacks the event");
    // Once the other events have expired there is room, and the copy fetches the events that are still alive.
    world.network.wait(30_000);
    world.submit(2, world.network.now().wall_ms);
    for _ in 0..5 {
        world.network.settle();
        world.network.wait(1_000);
    }
    assert!(world.network.agree_on_complete());
}

#[test]
fn what_a_backup_or_a_journal_holds_beyond_the_room_is_reported() {
    let definition = one_region();
    let mut network = Network::new(&definition, policies(), &[FIRST], OwnerLimits::default(), TestRng(3));
    let (now, unit) = (network.now(), UnitNumber(1_000));
    let full = full_cells(&definition, unit);
    let mut other = FilterSlice::build(&definition.group).unwrap();
    other.put_event(GenerationNumber::FIRST, &[7], Stamp::on_time(unit)).unwrap();
    let more = CellParts {
        runs: vec![other.cell_run(GenerationNumber::FIRST, 0, usize::MAX).unwrap()],
        ..CellParts::default()
    };
    network.command(instance(0, FIRST), |owner| {
        full.iter().take(3).for_each(|parts| _ = owner.write_cells(parts.clone(), now));
        for parts in [&full[3], &more] {
            let refused = owner.write_cells(parts.clone(), now).unwrap_err();
            assert!(matches!(refused, PartError::Full) && refused.to_string().contains("no room"), "{refused}");
        }
    });
    // If a record contains many events, those that find room are added, even if earlier events of the record find none.
    // The node has restarted.
    network.mesh.map_mut().nodes.get_mut(&FIRST).unwrap().incarnation.0 += 1;
    let mut owner = GroupOwner::build(FILTER, network.map(), 0, FIRST, OwnerLimits::default()).unwrap();
    let (probes, stamps) = (too_many(&definition, 1), vec![Stamp::on_time(unit); TOO_MANY as usize]);
    let entry = Entry::Events { generation: GenerationNumber::FIRST, probes, stamps };
    let moment = Moment { monotonic_ms: MonotonicMs(1), wall_ms: 1 };
    assert!(matches!(owner.restore(entry, moment), Err(PartError::Full)));
    owner.end_restore(false);
    let mut commands = Vec::new();
    owner.tick(moment);
    owner.take_commands(&mut commands);
    assert!(!commands.iter().any(|command| matches!(command, Command::Propose(Proposal::SlicesComplete { .. }))));
    let BackupCells { parts, is_complete } =
        owner.read_cells(&AskCells { slice: 0, unit: UnitNumber::FIRST, from: None }).unwrap();
    assert!(!is_complete && parts.runs.len() == 1);
}

/// A level of a filter tree has events in flight and separate records.
#[test]
fn of_a_record_of_a_level_beyond_the_room_the_events_that_find_room_are_in() {
    let definition = definition(&fingerprints(WINDOW, 20_000), "none");
    assert_eq!(definition.group.cells.geometry().unwrap().blocks(), 2, "two regions");
    let mut network = Network::new(&definition, policies(), &[FIRST], OwnerLimits::default(), TestRng(3));
    let branch = Branch {
        root: FILTER,
        parent: None,
        level: 0,
        fold: 0,
        place: "root".to_owned(),
        mode: TreeMode::Dense,
        top_down: 0,
        cut_off: CutOff::Undecided,
    };
    network.record_mut().branch = Some(branch);
    let mut owner = GroupOwner::build(FILTER, network.map(), 0, FIRST, OwnerLimits::default()).unwrap();
    let ProbeShape::Spread { cells, .. } = network.mesh.prober(FILTER).shape() else { panic!() };
    // The record has too many events for the first region, followed by one event of the second region.
    let is_of_second = |key: &u64| network.probes(&[digest(*key)]).positions(0)[0] >= cells / 2;
    let last = (0..).find(is_of_second).unwrap();
    let (mut positions, mut rng, time_ms) = (PositionLists::default(), TestRng(1), network.now().wall_ms);
    (0..TOO_MANY).for_each(|_| positions.push([rng.below(cells / 2)]));
    positions.push(network.probes(&[digest(last)]).positions(0).iter().copied());
    let firstseen_filter::Unit::Milliseconds(unit_ms) = definition.group.unit else { panic!() };
    let unit = UnitNumber(time_ms / unit_ms);
    let stamps = vec![Stamp::on_time(unit); positions.len()];
    let record = Entry::Set { generation: GenerationNumber::FIRST, cells: positions, stamps, counted: 0 };
    assert!(matches!(owner.restore(record, network.now()), Err(PartError::Full)));
    owner.end_restore(true);
    network.mesh.owners_mut().insert(instance(0, FIRST), owner);
    let times = Times { base_unit: unit, ticks: Vec::new(), clock_ms: Some(time_ms), ttl_ms: None };
    let question = Submission { operation: Operation::Lookup, times, ..observation(1) };
    network.submit_at(instance(0, FIRST), &[digest(last)], question);
    assert_eq!(network.replies.last().unwrap().answers.decisions(), [Decision::Duplicate]);
}
