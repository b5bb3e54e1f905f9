//! Tests of slices that are being moved, and of their arrival.

use std::collections::BTreeMap;

use firstseen_filter::Kind;
use firstseen_routing::{Epoch, FilterId, FilterRecord, Incarnation, NodeId, SliceMove};

use crate::change::Change;
use crate::command::Outcome;
use crate::placement::used_bytes;
use crate::refusal::Refusal;
use crate::state::tests::{Cluster, definition, filter};

const FILTER: FilterId = FilterId(1);

fn cluster(nodes: u64, slicing: &str) -> Cluster {
    let mut cluster = Cluster::new(nodes, 1 << 30);
    cluster.ask(filter("a", definition(Kind::Bloom, 1000, slicing), false)).unwrap();
    cluster
}

fn record(cluster: &Cluster) -> &FilterRecord {
    &cluster.state.map().filters[&FILTER]
}

fn way(slice: u32, from: u64, to: u64) -> SliceMove {
    SliceMove { slice, from: NodeId(from), to: NodeId(to) }
}

fn begin(cluster: &mut Cluster, moves: Vec<SliceMove>) -> Result<Outcome, Refusal> {
    cluster.ask(Change::MoveSlices { filter: FILTER, moves })
}

fn complete(cluster: &mut Cluster, slices: Vec<u32>, node: u64, start: u64) {
    let (node, incarnation) = (NodeId(node), Incarnation(start));
    let epoch = record(cluster).epoch;
    cluster.ask(Change::SlicesComplete { filter: FILTER, group: 0, slices, epoch, node, incarnation }).unwrap();
}

fn asked(cluster: &Cluster) -> Vec<u64> {
    let map = cluster.state.map();
    let record = record(cluster);
    (0..record.owners.len() as u32).map(|slice| map.asked(record, slice).unwrap().node.0).collect()
}

#[test]
fn a_slice_takes_the_place_of_the_other_once_it_is_complete() {
    let mut cluster = cluster(2, "vertical:4");
    assert_eq!(asked(&cluster), [1, 2, 1, 2]);
    let before = used_bytes(cluster.state.map());
    begin(&mut cluster, vec![way(0, 1, 2)]).unwrap();
    assert_eq!(
        (asked(&cluster), record(&cluster).epoch),
        (vec![1, 2, 1, 2], Epoch(2)),
        "it is set from the next epoch on"
    );
    assert!(used_bytes(cluster.state.map())[&NodeId(2)] > before[&NodeId(2)]);
    complete(&mut cluster, vec![1, 3], 2, 1);
    assert_eq!(asked(&cluster), [1, 2, 1, 2], "others were meant");
    complete(&mut cluster, vec![0], 2, 9);
    assert_eq!(asked(&cluster), [1, 2, 1, 2], "another start was meant");
    complete(&mut cluster, vec![0], 2, 1);
    assert_eq!((asked(&cluster), record(&cluster).epoch), (vec![2, 2, 1, 2], Epoch(3)));
    assert!(record(&cluster).copies.is_empty() && record(&cluster).owners.iter().all(|owner| !owner.has_gap));
}

#[test]
fn what_cannot_move_is_refused_as_a_whole() {
    let mut cluster = cluster(3, "vertical:4");
    let mut refused = |moves: Vec<SliceMove>, needle: &str| {
        let before = cluster.state.map().clone();
        let refusal = begin(&mut cluster, moves).unwrap_err().to_string();
        assert!(refusal.contains(needle), "{refusal}");
        assert_eq!(&before, cluster.state.map());
    };
    refused(vec![way(0, 1, 2), way(1, 1, 3)], "does not have slice 1");
    refused(vec![way(0, 1, 1)], "has slice 0 already");
    refused(vec![way(0, 1, 9)], "node 9 is not in the cluster");
    refused(vec![way(7, 1, 2)], "does not have slice 7");
    refused(vec![way(0, 1, 2), way(0, 1, 3)], "is already being moved");
    cluster.ask(filter("c", definition(Kind::Stable, 1000, "none"), false)).unwrap();
    let moves = vec![way(0, 1, 2)];
    let refusal = cluster.ask(Change::MoveSlices { filter: FilterId(2), moves }).unwrap_err();
    assert!(refusal.to_string().contains("its kind cannot be moved"), "{refusal}");
}

#[test]
fn a_node_gets_no_more_than_it_has_memory_for() {
    let mut cluster = cluster(2, "vertical:4");
    let used = used_bytes(cluster.state.map())[&NodeId(2)];
    cluster.start(2, used + used / 2).unwrap();
    let refusal = begin(&mut cluster, vec![way(0, 1, 2), way(2, 1, 2)]).unwrap_err();
    assert!(refusal.to_string().contains("bytes left for slice 2"), "{refusal}");
    begin(&mut cluster, vec![way(0, 1, 2)]).unwrap();
}

#[test]
fn moves_can_be_given_up() {
    let mut cluster = cluster(2, "vertical:4");
    let before = record(&cluster).clone();
    begin(&mut cluster, vec![way(0, 1, 2), way(2, 1, 2)]).unwrap();
    cluster.ask(Change::CancelMoves { name: "a".into() }).unwrap();
    assert_eq!(record(&cluster), &FilterRecord { epoch: Epoch(3), ..before });
    complete(&mut cluster, vec![0, 2], 2, 1);
    assert_eq!(asked(&cluster), [1, 2, 1, 2], "it comes too late");
}

