//! Tests of plans: balanced nodes have about the same number of copies, and drained nodes have none.

use std::collections::{BTreeMap, BTreeSet};

use firstseen_filter::Kind;
use firstseen_routing::{Epoch, FilterId, FilterPolicies, FilterRecord, Incarnation, NodeId};
use proptest::prelude::*;

use super::plan_moves;
use crate::change::{Change, NewFilter};
use crate::state::tests::{Cluster, definition, filter};

fn with_copies(name: &str, slicing: &str, copies: u32) -> Change {
    let Change::CreateFilter(asked) = filter(name, definition(Kind::Bloom, 1000, slicing), false) else {
        unreachable!("a filter is created")
    };
    Change::CreateFilter(NewFilter { policies: FilterPolicies { copies, ..FilterPolicies::default() }, ..asked })
}

/// Returns the number of copies on each node after all moves have arrived.
fn counts(record: &FilterRecord) -> BTreeMap<NodeId, u32> {
    let gone: BTreeSet<(u32, NodeId)> = record.moves().map(|way| (way.slice, way.from)).collect();
    let mut counts = BTreeMap::new();
    for (_, copy) in record.all_copies().filter(|(slice, copy)| !gone.contains(&(*slice, copy.node))) {
        *counts.entry(copy.node).or_default() += 1;
    }
    counts
}

fn execute(cluster: &mut Cluster, drained: &BTreeSet<NodeId>) {
    for (filter, moves) in plan_moves(cluster.state.map(), drained).unwrap() {
        cluster.ask(Change::MoveSlices { filter, moves }).unwrap();
    }
}

fn arrive(cluster: &mut Cluster, filter: FilterId) {
    let map = cluster.state.map().clone();
    let record = &map.filters[&filter];
    let per_group = record.definition.slicing.slices_per_group();
    for way in record.moves() {
        let incarnation = map.nodes[&way.to].incarnation;
        let (group, slices) = (way.slice / per_group, vec![way.slice % per_group]);
        cluster
            .ask(Change::SlicesComplete { filter, group, slices, epoch: Epoch(u64::MAX), node: way.to, incarnation })
            .unwrap();
    }
}

#[test]
fn a_new_node_gets_its_share_and_a_drained_one_nothing() {
    let mut cluster = Cluster::new(2, 1 << 30);
    cluster.ask(filter("v", definition(Kind::Bloom, 1000, "vertical:9"), false)).unwrap();
    cluster.ask(with_copies("c", "horizontal:6", 1)).unwrap();
    assert_eq!(plan_moves(cluster.state.map(), &BTreeSet::new()).unwrap(), [], "all is even");
    cluster.ask(Change::AddNode { profile: crate::state::tests::profile(3, 1 << 30) }).unwrap();
    assert_eq!(plan_moves(cluster.state.map(), &BTreeSet::new()).unwrap(), [], "it has not started");
    cluster.start(3, 1 << 30).unwrap();
    execute(&mut cluster, &BTreeSet::new());
    assert_eq!(plan_moves(cluster.state.map(), &BTreeSet::new()).unwrap(), [], "what moves counts as there");
    let even = |cluster: &Cluster, filter| counts(&cluster.state.map().filters[&FilterId(filter)]);
    assert_eq!(even(&cluster, 1).into_values().collect::<Vec<_>>(), [3, 3, 3]);
    assert_eq!(even(&cluster, 2).into_values().collect::<Vec<_>>(), [4, 4, 4]);
    arrive(&mut cluster, FilterId(1));
    arrive(&mut cluster, FilterId(2));
    let drained = BTreeSet::from([NodeId(1)]);
    execute(&mut cluster, &drained);
    arrive(&mut cluster, FilterId(1));
    arrive(&mut cluster, FilterId(2));
    assert!(!even(&cluster, 1).contains_key(&NodeId(1)) && !even(&cluster, 2).contains_key(&NodeId(1)));
    cluster.ask(Change::RemoveNode { node: NodeId(1) }).unwrap();
}

#[test]
fn nodes_that_are_down_are_given_nothing() {
    let cluster = Cluster::new(3, 1 << 30);
    let mut map = (**cluster.state.map()).clone();
    map.nodes.get_mut(&NodeId(2)).unwrap().is_down = true;
    let definition = definition(Kind::Timing, 1000, "vertical:6");
    let (owners, copies) = crate::placement::owners(&map, "c", &definition, &[], 1).unwrap();
    assert!(owners.iter().chain(copies.iter().map(|copy| &copy.owner)).all(|owner| owner.node != NodeId(2)));
    assert_eq!((owners.len(), copies.len()), (6, 6));
    assert!(crate::placement::owners(&map, "c", &definition, &[], 2).is_err(), "two nodes are up");
}

