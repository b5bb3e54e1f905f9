//! What a group whose slices share events fetches for its copies, and tells those of others.
//!
//! Promises: see [`crate::copying`]. Must not know: how far a copy has come.

use firstseen_filter::PartError;

use super::DividedGroup;
use crate::copying::told;
use crate::{AskCells, CellParts, ClockReading, Entry, NodeId, PeerBody};

impl DividedGroup {
    /// What was fetched is not all any more: events were recorded without this node.
    pub(super) fn fetch_anew(&mut self) {
        self.copying = Default::default();
    }

    /// Whether a slice here that lacked something has got it from another copy.
    pub(super) fn has_fetched(&self, slice: u32) -> bool {
        self.copying.has(slice)
    }

    /// Asks for the next cells, if it is time.
    pub(super) fn fetch(&mut self) {
        if !self.placement.lacks_here() || self.placement.is_down_here() {
            return;
        }
        let Self { copying, placement, own, now, outbox, .. } = self;
        if let Some((source, ask)) = copying.ask(placement.sources(), own.now_unit(), now.monotonic_ms) {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// When [`Self::fetch`] has something to do, if nothing comes.
    pub(super) fn next_fetch_ms(&self) -> Option<u64> {
        let fetches = self.placement.lacks_here() && !self.placement.is_down_here();
        fetches.then(|| self.copying.next_ms(self.placement.sources())).flatten()
    }

    /// Another node asks for cells of a slice. Only who has everything, and takes nothing by an older map than the other's
    /// any more, can say.
    pub(super) fn tell_cells(&mut self, to: NodeId, ask: &AskCells, epoch: u64) {
        let index = ask.slice as usize;
        if epoch > self.placement.epoch() || !self.placement.is_source(index, self.incarnation) {
            return;
        }
        // Cells of a time that is long over could not be told apart there.
        self.own.advance(ask.unit.min(self.unknown_unit()));
        let reading = self.clock.reading();
        let clock = ClockReading { unit: reading.unit.max(self.own.now_unit()), ..reading };
        if let Some(Some(slice)) = self.own.slices().get(index) {
            let parts = told(slice, ask, self.limits.copied_at_once_bytes, clock);
            self.outbox.send(to, PeerBody::Cells(parts));
        }
    }

    /// The cells that were asked for.
    pub(super) fn hear_cells(&mut self, parts: CellParts) {
        // What is late there is late here.
        self.clock.restore(parts.clock);
        self.own.advance(self.clock.now_unit());
        let Self { copying, own, kept, limits, now, .. } = self;
        copying.hear(parts, now.monotonic_ms, limits, |part| {
            // One that could not be built takes nothing.
            let missing = Err(PartError::Misfit("a slice that is not here"));
            match &part {
                Entry::Slice { slice, outline } => own.slice_mut(*slice as usize).map(|own| own.put_outline(outline)),
                Entry::Cells { slice, run } => own.slice_mut(*slice as usize).map(|own| own.put_cells(run)),
                _ => None,
            }
            .unwrap_or(missing)?;
            kept.copied(part);
            Ok(())
        });
    }
}
