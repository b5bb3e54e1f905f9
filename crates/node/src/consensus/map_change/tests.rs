//! Tests that each change of a cluster map produces the expected log lines.

use firstseen_routing::{Epoch, FilterPolicies, Incarnation, NodeRecord, SliceCopy, SliceOwner};

use super::*;
use crate::sample_map::{self, FILTER, node};

fn check(changes: &[fn(&mut ClusterMap)], expected: &[&[MapChange<'static>]]) {
    // The cluster has three nodes, and a filter with two slices on two of them.
    let mut before = sample_map::map("horizontal:2", 3, FilterPolicies::default());
    for (change, expected) in changes.iter().zip(expected) {
        let mut after = before.clone();
        change(&mut after);
        assert_eq!(news(&before, &after), **expected);
        before = after;
    }
    assert_eq!(changes.len(), expected.len());
}

fn of(map: &mut ClusterMap) -> &mut FilterRecord {
    map.filters.get_mut(&FILTER).expect("the filter")
}

fn node_of(map: &mut ClusterMap, id: u64) -> &mut NodeRecord {
    map.nodes.get_mut(&NodeId(id)).expect("the node")
}

#[test]
fn nodes_go_down_come_up_and_start_anew() {
    let down = MapChange::SlicesIncomplete { filter: "clicks", complete: 1, of: 2 };
    check(
        &[
            |map| node_of(map, 2).is_down = true,
            |map| {
                (node_of(map, 2).is_down, node_of(map, 2).incarnation) = (false, Incarnation(2));
                of(map).owners[1].complete_since = Incarnation(2);
            },
            |map| node_of(map, 1).incarnation = Incarnation(2),
            |map| drop(map.nodes.remove(&NodeId(3))),
            |map| drop(map.nodes.insert(NodeId(4), node(NodeId(4)))),
        ],
        &[
            &[MapChange::NodeDown { node: "node-2" }, down.clone()],
            &[MapChange::NodeUp { node: "node-2", starts: 2 }, MapChange::SlicesComplete { filter: "clicks", of: 2 }],
            &[MapChange::NodeUp { node: "node-1", starts: 2 }, down],
            &[MapChange::NodeLeft { node: "node-3" }],
            &[MapChange::NodeJoined { node: "node-4" }],
        ],
    );
}

#[test]
fn slices_move_and_arrive_or_stay() {
    fn begin(map: &mut ClusterMap) {
        let owner = SliceOwner { node: NodeId(3), ..SliceOwner::default() };
        let copy = SliceCopy { slice: 1, owner, replaces: Some(NodeId(2)), since_epoch: Epoch(2) };
        of(map).copies.push(copy);
    }
    let moved = MovedSlices { filter: "clicks", from: "node-2", to: "node-3", slices: 1 };
    check(
        &[
            begin,
            |map| of(map).copies.clear(),
            begin,
            |map| {
                of(map).copies.clear();
                of(map).owners[1] =
                    SliceOwner { node: NodeId(3), complete_since: Incarnation(1), ..SliceOwner::default() };
            },
        ],
        &[
            &[MapChange::MoveBegun(moved)],
            &[MapChange::MoveGivenUp(moved)],
            &[MapChange::MoveBegun(moved)],
            &[MapChange::MoveEnded(moved)],
        ],
    );
}

#[test]
fn filters_are_created_altered_and_dropped() {
    check(
        &[
            |map| {
                let record = FilterRecord { name: "views".to_owned(), ..of(map).clone() };
                map.filters.insert(FilterId(2), record);
            },
            |map| {
                let mut follower = of(map).clone();
                (follower.line.origin, follower.line.former) = (Some(FILTER), Some(FILTER));
                map.filters.insert(FilterId(3), follower);
                of(map).line.closed = Some(Default::default());
            },
            // The predecessor of the filter no longer counts.
            |map| drop(map.filters.remove(&FILTER)),
            |map| drop(map.filters.remove(&FilterId(2))),
        ],
        &[
            &[MapChange::FilterCreated { filter: "views" }],
            &[MapChange::FilterAltered { filter: "clicks" }],
            &[],
            &[MapChange::FilterDropped { filter: "views" }],
        ],
    );
}
