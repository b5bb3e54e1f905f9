//! Applies changes of the cluster's nodes: nodes are added, start, become voters, and leave. A number of a node is
//! never assigned again, even after the node has left. No two nodes of the cluster have the same name or address.

use std::sync::Arc;

use firstseen_routing::{ClusterId, Format, Incarnation, NodeId, NodeRecord};
use firstseen_wire::limits::NODES_MAX;

use crate::change::NodeProfile;
use crate::command::Outcome;
use crate::names::check_text;
use crate::refusal::Refusal;
use crate::state::State;
use crate::{liveness, slots};

/// Founds the cluster with its first node.
pub(crate) fn found(
    state: &mut State,
    cluster: ClusterId,
    profile: NodeProfile,
    format: Format,
) -> Result<Outcome, Refusal> {
    if !state.map.nodes.is_empty() {
        return Err(Refusal::Founded);
    }
    let outcome = add(state, profile)?;
    let map = Arc::make_mut(&mut state.map);
    map.cluster = cluster;
    map.format = format;
    map.nodes.values_mut().for_each(|record| record.voter = true);
    Ok(outcome)
}

/// Assigns a number to a new node.
pub(crate) fn add(state: &mut State, profile: NodeProfile) -> Result<Outcome, Refusal> {
    let NodeProfile { name, site, address, memory_bytes } = profile;
    check_text("the name of a node", &name)?;
    check_text("a site", &site)?;
    check_text("an address", &address)?;
    if let Some((node, _)) = state.map.node_named(&name) {
        return Err(Refusal::NameTaken { name, node });
    }
    check_address(state, &address, None)?;
    if state.map.nodes.len() >= NODES_MAX {
        return Err(Refusal::Full { what: "nodes".to_owned(), most: NODES_MAX as u64 });
    }
    let node = NodeId(slots::number_for(state.next_node, &state.map.nodes));
    state.next_node = node.0 + 1;
    let record = NodeRecord {
        name,
        site,
        address,
        incarnation: Incarnation::default(),
        memory_bytes,
        voter: false,
        is_down: false,
    };
    Arc::make_mut(&mut state.map).nodes.insert(node, record);
    Ok(Outcome::NodeAdded(node))
}

/// Records a start of a node. The node reports its address, its site and its memory again.
pub(crate) fn started(
    state: &mut State,
    node: NodeId,
    address: String,
    site: String,
    memory_bytes: u64,
) -> Result<Outcome, Refusal> {
    check_text("a site", &site)?;
    check_text("an address", &address)?;
    check_address(state, &address, Some(node))?;
    let record = record_mut(state, node)?;
    let incarnation = Incarnation(record.incarnation.0 + 1);
    record.incarnation = incarnation;
    record.address = address;
    record.site = site;
    record.memory_bytes = memory_bytes;
    liveness::started(state, node);
    Ok(Outcome::NodeStarted(incarnation))
}

/// Records whether a node votes.
pub(crate) fn set_voter(state: &mut State, node: NodeId, voter: bool) -> Result<Outcome, Refusal> {
    if state.map.nodes.get(&node).is_none_or(|record| record.voter != voter) {
        record_mut(state, node)?.voter = voter;
    }
    Ok(Outcome::Done)
}

/// Removes a node that owns no slices.
pub(crate) fn remove(state: &mut State, node: NodeId) -> Result<Outcome, Refusal> {
    if !state.map.nodes.contains_key(&node) {
        return Err(Refusal::NodeUnknown { node });
    }
    if state.map.nodes.len() == 1 {
        return Err(Refusal::LastNode { node });
    }
    let owned = state.map.filters.values().filter(|filter| filter.is_on(node));
    let filters: Vec<String> = owned.map(|filter| filter.name.clone()).collect();
    if !filters.is_empty() {
        return Err(Refusal::NodeOwnsSlices { node, filters });
    }
    Arc::make_mut(&mut state.map).nodes.remove(&node);
    liveness::left(state, node);
    Ok(Outcome::Done)
}

fn check_address(state: &State, address: &str, except: Option<NodeId>) -> Result<(), Refusal> {
    let mut others = state.map.nodes.iter().filter(|(node, _)| Some(**node) != except);
    match others.find(|(_, record)| record.address == address) {
        Some((node, _)) => Err(Refusal::AddressTaken { address: address.to_owned(), node: *node }),
        None => Ok(()),
    }
}

/// Returns a mutable reference to the record of a node. The map is not copied if the node does not exist.
fn record_mut(state: &mut State, node: NodeId) -> Result<&mut NodeRecord, Refusal> {
    if !state.map.nodes.contains_key(&node) {
        return Err(Refusal::NodeUnknown { node });
    }
    Arc::make_mut(&mut state.map).nodes.get_mut(&node).ok_or(Refusal::NodeUnknown { node })
}
