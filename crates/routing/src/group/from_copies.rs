//! Handles cells that a group receives from other copies of its slices. There are two reasons to request such cells:
//! the group lacks them (`copying.rs`), or it compares them with its own cells to find differences (`rescan.rs`).
//! Groups of one slice and groups of several slices both use this module.
//!
//! Received cells are added if the slice is incomplete, and compared if it is complete. Each added part is also
//! persisted.

use super::copying::Copying;
use super::group_time::GroupTime;
use super::parts::TakesParts;
use super::rescan::Rescan;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{AskCells, CellParts, Entry};

/// State of fetching and comparing cells.
#[derive(Debug)]
pub(crate) struct FromCopies {
    pub(crate) fetched: Copying,
    pub(crate) compared: Rescan,
}

impl FromCopies {
    /// Creates the state without any fetched cells. `compared` is the schedule of comparisons.
    pub(crate) fn new(compared: Rescan) -> Self {
        Self { fetched: Copying::default(), compared }
    }

    /// Starts fetching from the beginning, because events were recorded without this node, or ends it.
    pub(crate) fn forget_fetched(&mut self) {
        self.fetched = Copying::default();
    }

    /// Returns the next request for cells of incomplete slices, together with the node that receives the request.
    /// Returns `None` if it is too early for a request or if no slice has a source. `sources` lists the incomplete
    /// slices of this node that have a complete copy on another node.
    pub(crate) fn fetch(
        &mut self,
        sources: impl Iterator<Item = (u32, NodeId)>,
        epoch: Epoch,
        present: &GroupTime,
        slices: &impl TakesParts,
    ) -> Option<(NodeId, AskCells)> {
        self.fetched.ask(sources, slices.greatest_unit(present), epoch, present.now_ms())
    }

    /// Continues the comparison of complete slices with their copies on other nodes. The function first adds the cells
    /// that earlier comparisons have found missing. It then returns the next request for cells to compare, or `None` if
    /// it is too early for a request.
    ///
    /// `sources` contains a pair for each complete slice of this node and each other node that also has a complete copy
    /// of that slice.
    pub(crate) fn compare(
        &mut self,
        sources: impl Iterator<Item = (u32, NodeId)>,
        present: &GroupTime,
        slices: &mut impl TakesParts,
        mut keep: impl FnMut(Entry),
    ) -> Option<(NodeId, AskCells)> {
        let now_ms = present.now_ms();
        self.compared.mend(now_ms, |slice, run, is_put| slices.mend(slice, run, is_put, &mut keep));
        self.compared.ask(sources, slices.greatest_unit(present), now_ms)
    }

    /// Receives cells of an incomplete slice that were requested. Another copy sent them by the cluster map of `epoch`.
    pub(crate) fn receive_fetched(
        &mut self,
        parts: CellParts,
        epoch: Epoch,
        present: &GroupTime,
        slices: &mut impl TakesParts,
        mut keep: impl FnMut(Entry),
    ) {
        let limits = present.limits();
        self.fetched.hear(parts, epoch, present.now_ms(), limits, |part| slices.take_part(part, &mut keep));
    }

    /// Receives cells of a complete slice that were requested for comparison.
    pub(crate) fn receive_for_comparison(
        &mut self,
        parts: CellParts,
        present: &GroupTime,
        slices: &mut impl TakesParts,
    ) {
        let bytes_per_s_max = present.limits().compared_bytes_per_s_max;
        self.compared.hear(parts, present.now_ms(), bytes_per_s_max, |slice, run| slices.lacks(slice, run));
    }
}
