//! Formulas for a filter with a jumping window that receives an arbitrary stream. They give the expected fill of the
//! filter, and the probability that it has recorded a key.
//!
//! The formulas use only the order in which the keys of a stream arrive.
//!
//! This module does not depend on filters, streams or logs.

use std::collections::HashMap;

/// Rule by which the cells of a jumping window decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpingKind {
    /// Sum of all live sub-windows. An event is known if each of its cells is marked in any sub-window.
    Counters,
    /// Each live sub-window separately. An event is known if all its cells are marked in the same sub-window.
    Words,
}

/// Shares of the cells that are marked, by the age of their marks. An event marks the cells at its positions, and a
/// mark belongs to the sub-window in which it was made. The entry with index 0 is the share of the cells with a mark
/// from the current sub-window. The entry with index a is the share of the cells with a mark from the sub-window a
/// steps earlier.
///
/// A cell can be counted once or several times, depending on the [`JumpingKind`]. With `Counters`, a cell is counted
/// only for the sub-window in which it was last marked. With `Words`, it is counted for every live sub-window in which
/// it was marked, so the shares can add up to more than 1.
#[derive(Clone, Debug)]
struct Shares(Vec<f64>);

impl Shares {
    fn all(&self) -> f64 {
        self.0.iter().sum()
    }

    /// Marks cells in the current sub-window. An empty cell gets a mark with the probability `if_empty`. A cell with a
    /// mark from an older sub-window gets a new mark, which replaces the older one, with the probability `if_taken`.
    fn mark(&mut self, if_empty: f64, if_taken: f64) {
        let empty = 1.0 - self.all();
        let Some((current, older)) = self.0.split_first_mut() else { return };
        *current += if_empty * empty + if_taken * older.iter().sum::<f64>();
        older.iter_mut().for_each(|share| *share *= 1.0 - if_taken);
    }

    fn jump(&mut self) {
        self.0.rotate_right(1);
        if let Some(current) = self.0.first_mut() {
            *current = 0.0;
        }
    }
}

/// Cells of the events that were recorded in one sub-window.
#[derive(Clone, Debug)]
struct Recorded {
    events: f64,
    cells: Shares,
}

/// Cells of a jumping window while the events of an arbitrary stream are recorded one by one, in sub-windows of
/// arbitrary fill.
#[derive(Clone, Debug)]
struct Fill {
    kind: JumpingKind,
    /// Number of positions per event (k).
    hashes: i32,
    /// Share of the cells that the positions of one event mark for certain: k/m.
    hits: f64,
    cells: Shares,
    /// Recorded events by sub-window, starting with the first.
    recorded: Vec<Recorded>,
}

impl Fill {
    fn new(kind: JumpingKind, cells: f64, hashes: u32, sub_windows: usize) -> Self {
        let empty = Shares(vec![0.0; sub_windows]);
        let first = Recorded { events: 0.0, cells: empty.clone() };
        Self { kind, hashes: hashes as i32, hits: f64::from(hashes) / cells, cells: empty, recorded: vec![first] }
    }

    /// Returns the probability that an event is called a duplicate now although it was never recorded. With counters,
    /// this probability is `F^k`, where F is the share of marked cells. With words, it is `1 - product over sub-windows
    /// a of (1 - p_a^k)`, where p_a is the share of cells that were marked in sub-window a.
    fn rate(&self) -> f64 {
        match self.kind {
            JumpingKind::Counters => self.cells.all().powi(self.hashes),
            JumpingKind::Words => 1.0 - self.cells.0.iter().map(|fill| 1.0 - fill.powi(self.hashes)).product::<f64>(),
        }
    }

    /// Returns the probability that an event is called a duplicate now, if it was recorded in a sub-window that has
    /// ended.
    ///
    /// With counters, this probability is lower than for an event that was never recorded. The marks of the recorded
    /// event keep other events from marking its cells: an event that arrives at a marked cell is called a duplicate
    /// with the probability `F^(k-1)`, and then marks nothing. An event that arrives at an empty cell always marks it.
    /// The cells of the recorded event were marked for a while, and during this time other events marked them less
    /// often than average cells.
    ///
    /// With words, each sub-window has its own bits. A mark of one sub-window therefore hardly ever keeps an event from
    /// marking the same cell in another sub-window. The probability is the same as for an event that was never
    /// recorded.
    fn rate_after(&self, sub_window: usize) -> f64 {
        match (self.kind, self.recorded.get(sub_window)) {
            (JumpingKind::Counters, Some(recorded)) => recorded.cells.all().powi(self.hashes),
            _ => self.rate(),
        }
    }

