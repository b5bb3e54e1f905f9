//! A jumping window while any stream goes through it: the chances of its fill, and of what it has recorded of each key.
//!
//! Promises: only the order of the keys is known. Must not know: filters, streams, logs.

use std::collections::HashMap;

/// How the cells of a jumping window decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JumpingKind {
    /// The sum of all live sub-windows: an event is known if each of its cells is marked in any of them.
    Counters,
    /// Each live sub-window by itself: an event is known if all of its cells are marked in the same one.
    Words,
}

/// Cells by age: those that were last marked so many sub-windows ago (counters), or that were marked then (words).
#[derive(Clone, Debug)]
struct Shares(Vec<f64>);

impl Shares {
    fn all(&self) -> f64 {
        self.0.iter().sum()
    }

    /// A cell is marked with chance `if_empty` where it is empty, and `if_taken` where it was marked in an older sub-window.
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

/// The cells of the events that were recorded in one sub-window.
#[derive(Clone, Debug)]
struct Recorded {
    events: f64,
    cells: Shares,
}

/// The cells of a jumping window while events of any stream are recorded one by one, in sub-windows of any fill.
#[derive(Clone, Debug)]
struct Fill {
    kind: JumpingKind,
    /// Positions an event (k).
    hashes: i32,
    /// Share of the cells that one position marks for sure: k/m an event.
    hits: f64,
    cells: Shares,
    /// By sub-window, from the first on.
    recorded: Vec<Recorded>,
}

impl Fill {
    fn new(kind: JumpingKind, cells: f64, hashes: u32, sub_windows: usize) -> Self {
        let empty = Shares(vec![0.0; sub_windows]);
        let first = Recorded { events: 0.0, cells: empty.clone() };
        Self { kind, hashes: hashes as i32, hits: f64::from(hashes) / cells, cells: empty, recorded: vec![first] }
    }

    /// The chance that an event which was never recorded is called a duplicate now: `F^k` with counters, and `1 -
    /// product over sub-windows of (1 - p_a^k)` with words.
    fn rate(&self) -> f64 {
        match self.kind {
            JumpingKind::Counters => self.cells.all().powi(self.hashes),
            JumpingKind::Words => 1.0 - self.cells.0.iter().map(|fill| 1.0 - fill.powi(self.hashes)).product::<f64>(),
        }
    }

    /// The same for an event that was recorded in a sub-window which is over.
    ///
    /// While a cell of the event was marked by it, another event that met the cell was refused with chance `F^(k-1)`,
    /// whereas one that meets an empty cell never is. So when that mark is gone, the cell is marked by others less
    /// often than a cell is on average. (With words, a mark of one sub-window refuses hardly any event in another.)
    fn rate_after(&self, sub_window: usize) -> f64 {
        match (self.kind, self.recorded.get(sub_window)) {
            (JumpingKind::Counters, Some(recorded)) => recorded.cells.all().powi(self.hashes),
            _ => self.rate(),
        }
    }

    /// Records an event that is called distinct with this chance.
    ///
    /// Given that, it marks cells of counters as in [`super::JumpingCounters`], whose slopes are those of an event that
    /// is called distinct with chance `1 - F^k`: so they are divided by it. With words it marks an empty cell of the
    /// current sub-window with chance `h / (1 - p_0^k)`, as the verdict of older sub-windows does not depend on that
    /// cell.
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

    /// The cells of the event itself are marked now.
    fn join(&mut self, chance: f64) {
        let Some(Recorded { events, cells: Shares(shares) }) = self.recorded.last_mut() else { return };
        *events += chance;
        let part = if *events > 0.0 { chance / *events } else { 0.0 };
        shares.iter_mut().for_each(|share| *share *= 1.0 - part);
        if let Some(current) = shares.first_mut() {
            *current += part;
        }
    }

    /// Starts a sub-window, and empties the oldest.
    fn jump(&mut self) {
        self.cells.jump();
        self.recorded.iter_mut().for_each(|of| of.cells.jump());
        let empty = Shares(vec![0.0; self.cells.0.len()]);
        self.recorded.push(Recorded { events: 0.0, cells: empty });
    }
}

/// A jumping window that any keys go through: the chance that each click is called a duplicate.
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
    /// Of each key, the chance that it was last recorded in each sub-window, from the first on.
    recorded: HashMap<u64, Vec<f64>>,
}

impl JumpingChances {
    /// Empty cells (m), positions an event (k), sub-windows alive at once with the current one.
    pub fn new(kind: JumpingKind, cells: f64, hashes: u32, sub_windows: usize) -> Self {
        Self { fill: Fill::new(kind, cells, hashes, sub_windows), recorded: HashMap::new() }
    }

    /// Starts a sub-window, and empties the oldest.
    pub fn jump(&mut self) {
        self.fill.jump();
    }

    /// A key comes. Returns the chance that it is called a duplicate; it is recorded with the chance that it is not.
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
