//! Compares the state with an exact model, which says which states are possible.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::{
    CellDefinition, CounterStorage, DecayRule, DecayingCells, DecayingShape, FilterSlice, FilterSpec, GenerationNumber,
    GrowthSpec, Kind, Limit,
};
use firstseen_routing::{
    ClusterId, Epoch, FilterPolicies, Incarnation, NodeRecord, SliceMove, SliceOwner, SlicedDefinition, Slicing,
};
use firstseen_wire::limits::{NAME_TEXT_BYTES_MAX, NODES_MAX};
use proptest::prelude::*;

use super::*;
use crate::asked_by::AskedBy;
use crate::change::{Change, NewFilter, NodeProfile};
use crate::command::Command;
use crate::placement::{slice_bytes, used_bytes};

const CLUSTER: ClusterId = ClusterId([5; 16]);

pub(crate) fn definition(kind: Kind, events: u64, slicing: &str) -> SlicedDefinition {
    let window = if matches!(kind, Kind::Bloom | Kind::Stable) { "unbounded" } else { "1h" };
    let spec = FilterSpec { capacity_events: Some(events), ..FilterSpec::new(kind, window.parse().unwrap()) };
    SlicedDefinition::new(&spec, slicing.parse().unwrap()).unwrap()
}

pub(crate) fn profile(number: u64, memory_bytes: u64) -> NodeProfile {
    NodeProfile { name: format!("n{number}"), site: "s".into(), address: format!("h{number}:1"), memory_bytes }
}

pub(crate) fn filter(name: &str, definition: SlicedDefinition, if_absent: bool) -> Change {
    let (policies, secret) = (FilterPolicies::default(), SecretMaterial([9; 32]));
    Change::CreateFilter(NewFilter { name: name.into(), definition, policies, secret, if_absent, tree: None })
}

/// A cluster of `nodes` started nodes with `memory_bytes` of memory each.
pub(crate) struct Cluster {
    pub(crate) state: State,
    index: u64,
}

impl Cluster {
    pub(crate) fn new(nodes: u64, memory_bytes: u64) -> Self {
        let mut cluster = Self { state: State::default(), index: 0 };
        cluster.ask(Change::FoundCluster { cluster: CLUSTER, profile: profile(1, memory_bytes) }).unwrap();
        for number in 2..=nodes {
            cluster.ask(Change::AddNode { profile: profile(number, memory_bytes) }).unwrap();
        }
        (1..=nodes).for_each(|number| drop(cluster.start(number, memory_bytes)));
        cluster
    }

    pub(crate) fn ask(&mut self, change: Change) -> Result<Outcome, Refusal> {
        self.index += 1;
        self.state.apply(self.index, Command::new(u128::from(self.index).to_le_bytes(), change))
    }

    pub(crate) fn ask_by(&mut self, asked_by: AskedBy, change: Change) -> Result<Outcome, Refusal> {
        self.index += 1;
        let id = u128::from(self.index).to_le_bytes();
        self.state.apply(self.index, Command { id, asked_by: Some(asked_by), change })
    }

    pub(crate) fn start(&mut self, number: u64, memory_bytes: u64) -> Result<Outcome, Refusal> {
        let NodeProfile { address, site, .. } = profile(number, 0);
        self.ask(Change::NodeStarted { node: NodeId(number), address, site, memory_bytes })
    }

    fn owners(&self, name: &str) -> Vec<u64> {
        let (_, record) = self.state.map.filter_named(name).unwrap();
        record.owners.iter().map(|owner| owner.node.0).collect()
    }
}

#[test]
fn nothing_happens_before_a_cluster_is_founded() {
    let mut state = State::default();
    let id = [1; 16];
    let early = state.apply(1, Command::new(id, Change::AddNode { profile: profile(1, 1) }));
    assert_eq!(early, Err(Refusal::NotFounded));
    assert_eq!(state.map.version, 0);
}

