//! The filter BF_0 in front of the counters, which answers "never seen" for events that it does not know (Cheng et al.,
//! section 4). The filter of the paper keeps all events forever, whereas this one forgets old events.
//!
//! BF_0 knows a recorded event for at least `forget_epochs` and for at most twice that time. If `forget_epochs` is
//! `None`, it knows the event forever.
//!
//! This module does not depend on counters.

use std::io;

use crate::ahead::Positions;
use crate::packed::PackedCells;
use crate::unit_number::UnitNumber;
use crate::{Digest, Geometry, GeometryError, Layout};

/// Two arrays of bits that take turns: one for recent events, and one for the events before them.
pub(super) struct RecentKeys {
    geometry: Geometry,
    arrays: [PackedCells; 2],
    forget_epochs: Option<u64>,
}

impl RecentKeys {
    /// Returns the geometry of BF_0. BF_0 has half as many cells as there are counters, and an event has half as many
    /// positions in BF_0 as in the counters. Both numbers are rounded up. BF_0 is therefore as full as the counters
    /// are. Its cells are bits, so each of its arrays takes half a bit per counter.
    pub(super) fn shape_for(cells: u64, hashes: u32) -> Result<Geometry, GeometryError> {
        Geometry::new(cells.div_ceil(2), hashes.div_ceil(2), 1, Layout::Classic)
    }

    pub(super) fn new(geometry: Geometry, forget_epochs: Option<u64>) -> io::Result<Self> {
        let bits = geometry.cells();
        // If nothing is ever forgotten, the second array is never written, so it needs no memory.
        let arrays =
            [PackedCells::zeroed(bits, 1)?, PackedCells::zeroed(if forget_epochs.is_some() { bits } else { 1 }, 1)?];
        Ok(Self { geometry, arrays, forget_epochs })
    }

    /// Returns the positions of an event in BF_0. They are derived from the positions of the event in the counters. The
    /// usual way would be to derive them from the digest of the event. This is not possible here, because some
    /// producers send only the positions of an event and keep its digest.
    #[inline(always)]
    pub(super) fn find(&self, counters: &Positions) -> Positions {
        let mixed = counters.iter().fold(Digest::default(), |mixed, position| {
            let Digest { lo, hi } = mixed;
            let next = Digest { lo: lo ^ position as u64, hi };
            Digest { lo: next.word(0), hi: next.word(1) }
        });
        Positions::of_digest(mixed, &self.geometry)
    }

    pub(super) fn prefetch(&self, positions: &Positions, epoch: UnitNumber) {
        let (recent, _) = self.arrays_at(epoch);
        positions.iter().for_each(|position| recent.prefetch(position));
    }

    fn turn(&self, epoch: UnitNumber) -> u64 {
        self.forget_epochs.map_or(0, |epochs| epoch.0 / epochs)
    }

    fn arrays_at(&self, epoch: UnitNumber) -> (&PackedCells, &PackedCells) {
        let [even, odd] = &self.arrays;
        if self.turn(epoch).is_multiple_of(2) { (even, odd) } else { (odd, even) }
    }

    pub(super) fn record(&mut self, positions: &Positions, epoch: UnitNumber) {
        let turn = self.turn(epoch);
        let recent = &mut self.arrays[(turn % 2) as usize];
        positions.iter().for_each(|position| recent.set(position, 1));
    }

    /// Returns whether the event may have been recorded recently. The lookup is made in `epoch`, which must be
    /// `filter_epoch` or later.
    pub(super) fn holds(&self, positions: &Positions, filter_epoch: UnitNumber, epoch: UnitNumber) -> bool {
        let (recent, before) = self.arrays_at(filter_epoch);
        match self.turn(epoch) - self.turn(filter_epoch) {
            0 => all_set(recent, positions) || self.forget_epochs.is_some() && all_set(before, positions),
            1 => all_set(recent, positions),
            _ => false,
        }
    }

    /// Clears the arrays whose events are forgotten by `until_epoch`.
    pub(super) fn advance(&mut self, from_epoch: UnitNumber, until_epoch: UnitNumber) {
        let from = self.turn(from_epoch);
        let until = self.turn(until_epoch);
        if until > from {
            self.arrays[(until % 2) as usize].clear();
        }
        if until > from + 1 {
            self.arrays[(from % 2) as usize].clear();
            self.arrays[1 - (from % 2) as usize].clear();
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.arrays.iter().map(|array| array.bytes().len() as u64).sum()
    }

    /// Returns the false-positive rate of BF_0, which is the probability that BF_0 knows an event that it never saw.
    /// BF_0 knows an event if one of its two arrays has all k bits of the event set, so the rate is
    /// `1 - (1 - p_0^k)(1 - p_1^k)`. Here p_0 and p_1 are the fills of the two arrays, which are estimated from the first
    /// `bytes_max` bytes of each array.
    pub(super) fn rate_within(&self, bytes_max: usize) -> f64 {
        let hashes = f64::from(self.geometry.hashes());
        let unknown = self.arrays.iter().map(|array| 1.0 - array.share_occupied(bytes_max).powf(hashes));
        1.0 - unknown.product::<f64>()
    }

    pub(super) fn write(&self, sink: &mut dyn io::Write) -> io::Result<()> {
        self.arrays.iter().try_for_each(|array| array.write(sink))
    }

    pub(super) fn read(&mut self, source: &mut dyn io::Read) -> io::Result<()> {
        self.arrays.iter_mut().try_for_each(|array| array.read(source))
    }
}

fn all_set(array: &PackedCells, positions: &Positions) -> bool {
    positions.iter().all(|position| array.get(position) == 1)
}