#[test]
fn what_is_told_of_a_move_that_was_given_up_is_not_of_the_next() {
    let mut cluster = cluster(2, "vertical:4");
    begin(&mut cluster, vec![way(0, 1, 2)]).unwrap();
    let epoch = record(&cluster).epoch;
    let (node, incarnation) = (NodeId(2), Incarnation(1));
    let late = Change::SlicesComplete { filter: FILTER, group: 0, slices: vec![0], epoch, node, incarnation };
    cluster.ask(Change::CancelMoves { name: "a".into() }).unwrap();
    begin(&mut cluster, vec![way(0, 1, 2)]).unwrap();
    cluster.ask(late).unwrap();
    assert_eq!((asked(&cluster), record(&cluster).moves().count()), (vec![1, 2, 1, 2], 1));
    complete(&mut cluster, vec![0], 2, 1);
    assert_eq!((asked(&cluster), record(&cluster).moves().count()), (vec![2, 2, 1, 2], 0));
}

/// Tests a move whose target node restarts before the slice has arrived. After the restart, the node must fetch the
/// slice again. The test also checks what happens if an operator accepts the losses of the filter during the move: the
/// copies on both nodes must then count as complete.
#[test]
fn an_arrival_survives_restarts_and_forgiving_settles_it() {
    let mut cluster = cluster(2, "vertical:4");
    begin(&mut cluster, vec![way(0, 1, 2)]).unwrap();
    cluster.start(2, 1 << 30).unwrap();
    complete(&mut cluster, vec![0], 2, 1);
    assert_eq!(asked(&cluster), [1, 2, 1, 2], "what the first start had is gone");
    cluster.start(1, 1 << 30).unwrap();
    assert_eq!(record(&cluster).moves().count(), 1);
    cluster.ask(Change::ForgiveFilter { name: "a".into(), ended: BTreeMap::new() }).unwrap();
    assert_eq!(asked(&cluster), [2, 2, 1, 2]);
    assert_eq!(record(&cluster).moves().count(), 0);
}

#[test]
fn slices_that_cannot_be_held_are_as_on_a_node_that_is_down() {
    let mut cluster = cluster(2, "vertical:4");
    let missing =
        |start| Change::SlicesMissing { filter: FILTER, group: 0, node: NodeId(2), incarnation: Incarnation(start) };
    cluster.ask(missing(9)).unwrap();
    assert_eq!(record(&cluster).epoch, Epoch(1), "another start says nothing");
    cluster.ask(missing(1)).unwrap();
    let (map, filter) = (cluster.state.map().clone(), record(&cluster).clone());
    assert!(map.is_gone_from(&filter, 0, NodeId(2)) && !map.is_gone_from(&filter, 0, NodeId(1)));
    assert!(!map.is_complete(&filter, 1) && filter.epoch == Epoch(2));
    complete(&mut cluster, vec![1, 3], 2, 1);
    cluster.ask(Change::ForgiveFilter { name: "a".into(), ended: BTreeMap::new() }).unwrap();
    assert!(!cluster.state.map().is_complete(record(&cluster), 1), "it has nothing that could be complete");
    let refusal = begin(&mut cluster, vec![way(0, 1, 2)]).unwrap_err();
    assert!(refusal.to_string().contains("cannot hold"), "{refusal}");
    cluster.start(2, 1 << 30).unwrap();
    assert!(!cluster.state.map().is_gone_from(record(&cluster), 0, NodeId(2)) && record(&cluster).epoch == Epoch(3));
}

#[test]
fn who_has_the_last_copies_is_not_spared() {
    let spared =
        |node| Change::SlicesSpared { filter: FILTER, group: 0, node: NodeId(node), incarnation: Incarnation(1) };
    let are_gone =
        |cluster: &Cluster| [1, 2].map(|node| cluster.state.map().is_gone_from(record(cluster), 0, NodeId(node)));
    for (copies, left) in [(0, [false; 2]), (1, [true, false])] {
        let mut cluster = Cluster::new(2, 1 << 30);
        let mut asked = filter("a", definition(Kind::Bloom, 1000, "none"), false);
        let Change::CreateFilter(new) = &mut asked else { panic!("{asked:?}") };
        new.policies.copies = copies;
        cluster.ask(asked).unwrap();
        let slices = record(&cluster).all_copies().count();
        assert_eq!(slices, 1 + copies as usize);
        cluster.ask(spared(1)).unwrap();
        assert_eq!(are_gone(&cluster), left, "{copies} copies");
        cluster.ask(spared(2)).unwrap();
        assert_eq!(are_gone(&cluster), left, "{copies} copies: nobody else has it");
    }
}

/// Tests a node that could not hold its slice for a while. If no other node can record events, the node has missed
/// nothing.
#[test]
fn the_only_copy_of_a_slice_misses_nothing_while_it_cannot_be_held() {
    for (slicing, has_gap) in [("none", false), ("vertical:4", true)] {
        let mut cluster = cluster(2, slicing);
        let node = record(&cluster).owners[0].node;
        let missing = Change::SlicesMissing { filter: FILTER, group: 0, node, incarnation: Incarnation(1) };
        cluster.ask(missing).unwrap();
        let filter = record(&cluster);
        assert!(cluster.state.map().is_gone_from(filter, 0, node), "{slicing}");
        assert_eq!(filter.owners[0].has_gap, has_gap, "{slicing}");
    }
}
