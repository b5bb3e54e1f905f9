//! Expected number of equal timers of an event, by which the equal-timers heuristic decides (Koloniari et al. 2011,
//! section 4).
//!
//! The formulas hold for one event per tick in a classic layout.
//!
//! This module does not depend on filters or streams.

/// Timers of one slice in a steady state, in which every window brings the same load.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimerGroups {
    /// Number of timers in the slice (m).
    pub(super) cells: f64,
    /// Number of positions per event (k).
    pub(super) hashes: u32,
    /// Share of timers that are alive (p).
    pub(super) fill: f64,
    /// Mean number of times that events raise a live timer within a window. A timer is raised when an event sets it to
    /// a later time. If all events set their timers, this number is `-ln(1 - p)`, where p is the share of live timers.
    /// If false positives set no timers, the number is lower, because all timers of a false positive are live and are
    /// not raised.
    pub(super) raises: f64,
}

/// Number of steps of the midpoint rule over ages.
const STEPS: u32 = 200;

impl TimerGroups {
    /// Returns the probability that all k timers of an unseen key are live, and that at least `least` of them are
    /// equal. The first of these conditions has the probability `p^k`, where p is the share of live timers. Timers are
    /// equal if the same event was the last to set all of them ([`Self::same`]).
    pub(super) fn unseen(&self, least: u32) -> f64 {
        let any = some_of(choose(self.hashes, least), self.same(least, self.fill));
        self.fill.powi(self.hashes as i32) * if least <= 1 { 1.0 } else { any }
    }

    /// Returns the probability that a delivered key has `least` equal timers, averaged over the ages of a window.
    ///
    /// Consider an event of age a, measured in windows. Its k timers were equal at first, but later events may have
    /// raised some of them. For a given timer, this has happened with the probability `o = 1 - e^(-a raises)`. The
    /// number u of timers that no later event has raised has a binomial distribution, and these u timers are still
    /// equal.
    ///
    /// If u is below `least`, the key can still have `least` equal timers. This is the case if the same later event was
    /// the last to raise `least` of the k - u raised timers.
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

    /// Returns the probability that the timers at j given positions are equal, because the same event was the last to
    /// set all of them. The parameter `positions` is the number j. The parameter `set` is the share s of all timers
    /// that were set within the considered period.
    ///
    /// Several of the j positions may lie in the same cell, so the derivation sums over the number i of different
    /// cells. In a slice of m cells, three probabilities are needed for each i:
    ///
    /// - The j positions lie in i different cells with a probability of about `S(j, i) m^(i-j)`, where `S(j, i)` is a
    ///   Stirling number of the second kind.
    /// - A single event with k positions sets all i cells with the probability `k (k-1) .. (k-i+1) / m^i`.
    /// - With a probability that depends on s, no later event has set any of these cells again.
    ///
    /// The sum over all events of the period is `m^(1-j) s^(-j) sum over i of S(j, i) (k-1) .. (k-i+1) (1 - (1-s)^i) /
    /// i`.
    ///
    /// Koloniari et al. 2011, section 4, consider only the event that covers the cells, and not the number of events.
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

/// Returns the probability that at least one of `ways` independent events of equal probability occurs.
fn some_of(ways: f64, chance: f64) -> f64 {
    if ways == 0.0 { 0.0 } else { -(ways * (-chance).ln_1p()).exp_m1() }
}

fn choose(n: u32, count: u32) -> f64 {
    if count > n {
        return 0.0;
    }
    (0..count).map(|i| f64::from(n - i) / f64::from(i + 1)).product()
}

/// Returns the number of ways to put `things` into `boxes` indistinguishable boxes such that no box is empty.
fn stirling(things: u32, boxes: u32) -> f64 {
    match (things, boxes) {
        (0, 0) => 1.0,
        (0, _) | (_, 0) => 0.0,
        _ => f64::from(boxes) * stirling(things - 1, boxes) + stirling(things - 1, boxes - 1),
    }
}

/// Returns the mean of `f(load)` over a load that has a Poisson distribution. The function uses the Gauss-Hermite rule
/// with three points, which is exact for polynomials up to the fifth power.
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
        // If all eight timers are equal, none was raised. The expected value is the mean of (1 - p)^(8 a) over the
        // window.
        let exact = (1.0 - 0.4f64.powi(8)) / (-8.0 * 0.4f64.ln());
        assert!((groups.delivered(8) / exact - 1.0).abs() < 1e-3);
    }

    #[test]
    fn pairs_are_as_rare_as_cells_are_many() {
        // The event has k = 2 positions, and all cells have always been alive. The probability is 1/m for the same
        // cell, and (1/2)/m for one event.
        let groups = TimerGroups { cells: 1e6, hashes: 2, fill: 1.0, raises: 9.0 };
        assert!((groups.same(2, 1.0) - 1.5e-6).abs() < 1e-12);
        assert!((over_loads(100.0, |load| load * load) - 10_100.0).abs() < 1e-9);
        assert_eq!((stirling(4, 2), choose(8, 3), choose(2, 3)), (7.0, 56.0, 0.0));
    }
}
