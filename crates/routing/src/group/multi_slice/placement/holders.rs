//! The nodes that have copies of one slice, in the order of the cluster map. The list needs no allocation.

use crate::map::COPIES_MAX;

/// The copies of a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// Indices into the list of the group's nodes.
    nodes: [u16; COPIES_MAX],
    len: u8,
    /// Bit mask of the copies that are complete and not gone.
    complete: u8,
    /// Bit mask of the copies that are still moving to their node.
    arriving: u8,
}

impl Holders {
    /// Adds the copy of a node. There are at most `COPIES_MAX` copies.
    pub(super) fn push(&mut self, node: usize, is_complete: bool, is_arriving: bool) {
        let place = usize::from(self.len);
        self.nodes[place] = node as u16;
        self.complete |= u8::from(is_complete) << place;
        self.arriving |= u8::from(is_arriving) << place;
        self.len += 1;
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

    /// Returns whether a node has a copy that lacks events.
    pub(super) fn is_incomplete_at(&self, node: usize) -> bool {
        self.has(node) && !self.is_complete_at(node)
    }

    #[inline]
    pub(super) fn complete_nodes(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes().iter().enumerate();
        nodes.filter(|(place, _)| self.complete >> place & 1 == 1).map(|(_, node)| usize::from(*node))
    }
}
