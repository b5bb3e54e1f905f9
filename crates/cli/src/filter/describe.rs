//! `firstseen filter describe`: a filter by the map, and each of its slices by its owner.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::Write;

use firstseen_filter::{Unit, UnitNumber};
use firstseen_routing::{ClusterMap, FilterId, FilterRecord, NodeId};
use firstseen_wire::proto::admin::{InspectFilterReply, SliceState};

use super::description::{Description, Fares, Former, Owner, Slice, Tree};
use super::{DescribeArgs, find, text};
use crate::cluster;
use crate::cluster::claims::{self, Claims, claims_of, inspect};
use crate::cluster::connect::Operator;
use crate::cluster::places;

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
    // Events that were claimed in the former filter are confirmed there.
    let former_claims = match map.former_of(number) {
        Some((_, former)) => claims::of_filter(operator, &map, former).await,
        None => None,
    };
    let description = description(&map, (number, filter), &replies, former_claims);
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&description)?)?
    } else {
        out.write_all(text::describe(&description).as_bytes())?
    }
    Ok(())
}

fn description<'a>(
    map: &'a ClusterMap,
    (number, filter): (FilterId, &'a FilterRecord),
    replies: &BTreeMap<NodeId, anyhow::Result<InspectFilterReply>>,
    former_claims: Option<Claims>,
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
        former: map.former_of(number).map(|(number, record)| former(map, (number, record), former_claims)),
        followed_by: filter.line.closed.as_ref().map(|closed| closed.successor),
        slices: slices.collect(),
        nodes: nodes.collect(),
    }
}

fn former<'a>(
    map: &'a ClusterMap,
    (number, record): (FilterId, &'a FilterRecord),
    claims: Option<Claims>,
) -> Former<'a> {
    let name = |node: NodeId| map.nodes.get(&node).map_or("?", |node| node.name.as_str());
    let closed = record.line.closed.clone().unwrap_or_default();
    Former {
        name: &record.name,
        number,
        awaited: closed.awaited.iter().map(|node| name(*node)).collect(),
        expires_ms: match record.definition.group.unit {
            // Where no event was recorded, none expires.
            Unit::Milliseconds(unit_ms) if closed.newest_unit > UnitNumber::FIRST => {
                record.passes_at_unit().and_then(|unit| unit.0.checked_mul(unit_ms))
            }
            _ => None,
        },
        claims,
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
