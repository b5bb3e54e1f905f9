//! Which node gets which slice, and whether all of them fit.
//!
//! Promises: the placement is the same on every node for the same map; no node is given more bytes than it has; the
//! slices of a group lie on as many nodes as there are, the copies of a slice on nodes of their own, at sites of their
//! own where there are enough. Must not know: how it is agreed on, what cells hold.

use std::collections::BTreeMap;

use firstseen_filter::{GenerationNumber, Unit};
use firstseen_routing::{ClusterMap, Incarnation, NodeId, NodeRecord, SliceCopy, SliceOwner, SlicedDefinition};

use crate::refusal::Refusal;

/// Bytes of one slice with every generation that it may ever have at once; more than can be counted is `u64::MAX`.
pub fn slice_bytes(definition: &SlicedDefinition) -> Result<u64, String> {
    Ok(definition.slice().map_err(|error| error.to_string())?.bytes_max())
}

/// The greatest number a generation of `definition` may have, or why it may have no second one.
pub fn generation_max(definition: &SlicedDefinition) -> Result<GenerationNumber, String> {
    match definition.group.cells.growth() {
        Some(growth) if growth.generations_max > 1 => match definition.group.unit {
            // Without a window no generation is ever dropped; with one, numbers rise for as long as it lives.
            Unit::Endless => Ok(GenerationNumber(u64::from(growth.generations_max) - 1)),
            _ => Ok(GenerationNumber(u64::MAX)),
        },
        _ => Err("it does not grow: make it with room for more events".to_owned()),
    }
}

/// The room that a node has.
struct Room<'map> {
    node: NodeId,
    site: &'map str,
    incarnation: Incarnation,
    used_bytes: u64,
    free_bytes: u64,
    slices: u32,
    slices_of_group: u32,
}

/// Owners for all slices of a filter called `name`, at `sites`, or anywhere where none is named, and of `copies` further
/// copies of each.
///
/// Each goes to the node with the fewest slices of its group, then of its filter, then the fewest bytes; a copy to a site
/// that has none of the slice, if there is one.
pub fn owners(
    map: &ClusterMap,
    name: &str,
    definition: &SlicedDefinition,
    sites: &[String],
    copies: u32,
) -> Result<(Vec<SliceOwner>, Vec<SliceCopy>), Refusal> {
    let slice_bytes =
        slice_bytes(definition).map_err(|reason| Refusal::Definition { name: name.to_owned(), reason })?;
    let slices = definition.slicing.slices();
    let slices_per_group = definition.slicing.slices_per_group();
    let mut rooms = rooms(map, sites);
    if rooms.len() <= copies as usize {
        return Err(Refusal::Copies { name: name.to_owned(), copies, nodes: rooms.len() as u64 });
    }
    let free_bytes = rooms.iter().fold(0, |sum: u64, room| sum.saturating_add(room.free_bytes));
    let mut owners = Vec::with_capacity(slices as usize);
    let mut others = Vec::new();
    for slice in 0..slices {
        if slice % slices_per_group == 0 {
            rooms.iter_mut().for_each(|room| room.slices_of_group = 0);
        }
        let mut taken: Vec<(NodeId, &str)> = Vec::new();
        for copy in 0..=copies {
            let Some(room) = pick(&mut rooms, &taken, slice_bytes) else {
                let found = u64::from(slice) * u64::from(copies + 1) + u64::from(copy);
                let wanted = u64::from(slices) * u64::from(copies + 1);
                return Err(Refusal::Memory {
                    name: name.to_owned(),
                    needed_bytes: slice_bytes.saturating_mul(wanted),
                    slice_bytes,
                    lacking_bytes: slice_bytes.saturating_mul(wanted - found),
                    free_bytes,
                });
            };
            room.free_bytes -= slice_bytes;
            room.used_bytes = room.used_bytes.saturating_add(slice_bytes);
            room.slices += 1;
            room.slices_of_group += 1;
            taken.push((room.node, room.site));
            let owner = SliceOwner { node: room.node, complete_since: room.incarnation, ..SliceOwner::default() };
            match copy {
                0 => owners.push(owner),
                _ => others.push(SliceCopy { slice, owner, ..SliceCopy::default() }),
            }
        }
    }
    Ok((owners, others))
}

/// The node for the next copy of a slice, whose other copies are on the nodes and sites of `taken`.
fn pick<'rooms, 'map>(
    rooms: &'rooms mut [Room<'map>],
    taken: &[(NodeId, &str)],
    slice_bytes: u64,
) -> Option<&'rooms mut Room<'map>> {
    rooms
        .iter_mut()
        .filter(|room| room.free_bytes >= slice_bytes)
        .filter(|room| taken.iter().all(|(node, _)| *node != room.node))
        .min_by_key(|room| {
            let is_near = taken.iter().any(|(_, site)| *site == room.site);
            (is_near, room.slices_of_group, room.slices, room.used_bytes, room.node)
        })
}

/// Bytes of cells that each node has been given.
pub fn used_bytes(map: &ClusterMap) -> BTreeMap<NodeId, u64> {
    let mut used: BTreeMap<NodeId, u64> = map.nodes.keys().map(|node| (*node, 0)).collect();
    for record in map.filters.values() {
        let bytes = slice_bytes(&record.definition).unwrap_or(u64::MAX);
        for (_, owner) in record.all_copies() {
            let sum = used.entry(owner.node).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
    used
}

/// Returns whether a node has started and is not down.
pub(crate) fn runs(node: &NodeRecord) -> bool {
    node.incarnation != Incarnation::default() && !node.is_down
}

/// Nodes that have started and are not down, at `sites`; others have no incarnation that cells could be complete since.
fn rooms<'map>(map: &'map ClusterMap, sites: &[String]) -> Vec<Room<'map>> {
    let used = used_bytes(map);
    let started = map.nodes.iter().filter(|(_, record)| runs(record));
    started
        .filter(|(_, record)| sites.is_empty() || sites.contains(&record.site))
        .map(|(node, record)| {
            let used_bytes = used.get(node).copied().unwrap_or(0);
            Room {
                node: *node,
                site: &record.site,
                incarnation: record.incarnation,
                used_bytes,
                free_bytes: record.memory_bytes.saturating_sub(used_bytes),
                slices: 0,
                slices_of_group: 0,
            }
        })
        .collect()
}