#[test]
fn a_name_or_an_address_is_taken_by_one_living_node() {
    let mut cluster = Cluster::new(2, 1 << 20);
    let same_name = NodeProfile { address: "other:1".into(), ..profile(2, 1) };
    let refused = cluster.ask(Change::AddNode { profile: same_name.clone() }).unwrap_err();
    assert_eq!(refused, Refusal::NameTaken { name: "n2".into(), node: NodeId(2) });
    let same_address = NodeProfile { name: "other".into(), ..profile(2, 1) };
    let refused = cluster.ask(Change::AddNode { profile: same_address }).unwrap_err();
    assert_eq!(refused, Refusal::AddressTaken { address: "h2:1".into(), node: NodeId(2) });
    cluster.ask(Change::RemoveNode { node: NodeId(2) }).unwrap();
    assert!(cluster.state.has_left(NodeId(2)) && !cluster.state.has_left(NodeId(3)));
    assert_eq!(cluster.ask(Change::AddNode { profile: same_name }), Ok(Outcome::NodeAdded(NodeId(3))));
    let empty = NodeProfile { name: String::new(), ..profile(4, 1) };
    assert!(cluster.ask(Change::AddNode { profile: empty }).unwrap_err().to_string().contains("give one"));
}

#[test]
fn every_start_counts_once() {
    let mut cluster = Cluster::new(1, 1);
    assert_eq!(cluster.start(1, 1), Ok(Outcome::NodeStarted(Incarnation(2))));
    let NodeProfile { address, site, .. } = profile(1, 0);
    let change = Change::NodeStarted { node: NodeId(1), address, site, memory_bytes: 1 };
    let again = Command::new([8; 16], change);
    for index in [100, 101] {
        assert_eq!(cluster.state.apply(index, again.clone()), Ok(Outcome::NodeStarted(Incarnation(3))));
        assert_eq!(cluster.state.map.version, 100, "a repeated command changes nothing");
    }
}

/// Returns the definition as older versions wrote it, which did not store the requested parameters.
fn without_asked(definition: &SlicedDefinition) -> SlicedDefinition {
    let mut json = serde_json::to_value(definition).unwrap();
    let asked = json["group"]["cells"].as_object_mut().unwrap().remove("asked");
    assert!(asked.is_some(), "{definition:?}");
    serde_json::from_value(json).unwrap()
}

#[test]
fn a_filter_is_there_whichever_flags_asked_for_its_cells() {
    let asked = |ticks, lateness_ms| {
        let spec = FilterSpec::new(Kind::Cuckoo, "24h".parse().unwrap());
        let spec = FilterSpec { capacity_events: Some(1000), ticks, lateness_ms: Some(lateness_ms), ..spec };
        SlicedDefinition::new(&spec, Slicing::NONE).unwrap()
    };
    let [made, again] = [asked(Some(12), 3_600_000), asked(Some(12), 7_200_000)];
    let mut cluster = Cluster::new(1, 1 << 30);
    cluster.ask(filter("a", without_asked(&made), false)).unwrap();
    for same in [made.clone(), again] {
        let there = cluster.ask(filter("a", same.clone(), true)).unwrap();
        assert!(matches!(there, Outcome::FilterCreated { existed: true, .. }), "{there:?}");
        let refused = cluster.ask(filter("a", same, false)).unwrap_err();
        assert_eq!(refused, Refusal::FilterExists { name: "a".into() });
    }
    let other = cluster.ask(filter("a", asked(Some(12), 7_200_001), true)).unwrap_err();
    assert!(matches!(&other, Refusal::FilterDiffers { differs, .. } if differs == "definition"), "{other}");
    let (_, record) = cluster.state.map.filter_named("a").unwrap();
    assert_eq!(record.definition, without_asked(&made), "it stays as it was made");
}

#[test]
fn slices_of_a_group_lie_on_as_many_nodes_as_there_are() {
    let mut cluster = Cluster::new(3, 1 << 30);
    cluster.ask(filter("a", definition(Kind::Timing, 10_000, "horizontal:4"), false)).unwrap();
    assert_eq!(cluster.owners("a"), [1, 2, 3, 1]);
    cluster.ask(filter("b", definition(Kind::Timing, 10_000, "horizontal:2"), false)).unwrap();
    assert_eq!(cluster.owners("b"), [2, 3], "node 1 has more bytes");
    cluster.ask(filter("c", definition(Kind::Bloom, 10_000, "horizontal-vertical:3x3"), false)).unwrap();
    for group in cluster.owners("c").chunks(3) {
        assert_eq!(group.iter().collect::<BTreeSet<_>>().len(), 3, "{group:?}");
    }
}

