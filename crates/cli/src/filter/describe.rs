//! Implements `firstseen filter describe`, which shows the definition of a filter and the state of each of its slices.
//! The definition comes from the cluster map, and the states come from the nodes that own the slices. [`Description`]
//! is serialized as the JSON document, and the text is written from it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;

use firstseen_filter::{Unit, UnitNumber};
use firstseen_routing::{ClusterMap, FilterId, FilterPolicies, FilterRecord, NodeId, SlicedDefinition, TreeMode};
use firstseen_wire::proto::admin::{InspectFilterReply, SliceState};
use serde::Serialize;

use super::{DescribeArgs, find};
use crate::cluster;
use crate::cluster::claims::{self, Claims, claims_of, inspect};
use crate::cluster::connect::Operator;
use crate::cluster::places::{self, Place};

/// A filter and its state.
#[derive(Debug, Serialize)]
pub(super) struct Description<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    pub(super) epoch: u64,
    pub(super) definition: &'a SlicedDefinition,
    pub(super) policies: FilterPolicies,
    /// Tree of the filter. `None` means that the filter is not in a tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tree: Option<Tree<'a>>,
    /// Predecessor of the filter, as long as it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<Former<'a>>,
    /// Number of the filter that replaced this filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) followed_by: Option<FilterId>,
    pub(super) slices: Vec<Slice<'a>>,
    pub(super) nodes: Vec<Owner<'a>>,
}

/// The tree that a filter belongs to.
#[derive(Debug, Serialize)]
pub(super) struct Tree<'a> {
    pub(super) mode: TreeMode,
    /// Place of the described filter.
    pub(super) place: &'a str,
    /// All places of the tree, each below its parent.
    pub(super) places: Vec<Place<'a>>,
}

/// A predecessor, which an alteration has closed. It is asked first until its events have expired.
#[derive(Debug, Serialize)]
pub(super) struct Former<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    /// Nodes that may still have in-flight events from before the alteration. New events wait for these nodes.
    pub(super) awaited: Vec<&'a str>,
    /// Time at which the last event of the predecessor expires, in milliseconds since 1970 by the clock of the
    /// predecessor. `None` means that the time is not known yet, or that the window is not measured in time.
    pub(super) expires_ms: Option<u64>,
    /// Nodes that have not yet confirmed that all events have expired.
    pub(super) not_passed: Vec<&'a str>,
    /// Claims that its nodes still hold, summed over the nodes that answered. `None` means that the filter has no
    /// claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Claims>,
}

/// A copy of a slice and its state.
#[derive(Debug, Serialize)]
pub(super) struct Slice<'a> {
    pub(super) slice: u32,
    /// Number of the copy, starting at 0.
    pub(super) copy: usize,
    /// Whether lookups ask this copy. The other copies only record events.
    pub(super) asked: bool,
    pub(super) node: &'a str,
    /// Start of its node since which the copy has had every event. The events recorded during earlier starts were lost.
    pub(super) complete_since: u64,
    /// Newest start of its node.
    pub(super) node_start: u64,
    /// Whether the cluster map lists the copy as complete.
    pub(super) complete: bool,
    /// Whether its node is down. The copy then takes part in neither lookups nor recording.
    pub(super) down: bool,
    /// Whether its node cannot hold the copy and must be restarted. Until then the copy takes part in neither lookups
    /// nor recording.
    pub(super) missing: bool,
    /// Node from which the cells are being transferred to this copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moves_from: Option<&'a str>,
    /// State of the copy. `None` means that its node does not answer, or does not have the slice.
    pub(super) state: Option<SliceHealth>,
}

/// State of a slice as its owner reports it.
#[derive(Debug, Serialize)]
pub(super) struct SliceHealth {
    pub(super) ready: bool,
    pub(super) bytes: u64,
    pub(super) generations: u32,
    /// Number of events in the slice. `None` means that the slice does not count them.
    pub(super) live_events: Option<u64>,
    /// Share of cells that are set, for kinds whose fill level is measured this way.
    pub(super) fill: Option<f64>,
    pub(super) expected_rate: f64,
    /// Time at which the slice becomes complete again, because all events that it lost have expired by then. The time
    /// is in milliseconds since 1970 by the clock of the filter. `None` means that the slice is complete, or that the
    /// time is not known.
    pub(super) complete_from_ms: Option<u64>,
    pub(super) positions_tested: u64,
    pub(super) test_visits: u64,
    pub(super) record_visits: u64,
}

/// A node that owns slices of the filter.
#[derive(Debug, Serialize)]
pub(super) struct Owner<'a> {
    pub(super) node: &'a str,
    pub(super) address: &'a str,
    /// Why the node did not answer.
    pub(super) error: Option<String>,
    pub(super) guard_bytes: u64,
    /// Memory that a node needs for each second of the retry horizon, in bytes. The retry horizon is the time for which
    /// a producer may retry a batch and get the same verdicts, so the node must remember the verdicts for this time.
    pub(super) guard_bytes_per_horizon_second: f64,
    /// The greatest event time that the node has accepted for the filter, in milliseconds since 1970. `None` if there is
    /// no such time, or if the node does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) clock_ms: Option<u64>,
    /// Claims that the node holds. `None` means that events cannot be claimed, or that the node does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Claims>,
}

