//! What copies here fetch from those that have everything, and how copies are compared.
//!
//! Promises: see [`crate::copying`]. Must not know: how far a copy has come.

use firstseen_filter::PartError;

use super::Membership;
use crate::group::divided::durable::Kept;
use crate::group::divided::outbox::Outbox;
use crate::group::divided::own::OwnSlices;
use crate::group::limits::OwnerLimits;
use crate::group::rescan::IsPut;
use crate::protocol::{CellParts, Entry, PeerBody};

impl Membership {
    /// What was fetched is not all any more: events were recorded without this node.
    pub(super) fn fetch_anew(&mut self) {
        self.copying = Default::default();
    }

    /// Whether a slice here that lacked something has got it from another copy.
    pub(super) fn has_fetched(&self, slice: u32) -> bool {
        self.copying.has(slice)
    }

    /// Asks for the next cells, if it is time.
    pub(in crate::group::divided) fn fetch(&mut self, own: &OwnSlices, now_ms: u64, outbox: &mut Outbox) {
        if !self.placement.lacks_here() || self.placement.is_down_here() {
            return;
        }
        let Self { copying, placement, .. } = self;
        if let Some((source, ask)) = copying.ask(placement.sources(), (own.now_unit(), placement.epoch()), now_ms) {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// When [`Self::fetch`] has something to do, if nothing comes.
    pub(super) fn next_fetch_ms(&self) -> Option<u64> {
        let fetches = self.placement.lacks_here() && !self.placement.is_down_here();
        fetches.then(|| self.copying.next_ms(self.placement.sources())).flatten()
    }

    /// Reads other copies of slices that have everything here, if it is time, and puts in what is missing here.
    pub(in crate::group::divided) fn rescan(
        &mut self,
        own: &mut OwnSlices,
        kept: &mut Kept,
        now_ms: u64,
        outbox: &mut Outbox,
    ) {
        let Self { rescan, placement, .. } = self;
        if !self.has_copies || placement.is_down_here() {
            return;
        }
        rescan.mend(now_ms, |slice, run, is_put| {
            if is_put == IsPut::Not {
                return own.lacks_cells(slice, run);
            }
            let lacks = own.put_missing_cells(slice, run)?;
            if lacks {
                kept.copied(Entry::Cells { slice, run: run.clone() });
            }
            Ok(lacks)
        });
        if let Some((source, ask)) = rescan.ask(placement.equals(), own.now_unit(), now_ms) {
            outbox.send(source, PeerBody::AskCells(ask));
        }
    }

    /// When [`Self::rescan`] has something to do, if nothing comes.
    pub(in crate::group::divided) fn next_rescan_ms(&self) -> Option<u64> {
        (self.has_copies && !self.placement.is_down_here()).then(|| self.rescan.next_ms())
    }

    /// The cells that were asked for, as they were by the map of `epoch`: `put` puts them in.
    pub(in crate::group::divided) fn hear_fetched(
        &mut self,
        parts: CellParts,
        (epoch, now_ms): (u64, u64),
        limits: &OwnerLimits,
        put: impl FnMut(Entry) -> Result<(), PartError>,
    ) {
        self.copying.hear(parts, (epoch, now_ms), limits, put);
    }

    /// What another copy has that has everything, as the one here.
    pub(in crate::group::divided) fn compare_cells(
        &mut self,
        parts: CellParts,
        own: &mut OwnSlices,
        bytes_per_s_max: u64,
        now_ms: u64,
    ) {
        self.rescan.hear(parts, now_ms, bytes_per_s_max, |slice, run| own.lacks_cells(slice, run));
    }
}