    /// Records an event that is called distinct with the given probability.
    ///
    /// With counters, the share of cells that the event marks follows from the equations of [`super::JumpingCounters`],
    /// with one change. The equations assume that an event is called distinct with the probability `1 - F^k`, but for
    /// this event the probability is `chance`. The terms of the equations are therefore multiplied by `chance` and
    /// divided by `1 - F^k`.
    ///
    /// With words, the event marks an empty cell of the current sub-window with the probability `h / (1 - p_0^k)`. Here
    /// h is the mean number of positions per cell, multiplied by `chance`, and p_0 is the share of cells that were
    /// marked in the current sub-window. The marks of older sub-windows do not matter for this cell, because each
    /// sub-window has its own bits.
    fn record(&mut self, chance: f64) {
        let hits = self.hits * chance;
        match self.kind {
            JumpingKind::Counters => {
                let fill = self.cells.all();
                let if_empty = hits / (1.0 - fill.powi(self.hashes));
                let if_taken = if_empty * (1.0 - fill.powi(self.hashes - 1));
                self.cells.mark(if_empty, if_taken);
                self.recorded.iter_mut().for_each(|of| of.cells.mark(if_empty, if_taken));
                self.join(chance);
            }
            JumpingKind::Words => {
                if let Some(current) = self.cells.0.first_mut() {
                    *current += hits * (1.0 - *current) / (1.0 - current.powi(self.hashes));
                }
            }
        }
    }

    /// Adds the cells of the event itself, which are marked now.
    fn join(&mut self, chance: f64) {
        let Some(Recorded { events, cells: Shares(shares) }) = self.recorded.last_mut() else { return };
        *events += chance;
        let part = if *events > 0.0 { chance / *events } else { 0.0 };
        shares.iter_mut().for_each(|share| *share *= 1.0 - part);
        if let Some(current) = shares.first_mut() {
            *current += part;
        }
    }

    /// Starts a sub-window, and clears the oldest one.
    fn jump(&mut self) {
        self.cells.jump();
        self.recorded.iter_mut().for_each(|of| of.cells.jump());
        let empty = Shares(vec![0.0; self.cells.0.len()]);
        self.recorded.push(Recorded { events: 0.0, cells: empty });
    }
}

/// Jumping window through which arbitrary keys pass. It gives the probability that each click is called a duplicate.
///
/// ```
/// use firstseen_eval::theory::JumpingCounters;
/// use firstseen_eval::theory::jumping::{JumpingChances, JumpingKind};
/// let (cells, hashes, sub_windows) = (4.0 * 2885.39, 4, 4);
/// let mut chances = JumpingChances::new(JumpingKind::Counters, cells, hashes, sub_windows);
/// let mut errors = 0.0;
/// for key in 0..5500 {
///     if key > 0 && key % 500 == 0 {
///         chances.jump();
///     }
///     errors += chances.click(key);
/// }
/// let steady = JumpingCounters { cells, hashes, sub_window_events: 500.0, sub_windows };
/// assert!((errors / 5500.0 / steady.mean_rate(0, 11) - 1.0).abs() < 0.01);
/// // What has just come is known, unless it was refused.
/// let first = chances.click(9999);
/// assert!((chances.click(9999) - (1.0 - first * (1.0 - first))).abs() < 1e-3);
/// ```
#[derive(Clone, Debug)]
pub struct JumpingChances {
    fill: Fill,
    /// For each key, the probability that it was last recorded in each sub-window, starting with the first.
    recorded: HashMap<u64, Vec<f64>>,
}

impl JumpingChances {
    /// Creates an empty window with the given number of cells (m), positions per event (k), and live sub-windows
    /// including the current one.
    pub fn new(kind: JumpingKind, cells: f64, hashes: u32, sub_windows: usize) -> Self {
        Self { fill: Fill::new(kind, cells, hashes, sub_windows), recorded: HashMap::new() }
    }

    /// Starts a sub-window, and clears the oldest one.
    pub fn jump(&mut self) {
        self.fill.jump();
    }

    /// Adds a click of a key. Returns the probability that it is called a duplicate. The click is recorded with the
    /// complementary probability.
    pub fn click(&mut self, key: u64) -> f64 {
        let current = self.fill.recorded.len() - 1;
        let alive = (current + 1).saturating_sub(self.fill.cells.0.len());
        let recorded = self.recorded.entry(key).or_default();
        recorded.resize(current + 1, 0.0);
        let never = 1.0 - recorded.iter().sum::<f64>();
        let mut told_distinct = never * (1.0 - self.fill.rate());
        for (sub_window, chance) in recorded.iter_mut().enumerate().take(alive) {
            if *chance > 0.0 {
                let refused = *chance * self.fill.rate_after(sub_window);
                told_distinct += *chance - refused;
                *chance = refused;
            }
        }
        recorded[current] += told_distinct;
        self.fill.record(told_distinct);
        1.0 - told_distinct
    }
}
