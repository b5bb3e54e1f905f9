//! What a group gets from other copies of its slices: cells that it lacks (`copying.rs`), and cells to compare with its
//! own (`rescan.rs`); the same for all groups.
//!
//! Promises: cells that come are put in where the slice lacks something, and compared where it has everything; each part
//! is persisted as it is put in. Must not know: which slices there are, whom the map calls complete, how questions
//! travel.

use super::copying::Copying;
use super::parts::TakesParts;
use super::present::Present;
use super::rescan::Rescan;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{AskCells, CellParts, Entry};

/// What is fetched and compared.
#[derive(Debug)]
pub(crate) struct FromCopies {
    pub(crate) fetched: Copying,
    pub(crate) compared: Rescan,
}

impl FromCopies {
    /// Nothing is fetched yet, and copies are compared by `compared`.
    pub(crate) fn new(compared: Rescan) -> Self {
        Self { fetched: Copying::default(), compared }
    }

    /// Fetching begins anew, as events were recorded without this node, or ends.
    pub(crate) fn forget_fetched(&mut self) {
        self.fetched = Copying::default();
    }

    /// Whom to ask for the next cells of slices that lack something and have a source, if it is time.
    pub(crate) fn fetch(
        &mut self,
        sources: impl Iterator<Item = (u32, NodeId)>,
        epoch: Epoch,
        present: &Present,
        slices: &impl TakesParts,
    ) -> Option<(NodeId, AskCells)> {
        self.fetched.ask(sources, slices.greatest_unit(present), epoch, present.now_ms())
    }

    /// Puts in cells that are missing in slices that have everything, and returns whom to ask for the next ones to be
    /// compared, if it is time; `sources` are these slices, each with every other copy that has everything.
    pub(crate) fn compare(
        &mut self,
        sources: impl Iterator<Item = (u32, NodeId)>,
        present: &Present,
        slices: &mut impl TakesParts,
        mut keep: impl FnMut(Entry),
    ) -> Option<(NodeId, AskCells)> {
        let now_ms = present.now_ms();
        self.compared.mend(now_ms, |slice, run, is_put| slices.mend(slice, run, is_put, &mut keep));
        self.compared.ask(sources, slices.greatest_unit(present), now_ms)
    }

    /// Takes cells that were asked for, as another copy had them by the map of `epoch`, of a slice that lacks something.
    pub(crate) fn hear_fetched(
        &mut self,
        parts: CellParts,
        epoch: Epoch,
        present: &Present,
        slices: &mut impl TakesParts,
        mut keep: impl FnMut(Entry),
    ) {
        let limits = present.limits();
        self.fetched.hear(parts, epoch, present.now_ms(), limits, |part| slices.take_part(part, &mut keep));
    }

    /// Takes cells that were asked for, of a slice that has everything.
    pub(crate) fn hear_to_compare(&mut self, parts: CellParts, present: &Present, slices: &mut impl TakesParts) {
        let bytes_per_s_max = present.limits().compared_bytes_per_s_max;
        self.compared.hear(parts, present.now_ms(), bytes_per_s_max, |slice, run| slices.lacks(slice, run));
    }
}