#[test]
fn a_filter_is_made_once_under_its_name() {
    let mut cluster = Cluster::new(1, 1 << 30);
    let wanted = definition(Kind::Bloom, 1000, "none");
    let made = cluster.ask(filter("a", wanted.clone(), false)).unwrap();
    let Outcome::FilterCreated { filter: number, existed: false } = made else { panic!("{made:?}") };
    assert!(cluster.state.secrets.contains_key(&number));
    let version = cluster.state.map.version;
    let again = cluster.ask(filter("a", wanted.clone(), true));
    assert_eq!(again, Ok(Outcome::FilterCreated { filter: number, existed: true }));
    assert_eq!(cluster.state.map.version, version);
    let refused = cluster.ask(filter("a", wanted.clone(), false)).unwrap_err();
    assert_eq!(refused, Refusal::FilterExists { name: "a".into() });
    let refused = cluster.ask(filter("a", definition(Kind::Bloom, 2000, "none"), true)).unwrap_err();
    assert!(matches!(refused, Refusal::FilterDiffers { .. }), "{refused}");
    cluster.ask(Change::DropFilter { name: "a".into() }).unwrap();
    assert!(cluster.state.secrets.is_empty());
    let made = cluster.ask(filter("a", wanted, false)).unwrap();
    assert!(matches!(made, Outcome::FilterCreated { filter, .. } if filter > number), "{made:?}");
    assert!(cluster.ask(Change::DropFilter { name: "b".into() }).unwrap_err().to_string().contains("no filter `b`"));
}

#[test]
fn what_lacks_is_said() {
    let wanted = definition(Kind::Timing, 100_000, "horizontal:4");
    let bytes = slice_bytes(&wanted).unwrap();
    let mut cluster = Cluster::new(2, bytes + bytes / 2);
    let refused = cluster.ask(filter("a", wanted.clone(), false)).unwrap_err();
    let expected = Refusal::Memory {
        name: "a".into(),
        needed_bytes: 4 * bytes,
        slice_bytes: bytes,
        lacking_bytes: 2 * bytes,
        free_bytes: 2 * (bytes + bytes / 2),
    };
    assert_eq!(refused, expected);
    for number in 1..=2 {
        cluster.start(number, 2 * bytes).unwrap();
    }
    cluster.ask(filter("a", wanted, false)).unwrap();
    let refused = cluster.ask(Change::RemoveNode { node: NodeId(2) }).unwrap_err();
    assert_eq!(refused, Refusal::NodeOwnsSlices { node: NodeId(2), filters: vec!["a".into()] });
}

#[test]
fn the_map_never_outgrows_a_message() {
    let mut cluster = Cluster::new(2, 1 << 50);
    let wanted = definition(Kind::Bloom, 1 << 20, "horizontal:4096");
    let mut created = 0;
    let refused = loop {
        match cluster.ask(filter(&format!("f{created}"), wanted.clone(), false)) {
            Ok(_) => created += 1,
            Err(refused) => break refused,
        }
    };
    assert!(matches!(refused, Refusal::MapFull { slices: 4096, .. }) && created >= 15, "{created}: {refused}");
    assert!(refused.to_string().contains("use fewer slices, or drop filters"), "{refused}");
    // The size limit holds regardless of what happens to the nodes and how many of them join.
    let mut map = (*cluster.state.map).clone();
    for record in map.filters.values_mut() {
        record.epoch = Epoch(u64::MAX);
        record.generations = vec![GenerationNumber(u64::MAX); record.definition.slicing.groups() as usize];
        let last =
            SliceOwner { node: NodeId(u64::MAX), complete_since: Incarnation(u64::MAX), ..SliceOwner::default() };
        record.owners.fill(last);
    }
    let text = "x".repeat(NAME_TEXT_BYTES_MAX);
    let node = NodeRecord {
        name: text.clone(),
        site: text.clone(),
        address: text,
        incarnation: Incarnation(u64::MAX),
        memory_bytes: u64::MAX,
        voter: true,
        is_down: false,
    };
    let ids = (0..NODES_MAX as u64).map(|number| NodeId(u64::MAX - number));
    map.nodes = ids.map(|id| (id, node.clone())).collect();
    let bytes = firstseen_wire::map::map_bytes(&map);
    let least = firstseen_wire::limits::MAP_FILTERS_BYTES_MAX * 9 / 10;
    assert!((least..firstseen_wire::limits::MESSAGE_BYTES_MAX).contains(&bytes), "{bytes} bytes");
    // Small filters fit until the memory is used up, and a dropped filter releases its memory.
    cluster.ask(filter("small", definition(Kind::Bloom, 1000, "none"), false)).unwrap();
    cluster.ask(Change::DropFilter { name: "f0".into() }).unwrap();
    cluster.ask(filter("again", wanted, false)).unwrap();
}

