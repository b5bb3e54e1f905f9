//! Who heads events: where each of them begins.
//!
//! Promises: the same for producers and nodes that have the same map. Must not know: cells, messages.

use std::borrow::Cow;

use firstseen_filter::Probes;

use crate::{ClusterMap, FilterRecord, NodeId, Prober, SliceOwner};

/// The heads of a filter's events: the node that is asked of an event's first slice that is not down. Where all are down,
/// that of its first: nobody serves the event, and there one finds out.
pub struct Heads<'map> {
    /// By slice: the copy that is asked.
    owners: Cow<'map, [SliceOwner]>,
    down: Vec<NodeId>,
}

impl<'map> Heads<'map> {
    /// As `map` has them.
    pub fn new(map: &ClusterMap, filter: &'map FilterRecord) -> Self {
        let asked = || (0..filter.owners.len() as u32).filter_map(|slice| map.asked(filter, slice)).collect();
        let owners = if filter.copies.is_empty() { Cow::Borrowed(&filter.owners[..]) } else { Cow::Owned(asked()) };
        let down = map.nodes.iter().filter(|(_, node)| node.is_down).map(|(id, _)| *id);
        Self { owners, down: down.collect() }
    }

    /// Of event `index` of these probes; none where the slice has no owner.
    #[inline]
    pub fn of(&self, prober: &Prober, group: u32, probes: &Probes, index: usize) -> Option<NodeId> {
        let mut owners = prober.slices(group, probes, index).map(|slice| Some(self.owners.get(slice as usize)?.node));
        let first = owners.next()??;
        match self.is_down(first) {
            false => Some(first),
            true => owners.flatten().find(|node| !self.is_down(*node)).or(Some(first)),
        }
    }

    /// Whether the others go on without this node.
    #[inline]
    pub fn is_down(&self, node: NodeId) -> bool {
        self.down.contains(&node)
    }

    /// Who is asked, by slice.
    pub fn owners(&self) -> &[SliceOwner] {
        &self.owners
    }
}
