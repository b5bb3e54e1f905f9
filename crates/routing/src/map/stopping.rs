//! Determines the obstacles to stopping a node. An obstacle is data that would be lost when the process of the node
//! ends, or a task that the remaining nodes could not perform without the node.
//!
//! The obstacles are computed from the cluster map and from the set of nodes that can be reached. For example, a slice
//! is not an obstacle if its filter has a journal on disk, or if another node that is up has a complete copy of the
//! slice.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::cluster_map::{ClusterMap, FilterRecord, SliceOwner};
use super::tree::CutOff;
use crate::ids::{FilterId, NodeId};

/// Reason not to stop a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Some slices of a filter would lose their cells.
    Loss {
        /// Filter of the slices.
        filter: FilterId,
        /// Numbers of the slices, in ascending order.
        slices: Vec<u32>,
        /// Reason for the loss.
        why: Loss,
    },
    /// A filter was altered, and the node has not yet reported that it has no more events in flight from before the
    /// alteration.
    Alteration {
        /// Filter that was closed by the alteration.
        filter: FilterId,
    },
    /// The node's Redis endpoint still has to confirm claims, and nodes that may have to record the events are
    /// unavailable.
    Unconfirmed {
        /// Number of claims.
        claims: u64,
        /// Nodes that are unavailable.
        away: BTreeSet<NodeId>,
    },
    /// The node has decided events without the parent level of a filter tree, has not reported them yet, and would
    /// forget them.
    Owed {
        /// Filter of the level.
        filter: FilterId,
        /// Number of events.
        events: u64,
        /// Reason why the node would forget them.
        why: Forgets,
    },
    /// The node does not answer whether it has such events to report, although levels of filter trees on it may decide
    /// events alone.
    OwedUnknown,
    /// The other voters are not a majority.
    Majority {
        /// Number of voters.
        voters: usize,
        /// Number of voters that are up without this node.
        left: usize,
    },
}

/// Reason why slices would lose their cells with the process of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// No other node has copies of the slices.
    OnlyCopy,
    /// These nodes have copies, but are still fetching the cells that they lack.
    Fetching(BTreeSet<NodeId>),
    /// These nodes have copies, but are marked down or unreachable.
    Away(BTreeSet<NodeId>),
    /// No copy is complete. A copy becomes complete again after some time, and a restart would begin that time again.
    Incomplete,
}

/// Reason why a node would forget events that it has decided without the parent level of a filter tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forgets {
    /// The filter keeps no journal.
    InMemory,
    /// The slices of the events have moved to another node, so that the node does not restore them.
    Moved,
}

impl Obstacle {
    /// Returns whether events would be lost. The other obstacles only make a service unavailable for some time.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Loss { .. } | Self::Owed { .. } | Self::OwedUnknown | Self::Unconfirmed { .. })
    }

    /// Returns whether the obstacle may disappear if the operator waits.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Loss { why, .. } => *why != Loss::OnlyCopy,
            Self::Alteration { .. } | Self::Owed { .. } | Self::OwedUnknown | Self::Unconfirmed { .. } => true,
            Self::Majority { voters, .. } => voters - 1 > voters / 2,
        }
    }
}

/// Returns the obstacles to stopping `node`. `is_reached` tells which of the nodes that are not marked down can be
/// reached.
pub fn obstacles(map: &ClusterMap, node: NodeId, is_reached: impl Fn(NodeId) -> bool) -> Vec<Obstacle> {
    // The node has already stopped.
    if map.is_down(node) {
        return Vec::new();
    }
    let mut found = losses(map, node, &is_reached);
    let awaits =
        |record: &FilterRecord| record.line.closed.as_ref().is_some_and(|closed| closed.awaited.contains(&node));
    let altered = map.filters.iter().filter(|(_, record)| awaits(record));
    found.extend(altered.map(|(filter, _)| Obstacle::Alteration { filter: *filter }));
    let voters: Vec<NodeId> = map.nodes.iter().filter(|(_, record)| record.voter).map(|(node, _)| *node).collect();
    let left = voters.iter().filter(|voter| **voter != node && !map.is_down(**voter) && is_reached(**voter)).count();
    if voters.contains(&node) && left <= voters.len() / 2 {
        found.push(Obstacle::Majority { voters: voters.len(), left });
    }
    found
}