#[test]
fn what_may_never_arrive_does_not_set_out() {
    let mut cluster = Cluster::new(2, 1 << 30);
    cluster.ask(filter("v", definition(Kind::Bloom, 1000, "vertical:6"), false)).unwrap();
    cluster.start(1, 1 << 30).unwrap();
    cluster.ask(Change::AddNode { profile: crate::state::tests::profile(3, 1 << 30) }).unwrap();
    cluster.start(3, 1 << 30).unwrap();
    let plan = plan_moves(cluster.state.map(), &BTreeSet::new()).unwrap();
    let moves: Vec<NodeId> = plan.iter().flat_map(|(_, moves)| moves).map(|way| way.from).collect();
    assert_eq!(moves, [NodeId(2)], "what node 1 has lost nobody has");
    let refused = plan_moves(cluster.state.map(), &BTreeSet::from([NodeId(1)])).unwrap_err().to_string();
    assert!(refused.contains("filter forgive"), "{refused}");
    let mut map = (**cluster.state.map()).clone();
    map.nodes.get_mut(&NodeId(1)).unwrap().is_down = true;
    let plan = plan_moves(&map, &BTreeSet::from([NodeId(1)])).unwrap();
    assert_eq!(
        plan.iter().map(|(_, moves)| moves.len()).sum::<usize>(),
        3,
        "what is down cannot be forgiven where it is"
    );
}

#[test]
fn what_finds_no_place_is_told() {
    let mut cluster = Cluster::new(2, 1 << 30);
    cluster.ask(with_copies("c", "horizontal:6", 1)).unwrap();
    let refusal = plan_moves(cluster.state.map(), &BTreeSet::from([NodeId(1)])).unwrap_err().to_string();
    assert!(refusal.contains("every other node that is up has a copy of slice 0"), "{refusal}");
    assert!(refusal.contains("add a node"), "{refusal}");
    cluster.ask(filter("s", definition(Kind::Stable, 1000, "none"), false)).unwrap();
    cluster.ask(Change::DropFilter { name: "c".into() }).unwrap();
    let refusal = plan_moves(cluster.state.map(), &BTreeSet::from([NodeId(1)])).unwrap_err().to_string();
    assert!(refusal.contains("its kind cannot be moved"), "{refusal}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Tests that for any map the plan can be executed. Afterwards the nodes are balanced, unless there is not enough
    /// memory.
    #[test]
    fn plans_can_be_carried_out_and_end_even(
        (before, joined) in (1u64..5, 0u64..4),
        kinds in proptest::collection::vec((0usize..4, 0u32..3), 1..4),
        leaves in proptest::option::of(1u64..5),
    ) {
        let slicings = ["none", "horizontal:7", "vertical:12", "horizontal-vertical:3x4"];
        let mut cluster = Cluster::new(before, 1 << 30);
        for (number, (slicing, copies)) in kinds.into_iter().enumerate() {
            let copies = copies.min(before as u32 - 1);
            cluster.ask(with_copies(&format!("f{number}"), slicings[slicing], copies)).unwrap();
        }
        for number in before + 1..=before + joined {
            cluster.ask(Change::AddNode { profile: crate::state::tests::profile(number, 1 << 30) }).unwrap();
            cluster.start(number, 1 << 30).unwrap();
        }
        let drained: BTreeSet<NodeId> = leaves.filter(|node| *node <= before).map(NodeId).into_iter().collect();
        // Only one copy of a slice is moved at a time, so several rounds may be necessary.
        for round in 0.. {
            let Ok(plan) = plan_moves(cluster.state.map(), &drained) else {
                prop_assert!(joined == 0, "a node that has joined has room");
                return Ok(());
            };
            if plan.is_empty() {
                break;
            }
            prop_assert!(round < 3, "it comes to an end: {:?}", plan);
            for (filter, moves) in plan {
                let outcome = cluster.ask(Change::MoveSlices { filter, moves });
                prop_assert!(outcome.is_ok(), "{:?}", outcome);
                arrive(&mut cluster, filter);
            }
        }
        let map = cluster.state.map().clone();
        for record in map.filters.values() {
            let counts = counts(record);
            let rooms = map.nodes.keys().filter(|node| !drained.contains(node));
            let counts: Vec<u32> = rooms.map(|node| counts.get(node).copied().unwrap_or(0)).collect();
            let is_even = counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1;
            prop_assert!(is_even || !drained.is_empty(), "{:?}", counts);
        }
        let stays = |record: &FilterRecord| {
            record.moves().count() == 0 && record.all_copies().all(|(slice, copy)| {
                let has_slice = record.copies_of(slice).filter(|other| other.node == copy.node).count() == 1;
                has_slice && !drained.contains(&copy.node) && copy.complete_since != Incarnation::default()
            })
        };
        prop_assert!(map.filters.values().all(stays));
    }
}