#[test]
fn generations_open_one_by_one() {
    let mut cluster = Cluster::new(1, 1 << 30);
    cluster.ask(filter("a", definition(Kind::Timing, 1000, "horizontal:2"), false)).unwrap();
    let (number, record) =
        cluster.state.map.filter_named("a").map(|(number, record)| (number, record.clone())).unwrap();
    let open = |group, generation| {
        let generation = GenerationNumber(generation);
        Change::OpenGeneration { filter: number, group, number: generation }
    };
    match crate::placement::generation_max(&record.definition) {
        Ok(_) => {
            assert!(cluster.ask(open(1, 2)).is_err());
            cluster.ask(open(1, 1)).unwrap();
            assert!(cluster.ask(open(1, 1)).is_err());
            let record = &cluster.state.map.filters[&number];
            assert_eq!(
                (record.generations.as_slice(), record.epoch),
                (&[GenerationNumber(0), GenerationNumber(1)][..], Epoch::FIRST)
            );
        }
        Err(reason) => assert!(cluster.ask(open(1, 1)).unwrap_err().to_string().contains(&reason)),
    }
    assert!(cluster.ask(open(2, 1)).unwrap_err().to_string().contains("there are 2 groups"));
}

#[test]
fn slices_that_were_read_back_are_complete_for_the_start_that_has_read_them() {
    let mut cluster = Cluster::new(2, 1 << 30);
    cluster.ask(filter("a", definition(Kind::Timing, 1000, "vertical:4"), false)).unwrap();
    let start = |cluster: &mut Cluster| {
        let (address, site) = ("again:1".to_owned(), "s".to_owned());
        let started = Change::NodeStarted { node: NodeId(1), address, site, memory_bytes: 1 << 30 };
        let Ok(Outcome::NodeStarted(incarnation)) = cluster.ask(started) else { panic!("it starts") };
        incarnation
    };
    let restored = |incarnation| Change::SlicesComplete {
        filter: FilterId(1),
        group: 0,
        slices: vec![0, 1, 2, 3],
        epoch: Epoch::FIRST,
        node: NodeId(1),
        incarnation,
    };
    let complete = |cluster: &Cluster| {
        let map = &cluster.state.map;
        let record = &map.filters[&FilterId(1)];
        (0..4).filter(|slice| map.is_complete(record, *slice)).count()
    };
    assert_eq!(complete(&cluster), 4);
    let (first, second) = (start(&mut cluster), start(&mut cluster));
    assert_eq!(complete(&cluster), 2);
    cluster.ask(restored(first)).unwrap();
    assert_eq!(complete(&cluster), 2, "what an earlier start has read went with it");
    cluster.ask(restored(second)).unwrap();
    assert_eq!(complete(&cluster), 4);
    let elsewhere = Change::SlicesComplete {
        filter: FilterId(9),
        group: 0,
        slices: vec![0],
        epoch: Epoch::FIRST,
        node: NodeId(1),
        incarnation: second,
    };
    assert!(cluster.ask(elsewhere).is_err());
    let beyond = Change::SlicesComplete {
        filter: FilterId(1),
        group: 9,
        slices: vec![0],
        epoch: Epoch::FIRST,
        node: NodeId(1),
        incarnation: second,
    };
    cluster.ask(beyond).unwrap();
}