/// Returns an obstacle if stopping the node could lose claims of its Redis endpoint. When a node stops, its Redis
/// endpoint confirms the open claims at the nodes that granted them. This fails if one of these nodes is unavailable.
/// An obstacle therefore exists if there are open claims (`claims` is more than 0) while another node is down or cannot
/// be reached.
pub fn unconfirmed(
    map: &ClusterMap,
    node: NodeId,
    claims: u64,
    is_reached: impl Fn(NodeId) -> bool,
) -> Option<Obstacle> {
    let others = map.nodes.keys().copied().filter(|other| *other != node);
    let away: BTreeSet<NodeId> = others.filter(|other| map.is_down(*other) || !is_reached(*other)).collect();
    (claims > 0 && !away.is_empty() && !map.is_down(node)).then_some(Obstacle::Unconfirmed { claims, away })
}

/// Returns whether levels of filter trees on a node may decide events without their parent levels.
pub fn may_owe(map: &ClusterMap) -> bool {
    map.filters.values().any(|record| record.branch.as_ref().is_some_and(|branch| branch.cut_off == CutOff::Local))
}

/// Returns an obstacle if a node would forget events that it has decided without the parent level of a filter tree.
/// `events` is their number, and `moved` is the number of those whose slices have left the node.
pub fn owed(map: &ClusterMap, filter: FilterId, events: u64, moved: u64) -> Option<Obstacle> {
    let is_restored = map.filters.get(&filter).is_some_and(|record| record.policies.durability.keeps_journal());
    if events > 0 && !is_restored {
        return Some(Obstacle::Owed { filter, events, why: Forgets::InMemory });
    }
    (moved > 0).then_some(Obstacle::Owed { filter, events: moved, why: Forgets::Moved })
}

/// Returns the slices that would be lost with the process of `node`, one entry for each filter and reason.
pub fn losses(map: &ClusterMap, node: NodeId, is_reached: impl Fn(NodeId) -> bool) -> Vec<Obstacle> {
    let mut found = Vec::new();
    for (filter, record) in map.filters.iter().filter(|(_, record)| may_lose(record)) {
        let mut slices: BTreeMap<Loss, Vec<u32>> = BTreeMap::new();
        for (slice, own) in record.all_copies().filter(|(_, copy)| copy.node == node && !map.is_gone(copy)) {
            if let Some(why) = loss(map, record, slice, own, &is_reached) {
                slices.entry(why).or_default().push(slice);
            }
        }
        found.extend(slices.into_iter().map(|(why, mut slices)| {
            slices.sort_unstable();
            Obstacle::Loss { filter: *filter, slices, why }
        }));
    }
    found
}

/// Returns whether events can be lost when a process that has slices of the filter ends. A filter with a journal does
/// not lose events, because its cells are restored from the journal. A filter below the root of a tree does not lose
/// events either, because the root also knows all of them.
fn may_lose(record: &FilterRecord) -> bool {
    !record.policies.durability.keeps_journal() && record.branch.as_ref().is_none_or(|branch| branch.is_root())
}

/// Returns why slice `slice`, of which the node has the copy `own`, would be lost. `None` means that the slice would
/// not be lost.
fn loss(
    map: &ClusterMap,
    record: &FilterRecord,
    slice: u32,
    own: &SliceOwner,
    is_reached: impl Fn(NodeId) -> bool,
) -> Option<Loss> {
    let others: Vec<&SliceOwner> = record.copies_of(slice).filter(|copy| copy.node != own.node).collect();
    let up = others.iter().filter(|copy| !map.is_gone(copy) && is_reached(copy.node));
    if up.clone().any(|copy| map.is_complete_copy(copy)) {
        return None;
    }
    let up: BTreeSet<NodeId> = up.map(|copy| copy.node).collect();
    let complete_away: BTreeSet<NodeId> =
        others.iter().filter(|copy| map.is_complete_copy(copy)).map(|copy| copy.node).collect();
    let is_whole = map.is_complete_copy(own);
    // While a slice moves to this node, its source still has it.
    if !is_whole && record.arriving_since(slice, own.node).is_some() {
        return None;
    }
    Some(match () {
        () if !is_whole && complete_away.is_empty() => Loss::Incomplete,
        () if !is_whole => Loss::Away(complete_away),
        () if !up.is_empty() => Loss::Fetching(up),
        () if others.is_empty() => Loss::OnlyCopy,
        () => Loss::Away(others.iter().map(|copy| copy.node).collect()),
    })
}

