//! Splits a [`FilterSlice`] into parts, and assembles it from them. Copies of a slice on disks and on other nodes are
//! made of such parts.
//!
//! The guarantees of [`crate::slice_copy`] apply to the copies. A slice whose kind does not consist of generations of
//! cells cannot be copied in parts.
//!
//! This module does not depend on how parts travel between nodes.

use super::{Cells, FilterSlice};
use crate::ahead::PREFETCH_EVENTS;
use crate::{CellRun, GenerationNumber, PartError, Probes, SliceOutline, Stamp};

/// Error of kinds whose cells depend on the order of events, so that a slice cannot be assembled from parts.
const NO_PARTS: PartError = PartError::Misfit("the kind has no parts");

impl FilterSlice {
    /// Returns the state of the slice without its cells. `None` means that the kind has no parts (counting, stable,
    /// decaying).
    ///
    /// ```
    /// use firstseen_filter::{FilterSecret, FilterSlice, FilterSpec, Kind, Stamp, UnitNumber, Verdict};
    /// let spec = FilterSpec {
    ///     capacity_events: Some(1000),
    ///     ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap())
    /// };
    /// let definition = spec.resolve().unwrap();
    /// let (mut slice, mut copy) =
    ///     (FilterSlice::build(&definition).unwrap(), FilterSlice::build(&definition).unwrap());
    /// let (digest, stamp) = ([FilterSecret::from_seed(1).digest(b"click")], [Stamp::on_time(UnitNumber(7))]);
    /// slice.observe_batch(&digest, &stamp, &mut [Verdict::Undecided]);
    ///
    /// copy.put_outline(&slice.outline().unwrap()).unwrap();
    /// copy.put_cells(&slice.cell_run(slice.newest_generation(), 0, usize::MAX / 2).unwrap()).unwrap();
    /// copy.recount();
    /// let mut verdict = [Verdict::Undecided];
    /// copy.observe_batch(&digest, &stamp, &mut verdict);
    /// assert_eq!(verdict, [Verdict::Duplicate]);
    /// ```
    pub fn outline(&self) -> Option<SliceOutline> {
        on_kind!(&self.0, slice => Some(slice.outline()), _flags => None)
    }

    /// Replaces the state of the slice by an outline. See [`crate::CellSlice::put_outline`].
    ///
    /// # Errors
    /// Returns [`PartError`] if the outline does not fit. The slice is then unchanged or empty.
    pub fn put_outline(&mut self, outline: &SliceOutline) -> Result<(), PartError> {
        on_kind!(&mut self.0, slice => slice.put_outline(outline), _flags => Err(NO_PARTS))
    }

    /// Returns a run of consecutive cells. See [`crate::CellSlice::cell_run`].
    pub fn cell_run(&self, generation: GenerationNumber, start_bytes: u64, bytes_max: usize) -> Option<CellRun> {
        on_kind!(&self.0, slice => slice.cell_run(generation, start_bytes, bytes_max), _flags => None)
    }

    /// Adds the live cells of a run to the slice. See [`crate::CellSlice::put_cells`].
    ///
    /// # Errors
    /// Returns [`PartError`] if the run does not fit. The slice is then unchanged.
    pub fn put_cells(&mut self, run: &CellRun) -> Result<(), PartError> {
        on_kind!(&mut self.0, slice => slice.put_cells(run), _flags => Err(NO_PARTS))
    }

    /// Returns whether this slice lacks live cells of a run. See [`crate::CellSlice::lacks_cells`].
    ///
    /// # Errors
    /// Returns [`PartError`] if the run does not fit.
    pub fn lacks_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        on_kind!(&mut self.0, slice => slice.lacks_cells(run), _flags => Err(NO_PARTS))
    }

    /// Adds the live cells of a run that this slice lacks. See [`crate::CellSlice::put_missing_cells`].
    ///
    /// # Errors
    /// Returns [`PartError`] if the run does not fit. The slice is then unchanged.
    pub fn put_missing_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        on_kind!(&mut self.0, slice => slice.put_missing_cells(run), _flags => Err(NO_PARTS))
    }

    /// Records an event in a generation. See [`crate::CellSlice::put_event`].
    ///
    /// # Errors
    /// Returns [`PartError`] if the event does not fit. The slice is then unchanged.
    pub fn put_event(
        &mut self,
        generation: GenerationNumber,
        positions: &[u64],
        stamp: Stamp,
    ) -> Result<(), PartError> {
        on_kind!(&mut self.0, slice => slice.put_event(generation, positions, stamp), _flags => Err(NO_PARTS))
    }

    /// Records the events of `probes` in a generation. `stamps` has one stamp per event.
    ///
    /// # Errors
    /// Returns [`PartError`] if an event does not fit. The events before it are recorded.
    pub fn put_probes(
        &mut self,
        generation: GenerationNumber,
        probes: &Probes,
        stamps: &[Stamp],
    ) -> Result<(), PartError> {
        if probes.shape() != self.probe_shape() || probes.len() != stamps.len() {
            return Err(PartError::Misfit("positions of another shape"));
        }
        let mut positions = Vec::new();
        let mut ahead = Vec::new();
        let mut is_full = false;
        for (index, stamp) in stamps.iter().enumerate() {
            if index + PREFETCH_EVENTS < stamps.len() {
                probes.unpack(index + PREFETCH_EVENTS, &mut ahead);
                self.prefetch(generation, &ahead);
            }
            probes.unpack(index, &mut positions);
            match self.put_event(generation, &positions, *stamp) {
                // The remaining events may still find room in other parts of the slice.
                Err(PartError::Full) => is_full = true,
                put => put?,
            }
        }
        if is_full { Err(PartError::Full) } else { Ok(()) }
    }

    /// Counts the used cells again. Call this method after all parts have been added.
    pub fn recount(&mut self) {
        on_kind!(&mut self.0, slice => slice.recount(), _flags => ());
    }
}
