//! Cells that a group whose slices share events sends to other copies and to backups, and cells of theirs that it puts
//! in.
//!
//! Promises: see [`crate::group::copying`]. Must not know: how far a copy has come.

use firstseen_filter::{PartError, Refresh};

use super::durable::ToPersist;
use super::local::LocalState;
use super::outbox::Outbox;
use crate::group::copying::parts_of;
use crate::group::parts::TakesParts;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{AskCells, BackupCells, CellParts, ClockReading, PeerBody};

impl LocalState {
    /// Sends cells of a slice that another node asks for. Only a complete copy that accepts nothing by an older map than
    /// the other's can answer.
    pub(super) fn send_cells(&mut self, to: NodeId, ask: &AskCells, epoch: Epoch, outbox: &mut Outbox) {
        let placement = self.membership.placement();
        let incarnation = self.membership.site().incarnation;
        if epoch > placement.epoch() || !placement.is_source(ask.slice as usize, incarnation) {
            return;
        }
        // The other node could not tell cells of a time long past from newer ones.
        if let Some(newest_unit) = self.membership.newest_unknown_unit(&self.present) {
            self.own.advance(ask.unit.min(newest_unit));
        }
        if let Some(parts) = self.parts(ask) {
            outbox.send(to, PeerBody::Cells(parts));
        }
    }

    fn parts(&self, ask: &AskCells) -> Option<CellParts> {
        let reading = self.present.clock().reading();
        let clock = ClockReading { unit: reading.unit.max(self.own.now_unit()), ..reading };
        let slice = self.own.slices().get(ask.slice as usize)?.as_ref()?;
        Some(parts_of(slice, ask, self.present.limits().copied_at_once_bytes, clock))
    }

    /// Cells of a slice for a backup. `None` if the slice is not here.
    pub(super) fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        // This way the slices of a backup are of about one time.
        self.own.advance(self.present.clock().now_unit());
        let is_complete = self.membership.wholeness().is_whole()
            || self.membership.placement().is_slice_complete_here(ask.slice as usize);
        Some(BackupCells { parts: self.parts(ask)?, is_complete })
    }

    /// Puts cells of a backup in.
    pub(super) fn write_cells(&mut self, parts: CellParts, kept: &mut ToPersist) -> Result<(), PartError> {
        self.present.clock_mut().restore(parts.clock);
        let slice = parts.slice;
        let is_last = parts.next.is_none();
        let put = parts.into_entries().try_for_each(|part| self.own.take_part(part, |part| kept.copied(part)));
        if is_last {
            self.count_events_of(slice);
        }
        put
    }

    /// Estimates the room that is left from the slice's counts of its newest generation. Events that are set again with
    /// each repeat are counted as often.
    fn count_events_of(&mut self, slice: u32) {
        let Some(Some(slice)) = self.own.slices().get(slice as usize) else { return };
        let is_newest = slice.newest_generation() == self.fill.newest() && self.refresh == Refresh::Fixed;
        if let Some(live) = slice.outline().filter(|_| is_newest).as_ref().and_then(|outline| outline.live.last()) {
            self.fill.adopt(live);
        }
    }

    /// Takes the cells that were asked for, as they were by the map of `epoch`.
    pub(super) fn hear_cells(&mut self, parts: CellParts, epoch: Epoch, kept: &mut ToPersist) {
        let Self { membership, own, present, .. } = self;
        if !membership.placement().is_slice_complete_here(parts.slice as usize) {
            // An event that is late at the other copy is late here.
            present.clock_mut().restore(parts.clock);
            own.advance(present.clock().now_unit());
        }
        membership.hear_cells(parts, epoch, present, own, kept);
    }
}
