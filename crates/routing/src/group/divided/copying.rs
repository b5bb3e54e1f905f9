//! What a group whose slices share events fetches for its copies, and tells those of others and backups.
//!
//! Promises: see [`crate::copying`]. Must not know: how far a copy has come.

use firstseen_filter::{PartError, Refresh};

use super::DividedGroup;
use crate::group::copying::told;
use crate::group::rescan::IsPut;
use crate::ids::NodeId;
use crate::protocol::{AskCells, CellParts, ClockReading, Command, Entry, Moment, PeerBody};

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
        if let Some((source, ask)) =
            copying.ask(placement.sources(), (own.now_unit(), placement.epoch()), now.monotonic_ms)
        {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// When [`Self::fetch`] has something to do, if nothing comes.
    pub(super) fn next_fetch_ms(&self) -> Option<u64> {
        let fetches = self.placement.lacks_here() && !self.placement.is_down_here();
        fetches.then(|| self.copying.next_ms(self.placement.sources())).flatten()
    }

    /// Reads other copies of slices that have everything here, if it is time, and puts in what is missing here.
    pub(super) fn rescan(&mut self) {
        let Self { rescan, placement, own, now, outbox, policies, kept, .. } = self;
        if policies.copies == 0 || placement.is_down_here() {
            return;
        }
        rescan.mend(now.monotonic_ms, |slice, run, is_put| {
            if is_put == IsPut::Not {
                return own.lacks_cells(slice, run);
            }
            let lacks = own.put_missing_cells(slice, run)?;
            if lacks {
                kept.copied(Entry::Cells { slice, run: run.clone() });
            }
            Ok(lacks)
        });
        if let Some((source, ask)) = rescan.ask(placement.equals(), own.now_unit(), now.monotonic_ms) {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// When [`Self::rescan`] has something to do, if nothing comes.
    pub(super) fn next_rescan_ms(&self) -> Option<u64> {
        (self.policies.copies > 0 && !self.placement.is_down_here()).then(|| self.rescan.next_ms())
    }

    /// Another node asks for cells of a slice. Only who has everything, and takes nothing by an older map than the other's
    /// any more, can say.
    pub(super) fn tell_cells(&mut self, to: NodeId, ask: &AskCells, epoch: u64) {
        let index = ask.slice as usize;
        if epoch > self.placement.epoch() || !self.placement.is_source(index, self.incarnation) {
            return;
        }
        // Cells of a time that is long over could not be told apart there.
        if let Some(newest_unit) = self.newest_unknown_unit() {
            self.own.advance(ask.unit.min(newest_unit));
        }
        if let Some(parts) = self.parts(ask) {
            self.outbox.send(to, PeerBody::Cells(parts));
        }
    }

    fn parts(&self, ask: &AskCells) -> Option<CellParts> {
        let reading = self.clock.reading();
        let clock = ClockReading { unit: reading.unit.max(self.own.now_unit()), ..reading };
        let slice = self.own.slices().get(ask.slice as usize)?.as_ref()?;
        Some(told(slice, ask, self.limits.copied_at_once_bytes, clock))
    }

    /// Cells of a slice for a backup, and whether it has all that was ever recorded in it; none where it is not here.
    pub(crate) fn read_cells(&mut self, ask: &AskCells) -> Option<(CellParts, bool)> {
        // So that the slices of a backup are of about one time.
        self.own.advance(self.clock.now_unit());
        let is_complete = self.holding.is_whole() || self.placement.is_slice_complete_here(ask.slice as usize);
        Some((self.parts(ask)?, is_complete))
    }

    /// Puts cells of a backup in.
    pub(crate) fn write_cells(
        &mut self,
        parts: CellParts,
        now: Moment,
        commands: &mut Vec<Command>,
    ) -> Result<(), PartError> {
        self.now = now;
        self.clock.restore(parts.clock);
        let (slice, is_last) = (parts.slice, parts.next.is_none());
        let Self { own, kept, .. } = self;
        let put = parts.into_entries().try_for_each(|part| {
            own.put_part(&part)?;
            kept.copied(part);
            Ok(())
        });
        if is_last {
            self.count_events_of(slice);
        }
        self.finish(commands);
        put
    }

    /// The room that is left is judged by what a slice tells of its newest generation. Events that are set again with each
    /// repeat are told as often.
    fn count_events_of(&mut self, slice: u32) {
        let Some(Some(slice)) = self.own.slices().get(slice as usize) else { return };
        let is_newest = slice.newest_generation() == self.fill.newest() && self.refresh == Refresh::Fixed;
        if let Some(live) = slice.outline().filter(|_| is_newest).as_ref().and_then(|outline| outline.live.last()) {
            self.fill.adopt(live);
        }
    }

    /// The cells that were asked for, as they were by the map of `epoch`.
    pub(super) fn hear_cells(&mut self, parts: CellParts, epoch: u64) {
        if self.placement.is_slice_complete_here(parts.slice as usize) {
            return self.compare_cells(parts);
        }
        // What is late there is late here.
        self.clock.restore(parts.clock);
        self.own.advance(self.clock.now_unit());
        let Self { copying, own, kept, limits, now, .. } = self;
        copying.hear(parts, (epoch, now.monotonic_ms), limits, |part| {
            own.put_part(&part)?;
            kept.copied(part);
            Ok(())
        });
    }

    /// What another copy has that has everything, as the one here.
    fn compare_cells(&mut self, parts: CellParts) {
        let Self { rescan, own, limits, now, .. } = self;
        let bytes_per_s_max = limits.compared_bytes_per_s_max;
        rescan.hear(parts, now.monotonic_ms, bytes_per_s_max, |slice, run| own.lacks_cells(slice, run));
    }
}
