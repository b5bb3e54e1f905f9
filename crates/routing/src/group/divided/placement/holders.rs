//! The nodes that have copies of one slice.
//!
//! Promises: nodes stand in the order of the map, and take no allocation. Must not know: events, which slice it is.

use crate::ids::NodeId;
use crate::map::{COPIES_MAX, SliceOwner};

/// The copies of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// Indices into the nodes.
    nodes: [u16; COPIES_MAX],
    len: u8,
    /// By bit: which of them are complete, and not gone.
    complete: u8,
    /// By bit: which of them are on their way there.
    arriving: u8,
}

impl Holders {
    pub(super) fn new<'map>(
        copies: impl Iterator<Item = &'map SliceOwner>,
        index_of: impl Fn(&NodeId) -> usize,
        is_complete: impl Fn(&SliceOwner) -> bool,
        is_arriving: impl Fn(&SliceOwner) -> bool,
    ) -> Self {
        let mut holders = Self::default();
        for copy in copies {
            let place = usize::from(holders.len);
            holders.nodes[place] = index_of(&copy.node) as u16;
            holders.complete |= u8::from(is_complete(copy)) << place;
            holders.arriving |= u8::from(is_arriving(copy)) << place;
            holders.len += 1;
        }
        holders
    }

    #[inline]
    pub(super) fn nodes(&self) -> &[u16] {
        &self.nodes[..usize::from(self.len)]
    }

    #[inline]
    pub(super) fn has(&self, node: usize) -> bool {
        self.nodes().iter().any(|holder| usize::from(*holder) == node)
    }

    pub(super) fn is_arriving_at(&self, node: usize) -> bool {
        let mut nodes = self.nodes().iter().enumerate();
        nodes.any(|(place, holder)| usize::from(*holder) == node && self.arriving >> place & 1 == 1)
    }

    #[inline]
    pub(super) fn is_complete_at(&self, node: usize) -> bool {
        self.complete_nodes().any(|holder| holder == node)
    }

    #[inline]
    pub(super) fn complete_nodes(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes().iter().enumerate();
        nodes.filter(|(place, _)| self.complete >> place & 1 == 1).map(|(_, node)| usize::from(*node))
    }
}
