//! A [`FilterSlice`] in parts, for its copies on disks and other nodes.
//!
//! Promises: as [`crate::slice_copy`]; kinds without generations of cells have no parts. Must not know: how parts
//! travel.

use super::{Cells, FilterSlice};
use crate::ahead::PREFETCH_EVENTS;
use crate::{CellRun, GenerationNumber, PartError, Probes, SliceOutline, Stamp};

/// The error of kinds whose cells depend on the order of events.
const NO_PARTS: PartError = PartError::Misfit("a kind that has no parts");

impl FilterSlice {
    /// The slice's state beside its cells; `None` where the kind has no parts (counting, stable, decaying).
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

    /// Takes up an outline, as [`crate::CellSlice::put_outline`] says.
    ///
    /// # Errors
    /// [`PartError`]: the slice is as it was, or empty.
    pub fn put_outline(&mut self, outline: &SliceOutline) -> Result<(), PartError> {
        on_kind!(&mut self.0, slice => slice.put_outline(outline), _flags => Err(NO_PARTS))
    }

    /// A run of cells, as [`crate::CellSlice::cell_run`] says.
    pub fn cell_run(&self, generation: GenerationNumber, start_bytes: u64, bytes_max: usize) -> Option<CellRun> {
        on_kind!(&self.0, slice => slice.cell_run(generation, start_bytes, bytes_max), _flags => None)
    }

    /// Adds the live cells of a run, as [`crate::CellSlice::put_cells`] says.
    ///
    /// # Errors
    /// [`PartError`]: the slice is as it was.
    pub fn put_cells(&mut self, run: &CellRun) -> Result<(), PartError> {
        on_kind!(&mut self.0, slice => slice.put_cells(run), _flags => Err(NO_PARTS))
    }

    /// Whether live cells of a run are missing here, as [`crate::CellSlice::lacks_cells`] says.
    ///
    /// # Errors
    /// [`PartError`].
    pub fn lacks_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        on_kind!(&mut self.0, slice => slice.lacks_cells(run), _flags => Err(NO_PARTS))
    }

    /// Adds the live cells of a run that are missing here, as [`crate::CellSlice::put_missing_cells`] says.
    ///
    /// # Errors
    /// [`PartError`]: the slice is as it was.
    pub fn put_missing_cells(&mut self, run: &CellRun) -> Result<bool, PartError> {
        on_kind!(&mut self.0, slice => slice.put_missing_cells(run), _flags => Err(NO_PARTS))
    }

    /// Records an event in a generation, as [`crate::CellSlice::put_event`] says.
    ///
    /// # Errors
    /// [`PartError`]: the slice is as it was.
    pub fn put_event(
        &mut self,
        generation: GenerationNumber,
        positions: &[u64],
        stamp: Stamp,
    ) -> Result<(), PartError> {
        on_kind!(&mut self.0, slice => slice.put_event(generation, positions, stamp), _flags => Err(NO_PARTS))
    }

    /// Records events of `probes` in a generation: one stamp an event.
    ///
    /// # Errors
    /// [`PartError`]: events before the one that does not fit are recorded.
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
                // Elsewhere in the slice there may be room for the others.
                Err(PartError::Full) => is_full = true,
                put => put?,
            }
        }
        if is_full { Err(PartError::Full) } else { Ok(()) }
    }

    /// Counts the cells in use anew, when all parts are in.
    pub fn recount(&mut self) {
        on_kind!(&mut self.0, slice => slice.recount(), _flags => ());
    }
}