/// Runs `firstseen filter describe`.
pub(super) async fn run(args: &DescribeArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let map = cluster::status::ask(operator).await?.map;
    let (number, filter) = find(&map, &args.name)?;
    let mut replies = BTreeMap::new();
    for (_, owner) in filter.all_copies() {
        if let Entry::Vacant(vacant) = replies.entry(owner.node) {
            vacant.insert(inspect(operator, &map, owner.node, &args.name).await);
        }
    }
    // Events that were claimed in the predecessor are also confirmed there.
    let former_claims = match map.former_of(number) {
        Some((_, former)) => claims::of_filter(operator, &map, former).await,
        None => None,
    };
    let description = description(&map, number, filter, &replies, former_claims);
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&description)?)?
    } else {
        out.write_all(description.text().as_bytes())?
    }
    Ok(())
}

fn description<'a>(
    map: &'a ClusterMap,
    number: FilterId,
    filter: &'a FilterRecord,
    replies: &BTreeMap<NodeId, anyhow::Result<InspectFilterReply>>,
    former_claims: Option<Claims>,
) -> Description<'a> {
    let copies = (0..filter.owners.len() as u32)
        .flat_map(|slice| filter.copies_of(slice).enumerate().map(move |(copy, owner)| (slice, copy, owner)));
    let moves: BTreeMap<(u32, NodeId), NodeId> = filter.moves().map(|way| ((way.slice, way.to), way.from)).collect();
    let slices = copies.map(|(slice, copy, owner)| {
        let reply = replies.get(&owner.node).and_then(|reply| reply.as_ref().ok());
        let state = reply.and_then(|reply| reply.slices.iter().find(|state| state.slice == slice));
        Slice {
            slice,
            copy,
            asked: map.asked(filter, slice).is_some_and(|asked| asked.node == owner.node),
            node: map.node_name(owner.node),
            complete_since: owner.complete_since.0,
            node_start: map.nodes.get(&owner.node).map_or(0, |node| node.incarnation.0),
            complete: map.is_complete_copy(owner),
            down: map.is_down(owner.node),
            missing: !map.is_down(owner.node) && map.is_gone(owner),
            moves_from: moves.get(&(slice, owner.node)).map(|from| map.node_name(*from)),
            state: state.map(SliceHealth::of),
        }
    });
    let nodes = replies.iter().map(|(node, reply)| Owner {
        node: map.node_name(*node),
        address: map.nodes.get(node).map_or("", |node| node.address.as_str()),
        error: reply.as_ref().err().map(|error| format!("{error:#}")),
        guard_bytes: reply.as_ref().map_or(0, |reply| reply.guard_bytes),
        guard_bytes_per_horizon_second: reply.as_ref().map_or(0.0, |reply| reply.guard_bytes_per_horizon_second),
        clock_ms: reply.as_ref().ok().and_then(|reply| reply.clock_ms),
        claims: reply.as_ref().ok().and_then(claims_of),
    });
    Description {
        name: &filter.name,
        number,
        epoch: filter.epoch.0,
        definition: &filter.definition,
        policies: filter.policies,
        tree: filter.branch.as_ref().map(|branch| Tree {
            mode: branch.mode,
            place: &branch.place,
            places: places::places(map, branch.root),
        }),
        former: map.former_of(number).map(|(number, record)| former(map, number, record, former_claims)),
        followed_by: filter.line.closed.as_ref().map(|closed| closed.successor),
        slices: slices.collect(),
        nodes: nodes.collect(),
    }
}

fn former<'a>(map: &'a ClusterMap, number: FilterId, record: &'a FilterRecord, claims: Option<Claims>) -> Former<'a> {
    let closed = record.line.closed.clone().unwrap_or_default();
    Former {
        name: &record.name,
        number,
        awaited: closed.awaited.iter().map(|node| map.node_name(*node)).collect(),
        expires_ms: match record.definition.group.unit {
            // A filter without recorded events has no event that could expire.
            Unit::Milliseconds(unit_ms) if closed.newest_unit > UnitNumber::FIRST => {
                record.passes_at_unit().and_then(|unit| unit.0.checked_mul(unit_ms))
            }
            _ => None,
        },
        claims,
        not_passed: record.nodes().difference(&closed.passed).map(|node| map.node_name(*node)).collect(),
    }
}

impl SliceHealth {
    fn of(state: &SliceState) -> Self {
        Self {
            ready: state.ready,
            bytes: state.bytes,
            generations: state.generations,
            live_events: (!state.live_events_unknown).then_some(state.live_events),
            fill: state.fill,
            expected_rate: state.expected_rate,
            complete_from_ms: state.complete_from_ms,
            positions_tested: state.positions_tested,
            test_visits: state.test_visits,
            record_visits: state.record_visits,
        }
    }
}
