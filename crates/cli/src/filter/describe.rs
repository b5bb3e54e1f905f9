//! `firstseen filter describe`: a filter by the map, and each of its slices by its owner.
//!
//! [`Description`] is the JSON document, and the text is written from it. This module must not depend on how the text looks.

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

/// A filter, and how it fares.
#[derive(Debug, Serialize)]
pub(super) struct Description<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    pub(super) epoch: u64,
    pub(super) definition: &'a SlicedDefinition,
    pub(super) policies: FilterPolicies,
    /// None where the filter is in no tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tree: Option<Tree<'a>>,
    /// The filter that it follows, while that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<Former<'a>>,
    /// The filter that follows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) followed_by: Option<FilterId>,
    pub(super) slices: Vec<Slice<'a>>,
    pub(super) nodes: Vec<Owner<'a>>,
}

/// The tree of a filter.
#[derive(Debug, Serialize)]
pub(super) struct Tree<'a> {
    pub(super) mode: TreeMode,
    /// The place of the filter that is described.
    pub(super) place: &'a str,
    /// All places of the tree, each below its parent.
    pub(super) places: Vec<Place<'a>>,
}

/// A former filter, which an alteration has closed, and which is asked first.
#[derive(Debug, Serialize)]
pub(super) struct Former<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    /// Nodes that may still have events in flight from before the alteration; new events wait for them.
    pub(super) awaited: Vec<&'a str>,
    /// When the last of its events expires, in milliseconds since 1970 by its clock. `None` if that is not known yet, or if
    /// its window is not measured in time.
    pub(super) expires_ms: Option<u64>,
    /// Nodes that have not yet confirmed that all have expired.
    pub(super) not_passed: Vec<&'a str>,
    /// Claims that its nodes still hold, summed over the nodes that answered. `None` if the filter has no claims.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Claims>,
}

/// A slice and its state.
#[derive(Debug, Serialize)]
pub(super) struct Slice<'a> {
    pub(super) slice: u32,
    /// 0 for the first copy.
    pub(super) copy: usize,
    /// Whether this copy is asked; the other copies are set as well.
    pub(super) asked: bool,
    pub(super) node: &'a str,
    /// The start of its node from which on it has had every event; an earlier start lost its events.
    pub(super) complete_since: u64,
    /// The newest start of its node.
    pub(super) node_start: u64,
    /// Whether the map counts it as complete.
    pub(super) complete: bool,
    /// Its node is down: it is neither asked nor set.
    pub(super) down: bool,
    /// Its node cannot hold it, and has to be started again; meanwhile it is neither asked nor set.
    pub(super) missing: bool,
    /// The node from which its cells are on their way here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moves_from: Option<&'a str>,
    /// `None` if its node does not answer, or does not have the slice.
    pub(super) state: Option<Fares>,
}

/// The state of a slice, as its owner reports it.
#[derive(Debug, Serialize)]
pub(super) struct Fares {
    pub(super) ready: bool,
    pub(super) bytes: u64,
    pub(super) generations: u32,
    /// `None` if the slice does not count its events.
    pub(super) live_events: Option<u64>,
    /// Share of cells that are set, for kinds whose fill is measured by it.
    pub(super) fill: Option<f64>,
    pub(super) expected_rate: f64,
    /// When the slice becomes complete again, in milliseconds since 1970 by the filter's clock. `None` if it is complete,
    /// or if that is not known.
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
    /// The memory that one second of the retry horizon takes.
    pub(super) guard_bytes_per_horizon_second: f64,
    /// None where events cannot be claimed, or the node does not answer.
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
    // Events that were claimed in the former filter are confirmed there.
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
            state: state.map(Fares::of),
        }
    });
    let nodes = replies.iter().map(|(node, reply)| Owner {
        node: map.node_name(*node),
        address: map.nodes.get(node).map_or("", |node| node.address.as_str()),
        error: reply.as_ref().err().map(|error| format!("{error:#}")),
        guard_bytes: reply.as_ref().map_or(0, |reply| reply.guard_bytes),
        guard_bytes_per_horizon_second: reply.as_ref().map_or(0.0, |reply| reply.guard_bytes_per_horizon_second),
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
            // Where no event was recorded, none expires.
            Unit::Milliseconds(unit_ms) if closed.newest_unit > UnitNumber::FIRST => {
                record.passes_at_unit().and_then(|unit| unit.0.checked_mul(unit_ms))
            }
            _ => None,
        },
        claims,
        not_passed: record.nodes().difference(&closed.passed).map(|node| map.node_name(*node)).collect(),
    }
}

impl Fares {
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