#[test]
fn the_memory_of_outcomes_is_bounded() {
    let mut cluster = Cluster::new(1, 1);
    for _ in 0..OUTCOMES_MAX + 10 {
        cluster.ask(Change::SetVoter { node: NodeId(1), voter: true }).unwrap();
    }
    assert_eq!(cluster.state.outcomes.len(), OUTCOMES_MAX);
}

#[test]
fn a_snapshot_is_the_state() {
    let mut cluster = Cluster::new(3, 1 << 30);
    cluster.ask(filter("a", definition(Kind::Bloom, 1000, "vertical:4"), false)).unwrap();
    cluster.ask(Change::RemoveNode { node: NodeId(9) }).unwrap_err();
    let bytes = cluster.state.to_bytes().unwrap();
    assert_eq!(State::from_bytes(&bytes).unwrap(), cluster.state);
    assert!(State::from_bytes(&bytes[..bytes.len() - 3]).is_err());
}

#[test]
fn reserved_bytes_are_no_fewer_than_a_slice_takes() {
    let mut definitions = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| !kind.estimates_frequencies()) {
        for window in ["unbounded", "1h", "5000events"] {
            let window = window.parse().unwrap();
            if kind.nearest_window(&window).as_ref() == Some(&window) {
                let spec = FilterSpec { capacity_events: Some(5000), ..FilterSpec::new(kind, window) };
                definitions.push(SlicedDefinition::new(&spec, firstseen_routing::Slicing::NONE).unwrap());
            }
        }
    }
    let growth = Some(GrowthSpec { limit: Limit::Cardinality, generations_max: 4, ratio: 1.0 });
    let growing =
        FilterSpec { growth, capacity_events: Some(90_000), ..FilterSpec::new(Kind::Cuckoo, "1h".parse().unwrap()) };
    let growing = SlicedDefinition::new(&growing, firstseen_routing::Slicing::NONE).unwrap();
    assert_eq!(slice_bytes(&growing).unwrap(), 4 * FilterSlice::build(&growing.group).unwrap().bytes());
    definitions.push(growing);
    let mut frequencies = definitions[1].clone();
    for storage in [CounterStorage::Basic, CounterStorage::Extended { extensions: 700 }] {
        let lambda = 0.5;
        for rule in [DecayRule::Literal { lambda }, DecayRule::Lasting { lambda, fraction_bits: 4 }] {
            let shape = DecayingShape { cells: 1000, hashes: 4, rule, storage };
            frequencies.group.cells = CellDefinition::Decaying(DecayingCells { shape });
            definitions.push(frequencies.clone());
        }
    }
    for definition in definitions {
        let taken = FilterSlice::build(&definition.slice().unwrap()).unwrap().bytes();
        let reserved = slice_bytes(&definition).unwrap();
        assert!(taken <= reserved, "{taken} bytes taken, {reserved} reserved: {definition:?}");
    }
}

