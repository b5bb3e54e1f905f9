//! What the kinds that live in a [`crate::slice::CellSlice`] have in common.
//!
//! Promises: a kind is a rule for cells plus upkeep as time passes; it owns no memory. Must not know: batches, growth.

use crate::generation::Generation;
use crate::kernel::CellRule;
use crate::{Stamp, WindowRule};

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
}

/// What a walk changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recording {
    /// Nothing.
    Nothing,
    /// Of kinds whose duplicates start the window again: the cells of events found here, and in no older generation.
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

/// What a walk has recorded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// Events that were not found and are recorded now.
    pub(crate) events: u64,
    /// Cells that went from empty to used, where the pass counts them.
    pub(crate) cells: u64,
    /// Whether events that were found live longer now.
    pub(crate) refreshed: bool,
}

/// A kind of cell with its window rule.
pub(crate) trait CellKind: PartialEq {
    /// The rule for one walk.
    type Rule<'a>: CellRule
    where
        Self: 'a;

    /// Units that a batch may span beyond the lateness before upkeep must catch up.
    const SLACK_UNITS: u64;

    /// The window in units.
    fn window(&self) -> &WindowRule;

    /// The rule for one walk when the greatest unit is `now`.
    fn rule<'a>(&'a self, pass: Pass<'a>, now: u64) -> Self::Rule<'a>;

    /// What the walk has recorded.
    fn recorded(rule: &Self::Rule<'_>) -> Recorded;

    /// Moves the cells from unit `now` to the later unit `next`: whatever must be gone by then is gone.
    fn advance(&self, generation: &mut Generation, now: u64, next: u64);

    /// A bounded step of upkeep: at most `budget_bytes` of cells.
    fn sweep(&self, generation: &mut Generation, now: u64, budget_bytes: usize);

    /// The chance that an unseen event finds all its cells alive, from the cells as they are.
    fn rate(&self, generation: &Generation, now: u64) -> f64;

    /// Which generations of a word (bit 0 alone where a cell is no word) hold all of `positions`, as an event stamped
    /// `stamp` sees them, and the least expiry found there.
    fn sight(&self, generation: &Generation, positions: &[u64], stamp: Stamp, now: u64) -> (u16, u64);

    /// Sets the cells at `positions` for an event stamped `stamp`, found or not, and tells how many of them were empty,
    /// where the kind keeps count. Made for one event alone: it prepares nothing that only a batch would pay for.
    fn set(&self, generation: &mut Generation, positions: &[u64], stamp: Stamp, now: u64) -> u64;

    /// Appends the expiries of the cells at `positions`, 0 where a cell is not alive for `stamp`; nothing where cells
    /// have none of their own.
    fn push_expiries(&self, _: &Generation, _positions: &[u64], _: Stamp, _now: u64, _expiries: &mut Vec<u64>) {}

    /// Adds to `cells` whatever of `others`, a memory of the same geometry, is alive; both stand at unit `now`. Tells
    /// how many cells are used then, where the kind keeps count.
    fn merge(&self, cells: &mut [u8], others: &[u8], now: u64) -> u64;
}
