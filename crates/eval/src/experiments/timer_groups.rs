//! How many of an event's timers are equal, in expectation: the equal-timers heuristic (K11 4) decides by that.
//!
//! Promises: formulas for one event a tick, in a classic layout. Must not know: filters, streams.

/// Timers of one slice in a steady state: one window after the other brings the same load.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerGroups {
    /// Timers of the slice (m).
    pub(super) cells: f64,
    /// Positions an event (k).
    pub(super) hashes: u32,
    /// Share of the timers that are alive (p).
    pub(super) fill: f64,
    /// How often a timer that is alive would be raised within a window: `-ln(1 - p)` where every event is set, less where
    /// false positives set nothing, since those only meet timers that are alive.
    pub(super) raises: f64,
}

/// Steps of the midpoint rule over ages.
const STEPS: u32 = 200;

impl TimerGroups {
    /// The chance that an unseen key meets k timers alive, `least` of them equal: `p^k` times the chance that some
    /// `least` of the k were set last by one event, [`Self::same`].
    pub(super) fn unseen(&self, least: u32) -> f64 {
        let any = some_of(choose(self.hashes, least), self.same(least, self.fill));
        self.fill.powi(self.hashes as i32) * if least <= 1 { 1.0 } else { any }
    }

    /// The chance that a delivered key shows `least` equal timers, mean over the ages of a window.
    ///
    /// A timer of an event of age a windows has been raised by a later one with chance `o = 1 - e^(-a raises)`. Those that
    /// have not are equal: u of them, binomial; or else `least` of the k - u raised ones were raised last by one event.
    pub(super) fn delivered(&self, least: u32) -> f64 {
        let ages = (0..STEPS).map(|step| (f64::from(step) + 0.5) / f64::from(STEPS));
        ages.map(|age| self.delivered_at(least, -(-age * self.raises).exp_m1())).sum::<f64>() / f64::from(STEPS)
    }

    fn delivered_at(&self, least: u32, raised: f64) -> f64 {
        let chances = (0..=self.hashes).map(|left| {
            let way = (1.0 - raised).powi(left as i32) * raised.powi((self.hashes - left) as i32);
            let any = some_of(choose(self.hashes - left, least), self.same(least, raised));
            choose(self.hashes, left) * way * if left >= least || least <= 1 { 1.0 } else { any }
        });
        chances.sum()
    }

    /// The chance that j positions whose timers were all set within a time, which sets a share `s` of all timers, show the
    /// same event. They fall on i different cells with chance `S(j, i) m^(i-j)` (Stirling numbers of the second kind), one
    /// event covers those with chance `k (k-1) .. (k-i+1) / m^i`, and none of them is raised later; over all events
    /// `m^(1-j) s^(-j) sum over i of S(j, i) (k-1) .. (k-i+1) (1 - (1-s)^i) / i`.
    ///
    /// K11 4 has the covering event only, not how many events there are.
    fn same(&self, positions: u32, set: f64) -> f64 {
        let mut covered = 1.0;
        let mut sum = 0.0;
        for cells in 1..=positions.min(self.hashes) {
            let kept = (1.0 - (1.0 - set).powi(cells as i32)) / f64::from(cells);
            sum += stirling(positions, cells) * covered * kept;
            covered *= f64::from(self.hashes - cells);
        }
        (sum / set / (self.cells * set).powi(positions as i32 - 1)).min(1.0)
    }
}

/// At least one of so many chances, taken as independent.
fn some_of(ways: f64, chance: f64) -> f64 {
    if ways == 0.0 { 0.0 } else { -(ways * (-chance).ln_1p()).exp_m1() }
}

fn choose(n: u32, count: u32) -> f64 {
    if count > n {
        return 0.0;
    }
    (0..count).map(|i| f64::from(n - i) / f64::from(i + 1)).product()
}

/// Ways to put `things` into `boxes` that are not empty and all alike.
fn stirling(things: u32, boxes: u32) -> f64 {
    match (things, boxes) {
        (0, 0) => 1.0,
        (0, _) | (_, 0) => 0.0,
        _ => f64::from(boxes) * stirling(things - 1, boxes) + stirling(things - 1, boxes - 1),
    }
}

/// The mean of `f` over a Poisson load, by the Gauss-Hermite rule of three points: exact up to the fifth power.
pub(super) fn over_loads(mean: f64, f: impl Fn(f64) -> f64) -> f64 {
    let reach = (3.0 * mean).sqrt();
    (f(mean - reach) + 4.0 * f(mean) + f(mean + reach)) / 6.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_the_plain_filter_where_nothing_must_be_equal() {
        let groups = TimerGroups { cells: 5e3, hashes: 8, fill: 0.6, raises: -0.4f64.ln() };
        assert!([0, 1].iter().all(|least| (groups.unseen(*least) / 0.6f64.powi(8) - 1.0).abs() < 1e-12));
        assert!((groups.delivered(1) - 1.0).abs() < 1e-12);
        // All eight equal: nothing was raised; the mean of (1 - p)^(8 a) over the window.
        let exact = (1.0 - 0.4f64.powi(8)) / (-8.0 * 0.4f64.ln());
        assert!((groups.delivered(8) / exact - 1.0).abs() < 1e-3);
    }

    #[test]
    fn pairs_are_as_rare_as_cells_are_many() {
        // Two positions of k = 2, all cells alive since ever: 1/m for the same cell, (1/2)/m for one event.
        let groups = TimerGroups { cells: 1e6, hashes: 2, fill: 1.0, raises: 9.0 };
        assert!((groups.same(2, 1.0) - 1.5e-6).abs() < 1e-12);
        assert!((over_loads(100.0, |load| load * load) - 10_100.0).abs() < 1e-9);
        assert_eq!((stirling(4, 2), choose(8, 3), choose(2, 3)), (7.0, 56.0, 0.0));
    }
}
