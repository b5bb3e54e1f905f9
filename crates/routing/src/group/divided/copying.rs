//! Cells that a group whose slices share events sends to other copies and to backups, and cells of theirs that it puts
//! in.
//!
//! Promises: see [`crate::group::copying`]. Must not know: how far a copy has come.

use firstseen_filter::{PartError, Refresh};

use super::DividedGroup;
use crate::group::copying::parts_of;
use crate::group::parts::TakesParts;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{AskCells, BackupCells, CellParts, ClockReading, Moment, PeerBody};

impl DividedGroup {
    /// Another node asks for cells of a slice. Only a complete copy that accepts nothing by an older map than the
    /// other's can answer.
    pub(super) fn send_cells(&mut self, to: NodeId, ask: &AskCells, epoch: Epoch) {
        let index = ask.slice as usize;
        let (placement, incarnation) = (self.membership.placement(), self.membership.site().incarnation);
        if epoch > placement.epoch() || !placement.is_source(index, incarnation) {
            return;
        }
        // The other node could not tell cells of a time long past from newer ones.
        if let Some(newest_unit) = self.membership.newest_unknown_unit(&self.present) {
            self.own.advance(ask.unit.min(newest_unit));
        }
        if let Some(parts) = self.parts(ask) {
            self.outbox.send(to, PeerBody::Cells(parts));
        }
    }

    fn parts(&self, ask: &AskCells) -> Option<CellParts> {
        let reading = self.present.clock().reading();
        let clock = ClockReading { unit: reading.unit.max(self.own.now_unit()), ..reading };
        let slice = self.own.slices().get(ask.slice as usize)?.as_ref()?;
        Some(parts_of(slice, ask, self.present.limits().copied_at_once_bytes, clock))
    }

    /// Cells of a slice for a backup; none where it is not here.
    pub(crate) fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        // This way the slices of a backup are of about one time.
        self.own.advance(self.present.clock().now_unit());
        let is_complete = self.membership.wholeness().is_whole()
            || self.membership.placement().is_slice_complete_here(ask.slice as usize);
        Some(BackupCells { parts: self.parts(ask)?, is_complete })
    }

    /// Puts cells of a backup in.
    pub(crate) fn write_cells(&mut self, parts: CellParts, now: Moment) -> Result<(), PartError> {
        self.present.begin(now);
        self.present.clock_mut().restore(parts.clock);
        let (slice, is_last) = (parts.slice, parts.next.is_none());
        let Self { own, kept, .. } = self;
        let put = parts.into_entries().try_for_each(|part| own.take_part(part, |part| kept.copied(part)));
        if is_last {
            self.count_events_of(slice);
        }
        self.finish();
        put
    }

    /// The room that is left is estimated from the slice's counts of its newest generation. Events that are set again
    /// with each repeat are counted as often.
    fn count_events_of(&mut self, slice: u32) {
        let Some(Some(slice)) = self.own.slices().get(slice as usize) else { return };
        let is_newest = slice.newest_generation() == self.fill.newest() && self.refresh == Refresh::Fixed;
        if let Some(live) = slice.outline().filter(|_| is_newest).as_ref().and_then(|outline| outline.live.last()) {
            self.fill.adopt(live);
        }
    }

    /// The cells that were asked for, as they were by the map of `epoch`.
    pub(super) fn hear_cells(&mut self, parts: CellParts, epoch: Epoch) {
        if !self.membership.placement().is_slice_complete_here(parts.slice as usize) {
            // An event that is late at the other copy is late here.
            self.present.clock_mut().restore(parts.clock);
            self.own.advance(self.present.clock().now_unit());
        }
        self.membership.hear_cells(parts, epoch, &self.present, &mut self.own, &mut self.kept);
    }
}
