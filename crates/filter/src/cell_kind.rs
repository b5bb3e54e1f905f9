//! Common interface of the kinds whose cells live in a [`crate::slice::CellSlice`].
//!
//! A kind consists of a rule for cells and of maintenance as time passes. It owns no memory.
//!
//! This module does not depend on batches or growth.

use crate::arch::LINE_BYTES;
use crate::generation::{Generation, LiveEvents};
use crate::kernel::Walk;
use crate::unit_number::UnitNumber;
use crate::{Layout, Stamp, WindowRule};

/// Input of one pass over the events of a batch.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    /// Stamps of the events, one per event.
    pub(crate) stamps: &'a [Stamp],
    /// For each event, whether an older generation holds it. The slice is empty if there is no older generation.
    pub(crate) known: &'a [bool],
    pub(crate) record: Recording,
    /// Whether the pass must count used cells ([`Recorded::cells`]).
    pub(crate) counts_cells: bool,
    /// Number of used cells before the pass, if the kind counts them.
    pub(crate) used_cells: u64,
}

/// Cells that a pass may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    /// No cells.
    Nothing,
    /// Cells of events that are found in this generation and in no older one. This only matters for kinds whose
    /// duplicates restart the window.
    Refreshes,
    /// Cells of events that are not found, and cells of all duplicates that restart their window.
    Everything,
}

impl Pass<'_> {
    #[inline(always)]
    pub(crate) fn is_known(&self, index: usize) -> bool {
        !self.known.is_empty() && self.known[index]
    }
}

/// Counts of a pass or of a single event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// Number of events that were not found and have been recorded.
    pub(crate) events: u64,
    /// Number of cells that changed from empty to used, if the pass counts them.
    pub(crate) cells: u64,
    /// Whether the pass extended the lifetime of events that were found.
    pub(crate) refreshed: bool,
}

impl Recorded {
    /// Returns the counts of one event for which `cells` cells were empty.
    pub(crate) fn one(cells: u64) -> Self {
        Self { events: 1, cells, refreshed: false }
    }
}

/// Number of bytes that a caller should read to estimate the share of set cells in a slice, if reading all cells would
/// take too long. Hashing spreads events evenly, so the first bytes of a slice represent all its cells. For example, a
/// sample of a million timers gives the share with an error of at most 0.2 %.
pub const FILL_SAMPLE_BYTES: usize = 1 << 20;

/// Number of bytes of cells that are read to estimate the false-positive rate that a user sees in statistics. The
/// sample is sixteen times larger than [`FILL_SAMPLE_BYTES`]. Its size is fixed, so the time to read it does not grow
/// with the filter.
pub const RATE_SAMPLE_BYTES: usize = 1 << 24;

/// Returns the first `bytes_max` bytes of `cells` as a sample. The sample ends at the end of a piece of `piece_bytes`
/// bytes, so its size is rounded down to whole pieces, but the sample has at least one piece. If there are fewer cells
/// than that, all cells are returned.
pub(crate) fn sample(cells: &[u8], bytes_max: usize, piece_bytes: usize) -> &[u8] {
    let bytes = (bytes_max / piece_bytes).max(1).saturating_mul(piece_bytes);
    &cells[..bytes.min(cells.len())]
}

/// How densely cells are set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Density {
    /// Share of cells that are alive.
    pub fill: f64,
    /// Probability that an event that was never seen finds all its cells alive.
    pub rate: f64,
}

impl Density {
    /// Returns the mean density of blocks of equal size. An event falls into each block with the same probability.
    pub(crate) fn mean(blocks: impl Iterator<Item = Self>) -> Self {
        let mut sum = Self::default();
        let mut count = 0u64;
        for block in blocks {
            sum = Self { fill: sum.fill + block.fill, rate: sum.rate + block.rate };
            count += 1;
        }
        let count = count.max(1) as f64;
        Self { fill: sum.fill / count, rate: sum.rate / count }
    }
}

/// Estimates the density of a generation from a sample of about the first `bytes_max` bytes of its memory. The density
/// has two parts: the share of the generation's cells that are alive, and the false-positive rate that follows from
/// this share.
///
/// If the layout has blocks, the result is the mean of the densities of the blocks in the sample, because each block
/// may be filled differently. Otherwise the result is the density of the sample as a whole.
pub(crate) fn density_of(
    generation: &Generation,
    bytes_max: usize,
    cell_bytes: usize,
    density: impl Fn(&[u8]) -> Density,
) -> Density {
    let bytes = generation.memory.bytes();
    match generation.geometry.layout() {
        Layout::Classic | Layout::Partitioned | Layout::Buckets { .. } => density(sample(bytes, bytes_max, cell_bytes)),
        Layout::Blocked { lines } => {
            let block_bytes = usize::from(lines) * LINE_BYTES;
            Density::mean(sample(bytes, bytes_max, block_bytes).chunks_exact(block_bytes).map(density))
        }
    }
}

/// Kind of cell, together with the rule of its window.
pub(crate) trait CellKind: PartialEq {
    /// Rule for the cells in one pass.
    type Rule<'a>: Walk
    where
        Self: 'a;

