//! Decides which node receives which slice, and whether all slices fit.
//!
//! # Guarantees
//! - The placement depends only on the map, so it is the same on every node.
//! - No node is assigned more bytes than it has memory.
//! - The slices of a group are spread over as many nodes as possible.
//! - The copies of a slice are on different nodes. If there are enough sites, they are also at different sites.
//!
//! This module does not depend on how the cluster agrees on the placement or on the content of cells.

use std::collections::BTreeMap;

use firstseen_filter::{GenerationNumber, Unit};
use firstseen_routing::{ClusterMap, Incarnation, NodeId, NodeRecord, SliceCopy, SliceOwner, SlicedDefinition};

use crate::refusal::Refusal;

/// Returns the maximum memory of one slice in bytes. A filter can have several generations of cells at the same time,
/// and the result includes all of them. If the result does not fit into a `u64`, it is `u64::MAX`.
pub fn slice_bytes(definition: &SlicedDefinition) -> Result<u64, String> {
    Ok(definition.slice().map_err(|error| error.to_string())?.bytes_max())
}

/// Returns the greatest number that a generation of `definition` may have. The error says why the filter cannot have a
/// second generation.
pub fn generation_max(definition: &SlicedDefinition) -> Result<GenerationNumber, String> {
    match definition.group.cells.growth() {
        Some(growth) if growth.generations_max > 1 => match definition.group.unit {
            // Without a window, no generation is ever dropped. With a window, the numbers rise as long as the filter
            // exists.
            Unit::Endless => Ok(GenerationNumber(u64::from(growth.generations_max) - 1)),
            _ => Ok(GenerationNumber(u64::MAX)),
        },
        _ => Err("it cannot grow: create it with a larger capacity".to_owned()),
    }
}

/// The capacity of a node.
struct Room<'map> {
    node: NodeId,
    site: &'map str,
    incarnation: Incarnation,
    used_bytes: u64,
    free_bytes: u64,
    slices: u32,
    slices_of_group: u32,
}

/// Chooses the nodes that own the slices of a new filter called `name`, and the nodes that have the `copies` additional
/// copies of each slice. If `sites` is not empty, only nodes at these sites are chosen.
///
/// Each slice is assigned to the node that has the fewest slices of the same slice group. If several nodes are equal,
/// the node with the fewest slices of the whole filter is chosen. If several nodes are still equal, the node with the
/// least used memory is chosen.
///
/// An additional copy of a slice is placed at a site that has no copy of this slice yet, if there is such a site. The
/// slice then survives the failure of a whole site.
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

/// Returns the node for the next copy of a slice. `taken` contains the nodes and sites of its other copies.
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

/// Returns the bytes of cells that are assigned to each node.
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

/// Returns the nodes that slices can be assigned to. These are the nodes at `sites` that have started and are not down.
/// A node that has not started has no incarnation, so its slices could not be marked as complete.
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
