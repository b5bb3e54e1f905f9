//! Exchange of cells between the copies of slices, for groups whose slices share events. This module sends cells to
//! other copies and to backups, and writes received cells into the slices of this node. The guarantees are those of
//! [`crate::group::copying`].

use firstseen_filter::{PartError, Refresh};

use super::durable::ToPersist;
use super::local::LocalState;
use super::outbox::Outbox;
use crate::group::copying::parts_of;
use crate::group::parts::TakesParts;
use crate::ids::{Epoch, NodeId};
use crate::protocol::{AskCells, BackupCells, CellParts, ClockReading, PeerBody};

impl LocalState {
    /// Sends cells of a slice to a node that has requested them. The cells must not lack any event, so this node sends
    /// them only under two conditions. First, its own copy of the slice is complete. Second, its cluster map has the
    /// same epoch as the map of the requesting node, or a later one. From that epoch on, every new event is also sent
    /// to the requesting node.
    pub(super) fn send_cells(&mut self, to: NodeId, ask: &AskCells, epoch: Epoch, outbox: &mut Outbox) {
        let placement = self.membership.placement();
        let incarnation = self.membership.site().incarnation;
        if epoch > placement.epoch() || !placement.is_source(ask.slice as usize, incarnation) {
            return;
        }
        // Advancing the slice first lets the other node distinguish cells of a long past time from newer ones.
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

    /// Reads cells of a slice for a backup. Returns `None` if the slice is not on this node.
    pub(super) fn read_cells(&mut self, ask: &AskCells) -> Option<BackupCells> {
        // Advancing all slices makes the slices of a backup refer to about the same time.
        self.own.advance(self.present.clock().now_unit());
        let is_complete = self.membership.completeness().is_whole()
            || self.membership.placement().is_slice_complete_here(ask.slice as usize);
        Some(BackupCells { parts: self.parts(ask)?, is_complete })
    }

    /// Writes cells from a backup into a slice.
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

    /// Updates the estimate of the remaining room after a slice was fetched from another copy. The fetched slice
    /// contains a count of the events in the newest generation, from which the number of all events is estimated. If
    /// the filter refreshes repeated events, the slice counts each repetition as an event. The count is then too high,
    /// so it is not used.
    fn count_events_of(&mut self, slice: u32) {
        let Some(Some(slice)) = self.own.slices().get(slice as usize) else { return };
        let is_newest = slice.newest_generation() == self.fill.newest() && self.refresh == Refresh::Fixed;
        if let Some(live) = slice.outline().filter(|_| is_newest).as_ref().and_then(|outline| outline.live.last()) {
            self.fill.adopt(live);
        }
    }

    /// Receives cells that were requested, as another node sent them by the map of `epoch`.
    pub(super) fn receive_cells(&mut self, parts: CellParts, epoch: Epoch, kept: &mut ToPersist) {
        let Self { membership, own, present, .. } = self;
        if !membership.placement().is_slice_complete_here(parts.slice as usize) {
            // An event that is late at the other copy must also be late here.
            present.clock_mut().restore(parts.clock);
            own.advance(present.clock().now_unit());
        }
        membership.receive_cells(parts, epoch, present, own, kept);
    }
}
