//! Tests that one node of a cluster can continue alone.

use std::collections::BTreeMap;

use firstseen_filter::Kind;
use firstseen_routing::Incarnation;

use super::*;
use crate::change::{Change, NodeProfile};
use crate::command::Outcome;
use crate::refusal::Refusal;
use crate::state::tests::{Cluster, definition, filter, profile};

const NEW: ClusterId = ClusterId([9; 16]);
const INDEX: u64 = UNSEEN_MAX + 100;

fn identity(node: u64) -> Identity {
    let cluster = ClusterId([5; 16]);
    Identity { cluster, node: NodeId(node), founder: node == 1, journal: cluster }
}

fn recovered(cluster: &Cluster, node: u64) -> (State, Recovery) {
    alone(&cluster.state, identity(node), NEW, INDEX).unwrap()
}

#[test]
fn who_has_no_slices_is_gone_and_who_has_some_can_be_drained() {
    let mut cluster = Cluster::new(4, 1 << 30);
    cluster.ask(filter("flat", definition(Kind::Timing, 1000, "horizontal:3"), false)).unwrap();
    cluster.ask(filter("cut", definition(Kind::Timing, 1000, "vertical:3"), false)).unwrap();
    let before = cluster.state.clone();
    let on_four = before.map.filters.values().any(|record| record.is_on(NodeId(4)));
    let (state, recovery) = recovered(&cluster, 2);
    let map = &state.map;
    assert_eq!((map.cluster, map.version), (NEW, INDEX));
    assert!(map.nodes[&NodeId(2)].voter && !map.nodes[&NodeId(2)].is_down);
    assert_eq!((recovery.name.as_str(), recovery.former), ("n2", ClusterId([5; 16])));
    for (node, record) in map.nodes.iter().filter(|(node, _)| **node != NodeId(2)) {
        assert!(record.is_down && !record.voter && record.name == format!("lost-{node}"), "{record:?}");
        assert!(map.filters.values().any(|filter| filter.is_on(*node)), "it has slices");
    }
    assert_eq!(map.nodes.contains_key(&NodeId(4)), on_four);
    assert_eq!(recovery.lost.len(), 3);
    for (filter, record) in &map.filters {
        assert!(record.epoch > before.map.filters[filter].epoch.after(1 << 20));
        for (slice, owner) in (0..).zip(&record.owners) {
            // The other nodes may have continued without this copy, and may have moved it elsewhere.
            assert!(owner.has_gap, "{} {slice}", record.name);
            assert!(owner.node == NodeId(2) || !map.is_complete(record, slice));
        }
    }
    let got: Vec<(&str, u32)> = recovery.filters.iter().map(|of| (of.name.as_str(), of.slices - of.lost)).collect();
    assert_eq!(got.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["flat", "cut"]);
}

#[test]
fn a_node_in_the_place_of_a_lost_one_joins_under_a_number_of_its_own_and_gets_the_slices() {
    let mut cluster = Cluster::new(3, 1 << 30);
    cluster.ask(filter("flat", definition(Kind::Timing, 1000, "horizontal:3"), false)).unwrap();
    let (mut state, _) = recovered(&cluster, 1);
    let mut index = INDEX;
    let mut ask = |state: &mut State, change| {
        index += 1;
        state.apply(index, crate::command::Command::new(u128::from(index).to_le_bytes(), change))
    };
    let joined = ask(&mut state, Change::AddNode { profile: profile(2, 1 << 30) });
    let Ok(Outcome::NodeAdded(new)) = joined else { panic!("{joined:?}") };
    assert!(new.0 > 3 + 512, "the others may have given numbers that are not known here: {new}");
    let NodeProfile { address, site, .. } = profile(2, 0);
    ask(&mut state, Change::NodeStarted { node: new, address, site, memory_bytes: 1 << 30 }).unwrap();
    let drained = state.map.nodes.keys().copied().filter(|node| state.map.is_down(*node)).collect();
    for (filter, moves) in crate::plan_moves(&state.map, &drained).unwrap() {
        ask(&mut state, Change::MoveSlices { filter, moves }).unwrap();
    }
    let name = || "flat".to_owned();
    let too_early = ask(&mut state, Change::ForgiveFilter { name: name(), ended: BTreeMap::new() });
    assert!(matches!(too_early, Err(Refusal::MayRecord { .. })), "a lost node may only be cut off: {too_early:?}");
    let down = state.map.nodes.iter().filter(|(_, record)| record.is_down);
    let ended = down.map(|(node, record)| (*node, record.incarnation)).collect();
    ask(&mut state, Change::ForgiveFilter { name: name(), ended }).unwrap();
    for lost in drained {
        assert_eq!(ask(&mut state, Change::RemoveNode { node: lost }), Ok(Outcome::Done));
    }
    let record = state.map.filters.values().next().unwrap();
    assert!(
        (0..3).all(|slice| state.map.is_complete(record, slice) || record.owners[slice as usize].node == NodeId(1))
    );
}

#[test]
fn moves_to_lost_nodes_are_given_up() {
    let mut cluster = Cluster::new(2, 1 << 30);
    cluster.ask(filter("flat", definition(Kind::Timing, 1000, "horizontal:2"), false)).unwrap();
    let (filter, record) = cluster.state.map.filters.iter().next().unwrap();
    let moves = record.owners.iter().zip(0..).map(|(owner, slice)| firstseen_routing::SliceMove {
        slice,
        from: owner.node,
        to: NodeId(3 - owner.node.0),
    });
    let (filter, moves) = (*filter, moves.collect());
    cluster.ask(Change::MoveSlices { filter, moves }).unwrap();
    let (state, _) = recovered(&cluster, 1);
    let moving: Vec<_> = state.map.filters[&filter].moves().collect();
    assert!(moving.len() == 1 && moving[0].to == NodeId(1), "{moving:?}");
}

#[test]
fn who_is_alone_or_has_left_recovers_nothing() {
    let alone_already = alone(&Cluster::new(1, 1).state, identity(1), NEW, INDEX);
    assert!(matches!(alone_already, Err(RecoveryError::Alone)));
    let mut cluster = Cluster::new(2, 1);
    cluster.ask(Change::RemoveNode { node: NodeId(2) }).unwrap();
    assert!(matches!(alone(&cluster.state, identity(2), NEW, INDEX), Err(RecoveryError::Left)));
    assert_eq!(cluster.ask(Change::RemoveNode { node: NodeId(2) }), Err(Refusal::NodeUnknown { node: NodeId(2) }));
    assert!(cluster.state.map.nodes[&NodeId(1)].incarnation > Incarnation(0));
}
