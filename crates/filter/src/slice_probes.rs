//! Tests and records events in a [`CellSlice`] by positions instead of digests.
//!
//! - A call that is rejected changes nothing. All checks happen before the first cell is touched.
//! - The answers are the same as for the digests of the events.
//!
//! This module does not depend on how positions travel between nodes.

use std::ops::Range;

use crate::cell_kind::CellKind;
use crate::probes::AskError;
use crate::probes::Probed;
use crate::slice::CellSlice;
use crate::{ProbeShape, Probes, Stamp, Verdict};

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// Returns the shape of the positions that the slice accepts.
    pub fn probe_shape(&self) -> ProbeShape {
        ProbeShape::of(&self.base)
    }

    /// Returns whether the slice can be asked by positions. For this, all generations that it has or may open must have
    /// the same geometry.
    pub fn takes_probes(&self) -> bool {
        self.growth.is_none_or(|growth| growth.keeps_shape())
            && self.stack.iter().all(|generation| generation.geometry == self.base)
    }

    /// Observes the events of `probes` in `range` by their positions. Apart from that, the call works like
    /// [`Self::observe_batch`].
    ///
    /// # Errors
    /// Returns [`AskError`] if the slice cannot be asked in this way. The slice is unchanged in that case.
    ///
    /// # Panics
    /// Panics unless there is one stamp and one verdict per event.
    pub fn observe_probes(
        &mut self,
        probes: &Probes,
        range: Range<usize>,
        stamps: &[Stamp],
        verdicts: &mut [Verdict],
    ) -> Result<(), AskError> {
        self.walk(self.probed(probes, range)?, stamps, verdicts, true);
        Ok(())
    }

    /// Looks up the events of `probes` in `range` by their positions. Apart from that, the call works like
    /// [`Self::lookup_batch`].
    ///
    /// # Errors
    /// Returns [`AskError`] if the slice cannot be asked in this way. The slice is unchanged in that case.
    ///
    /// # Panics
    /// Panics unless there is one stamp and one verdict per event.
    pub fn lookup_probes(
        &mut self,
        probes: &Probes,
        range: Range<usize>,
        stamps: &[Stamp],
        verdicts: &mut [Verdict],
    ) -> Result<(), AskError> {
        self.walk(self.probed(probes, range)?, stamps, verdicts, false);
        Ok(())
    }

    fn probed<'a>(&self, probes: &'a Probes, range: Range<usize>) -> Result<Probed<'a>, AskError> {
        if !self.takes_probes() {
            return Err(AskError::Grows);
        }
        probes.in_shape(range, self.probe_shape())
    }
}