/// Returns a strategy for changes that may be proposed. Their numbers can be generated and shrunk.
fn changes() -> impl Strategy<Value = Change> {
    let slicings = ["none", "horizontal:3", "vertical:4", "horizontal-vertical:2x3"];
    prop_oneof![
        (1u64..4, 0u32..4, 1u64..6, 1u64..6).prop_map(|(filter, slice, from, to)| Change::MoveSlices {
            filter: FilterId(filter),
            moves: vec![SliceMove { slice, from: NodeId(from), to: NodeId(to) }],
        }),
        (1u64..4, 0u32..2, 0u32..4, 1u64..6, 1u64..4).prop_map(|(filter, group, slice, node, start)| {
            let (filter, node, incarnation) = (FilterId(filter), NodeId(node), Incarnation(start));
            Change::SlicesComplete { filter, group, slices: vec![slice], epoch: Epoch(u64::MAX), node, incarnation }
        }),
        (1u64..4, 0u32..2, 1u64..6, 1u64..4).prop_map(|(filter, group, node, start)| {
            let (filter, node, incarnation) = (FilterId(filter), NodeId(node), Incarnation(start));
            Change::SlicesMissing { filter, group, node, incarnation }
        }),
        (1u64..4, 0u32..2, 1u64..6, 1u64..4).prop_map(|(filter, group, node, start)| {
            let (filter, node, incarnation) = (FilterId(filter), NodeId(node), Incarnation(start));
            Change::SlicesSpared { filter, group, node, incarnation }
        }),
        (0u8..4).prop_map(|name| Change::CancelMoves { name: format!("f{name}") }),
        (1u64..9, 0u64..200_000).prop_map(|(number, memory)| Change::AddNode { profile: profile(number, memory) }),
        (1u64..9, 1u64..9, 0u64..200_000).prop_map(|(node, at, memory_bytes)| Change::NodeStarted {
            node: NodeId(node),
            address: profile(at, 0).address,
            site: "s".into(),
            memory_bytes,
        }),
        (1u64..9, any::<bool>()).prop_map(|(node, voter)| Change::SetVoter { node: NodeId(node), voter }),
        (1u64..9).prop_map(|node| Change::RemoveNode { node: NodeId(node) }),
        (0u8..4, 500u64..3000, 0usize..4, any::<bool>()).prop_map(move |(name, events, slicing, if_absent)| {
            filter(&format!("f{name}"), definition(Kind::Bloom, events, slicings[slicing]), if_absent)
        }),
        (0u8..4).prop_map(|name| Change::DropFilter { name: format!("f{name}") }),
        (1u64..9, 0u32..3, 0u64..4).prop_map(|(filter, group, number)| Change::OpenGeneration {
            filter: FilterId(filter),
            group,
            number: GenerationNumber(number),
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Tests that the state depends only on the log. Two nodes apply the same commands. The second node starts from a
    /// snapshot in the middle of the log and receives every command twice, but its map must equal that of the first
    /// node in the end.
    ///
    /// The test also checks that numbers are never assigned twice, and that every new filter fits into the memory of
    /// the nodes.
    #[test]
    fn logs_decide_everything(log in proptest::collection::vec(changes(), 1..80), middle in 0usize..80) {
        let mut cluster = Cluster::new(2, 100_000);
        let mut other = State::from_bytes(&cluster.state.to_bytes().unwrap()).unwrap();
        let (mut nodes, mut filters) = (2, 0);
        for (position, change) in log.iter().enumerate() {
            let before = cluster.state.clone();
            let outcome = cluster.ask(change.clone());
            if position == middle {
                other = State::from_bytes(&other.to_bytes().unwrap()).unwrap();
            }
            let id = u128::from(cluster.index).to_le_bytes();
            for _ in 0..2 {
                let repeated = other.apply(cluster.index, Command::new(id, change.clone()));
                prop_assert_eq!(&repeated, &outcome);
            }
            prop_assert_eq!(&other, &cluster.state);
            match &outcome {
                Ok(Outcome::NodeAdded(node)) => {
                    prop_assert!(node.0 > nodes, "node {} was given before", node);
                    nodes = node.0;
                }
                Ok(Outcome::FilterCreated { filter, existed: false }) => {
                    prop_assert!(filter.0 > filters, "filter {} was given before", filter);
                    filters = filter.0;
                    let used = used_bytes(&cluster.state.map);
                    for owner in &cluster.state.map.filters[filter].owners {
                        let memory = cluster.state.map.nodes[&owner.node].memory_bytes;
                        prop_assert!(used[&owner.node] <= memory, "node {}: {} of {}", owner.node, used[&owner.node], memory);
                    }
                }
                Err(_) => prop_assert_eq!(&before.map, &cluster.state.map, "a refusal changes nothing"),
                _ => {}
            }
            let changed = before.map != cluster.state.map;
            let expected = if changed { cluster.index } else { before.map.version };
            prop_assert!(cluster.state.map.version == expected || cluster.state.map.version == cluster.index);
            let names: BTreeMap<_, _> = cluster.state.map.nodes.values().map(|node| (&node.name, &node.address)).collect();
            prop_assert_eq!(names.len(), cluster.state.map.nodes.len(), "names are unique");
        }
    }
}
