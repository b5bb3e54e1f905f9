//! `firstseen filter describe`: what the map says of a filter, and what each owner says of its slices.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;
use std::time::Duration;

use firstseen_filter::Unit;
use firstseen_routing::{ClusterMap, FilterId, FilterPolicies, FilterRecord, NodeId, SlicedDefinition, TreeMode};
use firstseen_wire::proto::admin::{InspectFilterReply, InspectFilterRequest, SliceState};
use serde::Serialize;

use super::{DescribeArgs, find, text};
use crate::cluster;
use crate::cluster::connect::Operator;
use crate::cluster::places::{self, Place};

/// How long a node may take to say how its slices fare.
const PATIENCE: Duration = Duration::from_secs(4);

/// A filter, and how it fares.
#[derive(Debug, Serialize)]
pub(super) struct Description<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    pub(super) epoch: u64,
    pub(super) definition: &'a SlicedDefinition,
    pub(super) policies: FilterPolicies,
    /// Nothing where it is in no tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tree: Option<Tree<'a>>,
    /// The one that it has followed, while that is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) former: Option<Former<'a>>,
    /// The one that has followed it.
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
    /// All of them, each below its parent.
    pub(super) places: Vec<Place<'a>>,
}

/// A filter that was altered, and is asked first.
#[derive(Debug, Serialize)]
pub(super) struct Former<'a> {
    pub(super) name: &'a str,
    pub(super) number: FilterId,
    /// Nodes that may still have events in flight that began before; new events wait for them.
    pub(super) awaited: Vec<&'a str>,
    /// When all that it has has expired, in milliseconds since 1970 by its clock; nothing where that is not known yet, or no
    /// matter of counting.
    pub(super) expires_ms: Option<u64>,
    /// Nodes that have not said so.
    pub(super) not_passed: Vec<&'a str>,
}

/// A slice, and how it fares.
#[derive(Debug, Serialize)]
pub(super) struct Slice<'a> {
    pub(super) slice: u32,
    /// 0 for the first copy.
    pub(super) copy: usize,
    /// Whether this copy answers; the others are set, too.
    pub(super) asked: bool,
    pub(super) node: &'a str,
    /// The start of its node since which it has had everything; another start lost what came before it.
    pub(super) complete_since: u64,
    /// The newest start of its node.
    pub(super) node_start: u64,
    /// As the map says.
    pub(super) complete: bool,
    /// Its node is down: it is neither asked nor set.
    pub(super) down: bool,
    /// Its node cannot hold it, and is to be started again: the same.
    pub(super) missing: bool,
    /// It is on its way here from this node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) moves_from: Option<&'a str>,
    /// Nothing where its node does not answer, or does not have it.
    pub(super) state: Option<Fares>,
}

/// How a slice fares, as its owner says.
#[derive(Debug, Serialize)]
pub(super) struct Fares {
    pub(super) ready: bool,
    pub(super) bytes: u64,
    pub(super) generations: u32,
    /// Nothing where the slice does not count them.
    pub(super) live_events: Option<u64>,
    /// The share of cells that are set, where it says how full the slice is.
    pub(super) fill: Option<f64>,
    pub(super) expected_rate: f64,
    /// When the slice is complete again, in milliseconds since 1970 by the filter's clock; nothing where it is, or where that
    /// is not known.
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
    /// Why it says nothing.
    pub(super) error: Option<String>,
    pub(super) guard_bytes: u64,
    /// What a second of the retry horizon takes.
    pub(super) guard_bytes_per_horizon_second: f64,
}

/// Runs `firstseen filter describe`.
pub(super) async fn run(args: &DescribeArgs, operator: &Operator, out: &mut dyn Write) -> anyhow::Result<()> {
    let map = cluster::status(operator).await?.map;
    let (number, filter) = find(&map, &args.name)?;
    let mut replies = BTreeMap::new();
    for (_, owner) in filter.all_copies() {
        if let Entry::Vacant(vacant) = replies.entry(owner.node) {
            vacant.insert(inspect(operator, &map, owner.node, &args.name).await);
        }
    }
    let description = description(&map, number, filter, &replies);
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&description)?)?
    } else {
        out.write_all(text::describe(&description).as_bytes())?
    }
    Ok(())
}

async fn inspect(
    operator: &Operator,
    map: &ClusterMap,
    node: NodeId,
    name: &str,
) -> anyhow::Result<InspectFilterReply> {
    let Some(node) = map.nodes.get(&node) else { anyhow::bail!("it is no member any more") };
    let request = InspectFilterRequest { name: name.to_owned() };
    let node = operator.at(&node.address).within(PATIENCE);
    node.call(async |mut client| client.inspect_filter(request.clone()).await).await
}

fn description<'a>(
    map: &'a ClusterMap,
    number: FilterId,
    filter: &'a FilterRecord,
    replies: &BTreeMap<NodeId, anyhow::Result<InspectFilterReply>>,
) -> Description<'a> {
    let node_name = |node: NodeId| map.nodes.get(&node).map_or("?", |node| node.name.as_str());
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
            node: node_name(owner.node),
            complete_since: owner.complete_since.0,
            node_start: map.nodes.get(&owner.node).map_or(0, |node| node.incarnation.0),
            complete: map.is_complete_copy(owner),
            down: map.is_down(owner.node),
            missing: !map.is_down(owner.node) && map.is_gone(owner),
            moves_from: moves.get(&(slice, owner.node)).map(|from| node_name(*from)),
            state: state.map(Fares::of),
        }
    });
    let nodes = replies.iter().map(|(node, reply)| Owner {
        node: node_name(*node),
        address: map.nodes.get(node).map_or("", |node| node.address.as_str()),
        error: reply.as_ref().err().map(|error| format!("{error:#}")),
        guard_bytes: reply.as_ref().map_or(0, |reply| reply.guard_bytes),
        guard_bytes_per_horizon_second: reply.as_ref().map_or(0.0, |reply| reply.guard_bytes_per_horizon_second),
    });
    Description {
        name: &filter.name,
        number,
        epoch: filter.epoch,
        definition: &filter.definition,
        policies: filter.policies,
        tree: filter.branch.as_ref().map(|branch| Tree {
            mode: branch.mode,
            place: &branch.place,
            places: places::places(map, branch.root),
        }),
        former: map.former_of(number).map(|(number, record)| former(map, number, record)),
        followed_by: filter.line.closed.as_ref().map(|closed| closed.successor),
        slices: slices.collect(),
        nodes: nodes.collect(),
    }
}

fn former<'a>(map: &'a ClusterMap, number: FilterId, record: &'a FilterRecord) -> Former<'a> {
    let name = |node: NodeId| map.nodes.get(&node).map_or("?", |node| node.name.as_str());
    let closed = record.line.closed.clone().unwrap_or_default();
    Former {
        name: &record.name,
        number,
        awaited: closed.awaited.iter().map(|node| name(*node)).collect(),
        expires_ms: match record.definition.group.unit {
            // Where nothing was recorded, nothing expires.
            Unit::Milliseconds(unit_ms) if closed.newest_unit > 0 => {
                record.passes_at_unit().and_then(|unit| unit.checked_mul(unit_ms))
            }
            _ => None,
        },
        not_passed: record.nodes().difference(&closed.passed).map(|node| name(*node)).collect(),
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