/// Formats numbers of slices as ranges, for example `0, 3-5`.
pub fn ranges(slices: &[u32]) -> String {
    let mut text = String::new();
    for run in slices.chunk_by(|one, next| one + 1 == *next) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = match run.len() {
            1 => write!(text, "{comma}{first}"),
            _ => write!(text, "{comma}{first}-{last}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};

    use super::*;
    use crate::ids::{Epoch, Incarnation};
    use crate::map::{Closed, Durability, FilterHistory, FilterPolicies, NodeRecord, SliceCopy};
    use crate::plan::SlicedDefinition;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);
    const C: NodeId = NodeId(3);
    const FILTER: FilterId = FilterId(7);

    fn owner(node: NodeId) -> SliceOwner {
        SliceOwner { node, complete_since: Incarnation(1), ..SliceOwner::default() }
    }

    fn node(name: &str) -> NodeRecord {
        NodeRecord {
            name: name.to_owned(),
            site: String::new(),
            address: String::new(),
            incarnation: Incarnation(1),
            memory_bytes: 0,
            voter: true,
            is_down: false,
        }
    }

    /// Returns a map with three slices on three nodes, and with these further copies.
    fn map(copies: &[(u32, NodeId)]) -> ClusterMap {
        let spec =
            FilterSpec { capacity_events: Some(100), ..FilterSpec::new(Kind::Timing, "1h".parse().expect("a window")) };
        let slicing = "horizontal:3".parse().expect("a slicing");
        let copy =
            |(slice, node): &(u32, NodeId)| SliceCopy { slice: *slice, owner: owner(*node), ..SliceCopy::default() };
        let record = FilterRecord {
            name: "clicks".to_owned(),
            epoch: Epoch::FIRST,
            definition: SlicedDefinition::new(&spec, slicing).expect("a definition"),
            policies: FilterPolicies::default(),
            owners: [A, B, C].map(owner).to_vec(),
            copies: copies.iter().map(copy).collect(),
            generations: Vec::new(),
            branch: None,
            line: FilterHistory::default(),
        };
        let nodes = [(A, node("a")), (B, node("b")), (C, node("c"))];
        ClusterMap { nodes: nodes.into(), filters: [(FILTER, record)].into(), ..ClusterMap::default() }
    }

    fn change(map: &mut ClusterMap, change: impl FnOnce(&mut FilterRecord)) {
        change(map.filters.get_mut(&FILTER).expect("the filter"));
    }

    fn lost(map: &ClusterMap) -> Vec<Obstacle> {
        obstacles(map, A, |_| true)
    }

    fn loses(slices: &[u32], why: Loss) -> Vec<Obstacle> {
        vec![Obstacle::Loss { filter: FILTER, slices: slices.to_vec(), why }]
    }

    #[test]
    fn the_only_copy_is_lost_and_waiting_does_not_help() {
        let mut map = map(&[]);
        assert_eq!(lost(&map), loses(&[0], Loss::OnlyCopy));
        assert!(!lost(&map)[0].may_pass() && lost(&map)[0].is_loss());
        change(&mut map, |record| record.policies.durability = Durability::Durable);
        assert_eq!(lost(&map), [], "it is on the disk");
        change(&mut map, |record| record.policies.durability = Durability::Interval { interval_ms: 1 });
        assert_eq!(lost(&map), [], "and so it is after a stop in order");
    }

    #[test]
    fn a_copy_counts_once_it_has_everything_and_while_it_can_be_reached() {
        let mut map = map(&[(0, B), (1, A)]);
        assert_eq!(lost(&map), []);
        assert_eq!(obstacles(&map, A, |node| node != B)[0], loses(&[0, 1], Loss::Away([B].into()))[0]);
        map.nodes.get_mut(&B).expect("b").incarnation = Incarnation(2);
        assert_eq!(lost(&map), loses(&[0, 1], Loss::Fetching([B].into())));
        assert!(lost(&map)[0].may_pass());
        map.nodes.get_mut(&B).expect("b").is_down = true;
        assert_eq!(lost(&map)[0], loses(&[0, 1], Loss::Away([B].into()))[0]);
        // The copy on node A is now incomplete, too.
        map.nodes.get_mut(&B).expect("b").is_down = false;
        map.nodes.get_mut(&A).expect("a").incarnation = Incarnation(2);
        assert_eq!(lost(&map), loses(&[0, 1], Loss::Incomplete));
        change(&mut map, |record| record.copies[0].owner.complete_since = Incarnation(2));
        change(&mut map, |record| record.owners[1].complete_since = Incarnation(2));
        assert_eq!(lost(&map), [], "what it fetches is elsewhere");
    }

    #[test]
    fn what_the_others_need_it_for_is_named() {
        let mut map = map(&[(0, B)]);
        let closed = Closed { awaited: [A].into(), ..Closed::default() };
        change(&mut map, |record| record.line.closed = Some(closed));
        assert_eq!(lost(&map), [Obstacle::Alteration { filter: FILTER }]);
        map.nodes.get_mut(&C).expect("c").is_down = true;
        assert_eq!(lost(&map)[1], Obstacle::Majority { voters: 3, left: 1 });
        assert!(lost(&map)[1].may_pass() && !lost(&map)[1].is_loss());
        map.nodes.remove(&C);
        assert!(!lost(&map)[1].may_pass(), "two nodes are never a majority without one of them");
        map.nodes.get_mut(&A).expect("a").is_down = true;
        assert_eq!(lost(&map), [], "it is stopped already");
    }

    /// Regression test: a node was stopped while its Redis endpoint could not confirm its claims, because another node
    /// was unavailable. The unconfirmed claims were lost. As a result, 127 of 600 keys that clients had already
    /// processed were reported as new again.
    #[test]
    fn claims_are_lost_that_the_endpoint_cannot_confirm_at_the_stop() {
        let mut map = map(&[]);
        assert_eq!(unconfirmed(&map, A, 600, |_| true), None, "all nodes answer");
        let away = Obstacle::Unconfirmed { claims: 600, away: [B].into() };
        assert_eq!(unconfirmed(&map, A, 600, |node| node != B), Some(away.clone()));
        assert_eq!(unconfirmed(&map, A, 0, |node| node != B), None);
        map.nodes.get_mut(&B).expect("b").is_down = true;
        assert_eq!(unconfirmed(&map, A, 600, |_| true), Some(away.clone()));
        assert!(away.is_loss() && away.may_pass());
    }

    #[test]
    fn events_that_were_decided_alone_are_lost_unless_the_node_restores_them() {
        let mut map = map(&[]);
        assert_eq!(owed(&map, FILTER, 0, 0), None);
        let in_memory = Obstacle::Owed { filter: FILTER, events: 7, why: Forgets::InMemory };
        assert_eq!(owed(&map, FILTER, 7, 2), Some(in_memory.clone()));
        assert!(in_memory.is_loss() && in_memory.may_pass());
        change(&mut map, |record| record.policies.durability = Durability::Durable);
        assert_eq!(owed(&map, FILTER, 7, 0), None, "the next process reports them");
        let moved = Obstacle::Owed { filter: FILTER, events: 2, why: Forgets::Moved };
        assert_eq!(owed(&map, FILTER, 7, 2), Some(moved), "the next process has no slices of theirs");
    }

    #[test]
    fn slices_are_told_in_ranges() {
        assert_eq!(ranges(&[0, 3, 4, 5, 9]), "0, 3-5, 9");
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[u32::MAX]), u32::MAX.to_string());
    }
}
