//! What stands against stopping a node: what would be lost with its process, and what the others could not do without it.
//!
//! Promises: the answer follows from the map and from which nodes can be reached, and from nothing else; a slice whose
//! filter has a journal, or that has another complete copy at a node that is up, is not lost. Must not know: how the
//! map is agreed on, how a node stops.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::cluster_map::{ClusterMap, FilterRecord, SliceOwner};
use crate::ids::{FilterId, NodeId};

/// A reason not to stop a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Cells of slices of a filter would be lost.
    Loss {
        /// The filter.
        filter: FilterId,
        /// Its slices, by rising number.
        slices: Vec<u32>,
        /// Why.
        why: Loss,
    },
    /// A filter was altered, and the node has not reported yet that no event from before is in flight there.
    Alteration {
        /// The filter that was closed.
        filter: FilterId,
    },
    /// The node's door has still to confirm claims, and nodes are away that may have to record their events.
    Unconfirmed {
        /// How many claims.
        claims: u64,
        /// The nodes.
        away: BTreeSet<NodeId>,
    },
    /// The other voters are no majority.
    Majority {
        /// Nodes that vote.
        voters: usize,
        /// Of these, those that are up without the node.
        left: usize,
    },
}

/// Why slices would lose their cells with the process of a node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loss {
    /// No other node has copies of them.
    OnlyCopy,
    /// These nodes have copies, and are fetching the cells that they lack.
    Fetching(BTreeSet<NodeId>),
    /// These nodes have copies, and are down or out of reach.
    Away(BTreeSet<NodeId>),
    /// No copy is complete: the time until they would be complete again has not passed, and would begin anew.
    Incomplete,
}

impl Obstacle {
    /// Whether events would be lost, and not only a service be missing for a while.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Loss { .. } | Self::Unconfirmed { .. })
    }

    /// Whether the reason may pass if one waits.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Loss { why, .. } => *why != Loss::OnlyCopy,
            Self::Alteration { .. } | Self::Unconfirmed { .. } => true,
            Self::Majority { voters, .. } => voters - 1 > voters / 2,
        }
    }
}

/// What stands against stopping `node`; `is_reached` says which of the nodes that are not down can be reached.
pub fn obstacles(map: &ClusterMap, node: NodeId, is_reached: impl Fn(NodeId) -> bool) -> Vec<Obstacle> {
    // The node is stopped already.
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

/// Returns the obstacle to stopping `node` if its door has `claims` left to confirm and not all nodes can be reached. A stopping node
/// confirms its claims, and loses those whose nodes do not answer.
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

/// The slices that would be lost with the process of `node`, filter by filter.
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

/// Whether a slice's cells go with its process. Levels of a tree below the root lose nothing that the root does not
/// know.
fn may_lose(record: &FilterRecord) -> bool {
    !record.policies.durability.keeps_journal() && record.branch.as_ref().is_none_or(|branch| branch.is_root())
}

/// Why slice `slice`, of which the node has the copy `own`, would be lost; none where it would not.
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
    // A slice on its way here is still where it comes from.
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

/// Numbers of slices for people: `0, 3-5`.
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
    use crate::map::{Closed, Durability, FilterPolicies, Line, NodeRecord, SliceCopy};
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

    /// Three slices on three nodes, with these further copies.
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
            line: Line::default(),
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
        // Now this one lacks everything, too.
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

    /// 127 of 600 keys that clients had been told they may process were new again: a node was stopped while the door could not confirm
    /// them, as another node was away.
    #[test]
    fn claims_are_lost_that_the_door_cannot_confirm_at_the_stop() {
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
    fn slices_are_told_in_ranges() {
        assert_eq!(ranges(&[0, 3, 4, 5, 9]), "0, 3-5, 9");
        assert_eq!(ranges(&[]), "");
        assert_eq!(ranges(&[u32::MAX]), u32::MAX.to_string());
    }
}