    /// Number of units that a batch may span beyond the lateness before maintenance must catch up.
    const SLACK_UNITS: u64;

    /// Whether all events of a pass over the cells must belong to the same unit of the window.
    ///
    /// For most kinds this is `false`, because the caller counts the new events after the pass: every event that was
    /// not found is a new event of its unit. For some kinds this count would be wrong. There, an event that was not
    /// found may still have an entry already, or it may not be recorded because there is no room. Such a kind counts
    /// the recorded events itself during the pass. It keeps a single count, so all events of the pass must have the
    /// same unit.
    const COUNTS_ALONE: bool = false;

    /// Size of the cells that a sweep visits together, in bytes.
    const SWEEP_BYTES: usize = 2;

    /// Size of the cells that are read, written and merged together, in bytes.
    const RUN_BYTES: usize = 2;

    /// Returns the window in units.
    fn window(&self) -> &WindowRule;

    /// Returns the window during which an event counts towards the capacity.
    fn counted(&self) -> WindowRule {
        *self.window()
    }

    /// Returns the rule for one pass, if the greatest unit so far is `now`.
    fn rule<'a>(&'a self, pass: Pass<'a>, now: UnitNumber) -> Self::Rule<'a>;

    /// Returns the counts of a finished pass.
    fn recorded(rule: &Self::Rule<'_>) -> Recorded;

    /// Returns the indexes of the events that were new but could not be recorded, because there was no room for them.
    /// Only kinds whose cells can be too full for an event return any indexes.
    fn take_refused(_: &mut Self::Rule<'_>) -> Vec<usize> {
        Vec::new()
    }

    /// Updates `live`, if the pass extended the lifetime of events that were found.
    fn note_refreshed(rule: &Self::Rule<'_>, live: &mut LiveEvents, now: UnitNumber) {
        if Self::recorded(rule).refreshed {
            live.refresh(now);
        }
    }

    /// Moves the cells from unit `now` to the later unit `next`. Afterwards no cell that expires by `next` is set.
    fn advance(&self, generation: &mut Generation, now: UnitNumber, next: UnitNumber);

    /// Performs a bounded step of maintenance, which visits at most `budget_bytes` of cells.
    fn sweep(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize);

    /// Returns how densely the cells are set. The call reads the first `bytes_max` bytes of the cells.
    fn density(&self, generation: &Generation, now: UnitNumber, bytes_max: usize) -> Density;

    /// Tests whether the cells at `positions` are alive for an event with stamp `stamp`. A cell is alive if it is set
    /// and has not expired at the time of the event.
    ///
    /// The first return value is a bit mask in which each bit stands for a generation. The bit is set if all cells at
    /// `positions` are alive in that generation. A kind that stores the cells of several generations in one word
    /// returns a bit for each of these generations. All other kinds return only bit 0, which stands for the generation
    /// in the parameter `generation`.
    ///
    /// The second return value is the earliest expiry among the cells.
    fn sight(&self, generation: &Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> (u16, UnitNumber);

    /// Sets the cells at `positions` for an event with stamp `stamp`, even if the event is already recorded. Returns
    /// `None` if there is no room for the event.
    ///
    /// The result contains the number of events that this call has added. This number is normally 1. It is 0 if the
    /// kind can tell that the event was recorded before. If the kind counts used cells, the result also contains the
    /// number of cells that were empty before the call.
    ///
    /// This method is meant for single events. It makes no preparations that pay off only for a batch.
    fn set(&self, generation: &mut Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> Option<Recorded>;

    /// Appends the expiry of each cell at `positions` to `expiries`. The expiry is 0 for a cell that is not alive for
    /// `stamp`. If the cells of this kind have no expiry of their own, the method appends nothing.
    fn push_expiries(
        &self,
        _: &Generation,
        _positions: &[u64],
        _: Stamp,
        _now: UnitNumber,
        _expiries: &mut Vec<UnitNumber>,
    ) {
    }

    /// Adds all live cells of `others` to `cells`. Both parameters are the memory of a generation, and both generations
    /// must have the same geometry. The window of `cells` has advanced to unit `now`, and the window of `others` has
    /// advanced to unit `then`. The memory `others` must not be newer than `cells`, so `then` must not be after `now`.
    /// It must not be too old either, so `then` must be at most [`Self::age_max_units`] before `now`.
    ///
    /// Returns the number of used cells after the call, if the kind counts them. Returns `None` if there was no room
    /// for all cells.
    fn merge(&self, cells: &mut [u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> Option<u64>;

    /// Returns whether `others` have live cells that are missing in `cells` or expire earlier there. The parameters are
    /// those of [`Self::merge`].
    fn lacks(&self, cells: &[u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> bool;

    /// Returns the maximum age of cells in units. Two memories further apart cannot be compared.
    fn age_max_units(&self) -> u64;

    /// Returns the number of used cells, if the kind counts them.
    fn used(&self, cells: &[u8]) -> u64;

    /// Returns whether `cells` from an untrusted source can be the cells of such a slice at unit `then`.
    fn can_hold(&self, _cells: &[u8], _then: UnitNumber) -> bool {
        true
    }
}
