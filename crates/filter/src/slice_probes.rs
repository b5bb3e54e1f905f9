//! A [`CellSlice`] that is asked by positions instead of digests.
//!
//! Promises: a call is refused before anything is touched, or not at all; answers are the same as by digests. Must not
//! know: how positions travel.

use std::ops::Range;

use crate::cell_kind::CellKind;
use crate::probes::AskError;
use crate::probes::Probed;
use crate::slice::CellSlice;
use crate::{ProbeShape, Probes, Stamp, Verdict};

#[allow(private_bounds)]
impl<K: CellKind> CellSlice<K> {
    /// The shape of the positions that the slice takes.
    pub fn probe_shape(&self) -> ProbeShape {
        ProbeShape::of(&self.base)
    }

    /// Whether the slice can be asked by positions: all generations that it has or opens must have one shape.
    pub fn takes_probes(&self) -> bool {
        self.growth.is_none_or(|growth| growth.keeps_shape())
            && self.stack.iter().all(|generation| generation.geometry == self.base)
    }

    /// As [`Self::observe_batch`], for the events of `probes` in `range`.
    ///
    /// # Errors
    /// [`AskError`]; nothing is touched then.
    ///
    /// # Panics
    /// If there is not one stamp and one verdict an event.
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

    /// As [`Self::lookup_batch`], for the events of `probes` in `range`.
    ///
    /// # Errors
    /// [`AskError`]; nothing is touched then.
    ///
    /// # Panics
    /// If there is not one stamp and one verdict an event.
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
