//! What the kinds that live in a [`crate::slice::CellSlice`] have in common.
//!
//! Promises: a kind is a rule for cells plus upkeep as time passes; it owns no memory. Must not know: batches, growth.

use crate::arch::LINE_BYTES;
use crate::generation::{Generation, LiveEvents};
use crate::kernel::Walk;
use crate::unit_number::UnitNumber;
use crate::{Layout, Stamp, WindowRule};

/// One walk over a batch.
#[derive(Clone, Copy)]
pub(crate) struct Pass<'a> {
    /// A stamp for every event of the batch.
    pub(crate) stamps: &'a [Stamp],
    /// Events found in an older generation; empty where there is none.
    pub(crate) known: &'a [bool],
    pub(crate) record: Recording,
    /// Whether [`Recorded::cells`] is asked for.
    pub(crate) counts_cells: bool,
    /// Cells in use before the walk, where the kind keeps count.
    pub(crate) used_cells: u64,
}

/// The cells that a walk changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    /// Nothing.
    Nothing,
    /// For kinds whose duplicates start the window again: the cells of events found here, and in no older generation.
    Refreshes,
    /// The cells of events that are not found, and of all duplicates that start the window again.
    Everything,
}

impl Pass<'_> {
    #[inline(always)]
    pub(crate) fn is_known(&self, index: usize) -> bool {
        !self.known.is_empty() && self.known[index]
    }
}

/// The counts of a walk, or of one event.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// Events that were not found and are recorded now.
    pub(crate) events: u64,
    /// Cells that went from empty to used, where the pass counts them.
    pub(crate) cells: u64,
    /// Whether events that were found live longer now.
    pub(crate) refreshed: bool,
}

impl Recorded {
    /// One event, for which so many cells were empty.
    pub(crate) fn one(cells: u64) -> Self {
        Self { events: 1, cells, refreshed: false }
    }
}

/// Bytes of cells that are read to estimate how densely a slice is set, where reading all would take too long: a
/// million timers, which give the fill within 0.2 % of the whole, as hashing spreads events evenly.
pub const FILL_SAMPLE_BYTES: usize = 1 << 20;

/// Bytes of cells that are read to estimate the rate for a person: they give a sixteenth of the error above, and a wait
/// that does not grow with the filter.
pub const RATE_SAMPLE_BYTES: usize = 1 << 24;

/// The first `bytes_max` bytes of `cells` in whole pieces of `piece_bytes`, one piece at least; all where there are no
/// more.
pub(crate) fn sample(cells: &[u8], bytes_max: usize, piece_bytes: usize) -> &[u8] {
    let bytes = (bytes_max / piece_bytes).max(1).saturating_mul(piece_bytes);
    &cells[..bytes.min(cells.len())]
}

/// How densely cells are set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Density {
    /// The share of cells that are alive.
    pub fill: f64,
    /// The chance that an unseen event finds all its cells alive.
    pub rate: f64,
}

impl Density {
    /// The density of blocks of one size, each of which an event meets with the same chance.
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

/// The density of a generation by that of a part of its bytes: the whole of them, or the mean over blocks where cells lie
/// in blocks. Reads about `bytes_max` bytes, the first ones.
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

/// A kind of cell with its window rule.
pub(crate) trait CellKind: PartialEq {
    /// The rule for one walk.
    type Rule<'a>: Walk
    where
        Self: 'a;

    /// Units that a batch may span beyond the lateness before upkeep must catch up.
    const SLACK_UNITS: u64;

    /// Whether a walk must not go beyond a unit: where an event that is not found may be there already, or find no room,
    /// only the walk itself counts how many are recorded, all in one unit.
    const COUNTS_ALONE: bool = false;

    /// Cells that are visited together by a sweep, in bytes.
    const SWEEP_BYTES: usize = 2;

    /// Cells that are read, written and merged together, in bytes.
    const RUN_BYTES: usize = 2;

    /// The window in units.
    fn window(&self) -> &WindowRule;

    /// The window for which an event counts among those that fill the cells.
    fn counted(&self) -> WindowRule {
        *self.window()
    }

    /// The rule for one walk when the greatest unit is `now`.
    fn rule<'a>(&'a self, pass: Pass<'a>, now: UnitNumber) -> Self::Rule<'a>;

    /// The counts of the walk by this rule.
    fn recorded(rule: &Self::Rule<'_>) -> Recorded;

    /// The events of the walk that were not found and found no room, where cells can be too full for an event.
    fn take_refused(_: &mut Self::Rule<'_>) -> Vec<usize> {
        Vec::new()
    }

    /// Notes in `live` what events that were found live longer now.
    fn note_refreshed(rule: &Self::Rule<'_>, live: &mut LiveEvents, now: UnitNumber) {
        if Self::recorded(rule).refreshed {
            live.refresh(now);
        }
    }

    /// Moves the cells from unit `now` to the later unit `next`: all cells that must be gone by then are gone.
    fn advance(&self, generation: &mut Generation, now: UnitNumber, next: UnitNumber);

    /// A bounded step of upkeep: at most `budget_bytes` of cells.
    fn sweep(&self, generation: &mut Generation, now: UnitNumber, budget_bytes: usize);

    /// How densely the cells are set as they are; reads the first `bytes_max` bytes of them.
    fn density(&self, generation: &Generation, now: UnitNumber, bytes_max: usize) -> Density;

    /// Which generations of a word (bit 0 alone where a cell is no word) hold all of `positions`, as an event stamped
    /// `stamp` sees them, and the least expiry found there.
    fn sight(&self, generation: &Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> (u16, UnitNumber);

    /// Sets the cells at `positions` for an event stamped `stamp`, found or not, and returns what is recorded then: an
    /// event, unless the kind knows that it was there, and how many cells were empty, where the kind keeps count; `None`
    /// where there is no room. This is for one event alone: it prepares nothing that pays off only in a batch.
    fn set(&self, generation: &mut Generation, positions: &[u64], stamp: Stamp, now: UnitNumber) -> Option<Recorded>;

    /// Appends the expiries of the cells at `positions`, 0 where a cell is not alive for `stamp`; nothing where cells
    /// have none of their own.
    fn push_expiries(
        &self,
        _: &Generation,
        _positions: &[u64],
        _: Stamp,
        _now: UnitNumber,
        _expiries: &mut Vec<UnitNumber>,
    ) {
    }

    /// Adds to `cells`, which stand at unit `now`, all live cells of `others`, a memory of the same geometry as it
    /// stood at unit `then`, not later and [`Self::age_max_units`] earlier at most. Returns how many cells are then
    /// used, where the kind keeps count; `None` where there was no room for all.
    fn merge(&self, cells: &mut [u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> Option<u64>;

    /// Whether `others` have live cells that `cells` lack, or forget earlier; both as [`Self::merge`] takes them.
    fn lacks(&self, cells: &[u8], others: &[u8], then: UnitNumber, now: UnitNumber) -> bool;

    /// The greatest age, in units, up to which cells of different units differ.
    fn age_max_units(&self) -> u64;

    /// How many cells are used, where the kind keeps count.
    fn used(&self, cells: &[u8]) -> u64;

    /// Whether `cells`, which came from outside, may be those of such a slice at unit `then`.
    fn can_hold(&self, _cells: &[u8], _then: UnitNumber) -> bool {
        true
    }
}
