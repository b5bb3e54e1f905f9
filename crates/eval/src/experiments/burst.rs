//! A filter that grows by generations of equal size under a steady load that is too large for one of them.
//!
//! Promises: formulas for events that are all new. Must not know: filters, streams.

use firstseen_filter::Limit;

/// A load and the generations that it meets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Cells (m) of a generation.
    pub(super) cells: f64,
    /// Positions an event (k).
    pub(super) hashes: u32,
    /// Events at which a generation is full.
    pub(super) capacity_events: f64,
    /// By what it is full.
    pub(super) limit: Limit,
    /// Events that arrive in a tick.
    pub(super) tick_events: f64,
    /// Ticks that an event lives, mean over its tick.
    pub(super) alive_ticks: f64,
    /// Ticks from the last event of a generation until it is dropped.
    pub(super) kept_ticks: f64,
}

/// The state in the long run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    /// Live generations, mean over time.
    pub(super) generations: f64,
    /// Rate of false positives, mean over events.
    pub(super) rate: f64,
}

/// Steps of all integrals.
const STEPS: u32 = 256;
/// Rounds after which the rate no longer changes: each leaves less than a third of the error before it.
const ROUNDS: u32 = 40;

/// The middles of [`STEPS`] equal parts of a whole.
fn midpoints() -> impl Iterator<Item = f64> {
    (0..STEPS).map(|step| (f64::from(step) + 0.5) / f64::from(STEPS))
}

impl Burst {
    /// A generation takes x events, which takes `tau = x / (arrivals (1 - rate))` ticks, and is dropped `kept_ticks` after
    /// its last one, so `1 + kept_ticks / tau` are live. (Where the last one ends its tick, which one in as many as arrive in
    /// a tick does, the next generation opens a tick later.) If one generation holds all that lives, nothing ever fills.
    /// The rate is `1 - product of (1 - p_i^k)` over what is alive of each generation, mean over a period (K11 5 has
    /// `1 - (1 - P)^L` for L full ones).
    pub(super) fn steady(&self) -> Steady {
        let tested = self.tested_when_full();
        let taken = self.delivered(tested);
        let alone = self.tick_events * self.alive_ticks;
        if alone <= self.capacity_events {
            let rate = firstseen_filter::rates::timing::delivered_classic(self.cells, self.hashes, alone);
            return Steady { generations: 1.0, rate };
        }
        let mut rate = 0.0;
        let mut period_ticks = 0.0;
        for _ in 0..ROUNDS {
            period_ticks = taken / (self.tick_events * (1.0 - rate));
            let alive = self.alive_ticks / period_ticks;
            rate = midpoints().map(|progress| self.rate_at(progress, alive, tested)).sum::<f64>() / f64::from(STEPS);
        }
        Steady { generations: 1.0 + (self.kept_ticks - 1.0 / self.tick_events) / period_ticks, rate }
    }

    /// The rate when the newest generation is filled to a share `progress` and the events of the last `alive` periods
    /// are alive.
    fn rate_at(&self, progress: f64, alive: f64, tested: f64) -> f64 {
        let mut none = 1.0 - self.fill(progress * tested).powi(self.hashes as i32);
        let mut ended = progress;
        while ended < alive {
            let expired = (ended + 1.0 - alive).clamp(0.0, 1.0) * tested;
            none *= 1.0 - self.remaining(expired, tested).powi(self.hashes as i32);
            ended += 1.0;
        }
        1.0 - none
    }

    /// The share of cells that are set after so many tested events that no other generation knew.
    fn fill(&self, tested: f64) -> f64 {
        firstseen_filter::rates::plain::fill(self.cells, self.hashes, tested)
    }

    /// Events that are recorded of so many that are tested: those that are not called duplicates, `integral of 1 -
    /// p^k`.
    fn delivered(&self, tested: f64) -> f64 {
        let rates = midpoints().map(|progress| self.fill(progress * tested).powi(self.hashes as i32));
        tested * (1.0 - rates.sum::<f64>() / f64::from(STEPS))
    }

    /// Events that a generation has tested when it is full. By cardinality: as many as it takes to record its capacity.
    /// By density: as many as fill it beyond its limit, which the last one exceeds by `(1 + p + k (1 - p)) / 2` cells
    /// on average, as an event sets binomial(k, 1 - p) of them (the mean excess of a renewal process in whole steps).
    ///
    /// An event has the same cells in all generations, and one that covers a cell refuses `d = p^(k-1)` of what hits it. So
    /// with G other generations alive hits are uneven by a variance of `v = G p (1 - p) d^2`, which leaves
    /// `e^-x (1 + v x^2 / 2)` of the cells empty after `x = k n / m` hits: `v x / 2` more events fill it.
    fn tested_when_full(&self) -> f64 {
        let mut tested = self.capacity_events;
        match self.limit {
            Limit::Cardinality => {
                for _ in 0..ROUNDS {
                    tested += self.capacity_events - self.delivered(tested);
                }
            }
            Limit::Density => {
                let fill = self.fill(tested);
                let set_cells = f64::from(self.hashes) * (1.0 - fill);
                let others = self.tick_events * self.alive_ticks / self.capacity_events - 0.5;
                let uneven = others.max(0.0) * fill * (1.0 - fill) * fill.powi(2 * self.hashes as i32 - 2);
                let hits = f64::from(self.hashes) * tested / self.cells;
                tested += uneven * hits / 2.0 * tested + (1.0 + fill + set_cells) / 2.0 / set_cells;
            }
        }
        tested
    }

    /// Set cells of a full generation when the first `expired` of its events have left: a cell that was empty then was set
    /// by any later event, one that was set was raised by those that were not refused, `1 - p^(k-1)` of them.
    fn remaining(&self, expired: f64, tested: f64) -> f64 {
        let hits = f64::from(self.hashes) / self.cells * (tested - expired);
        let refused = midpoints().map(|progress| {
            let at = expired + progress * (tested - expired);
            self.fill(at).powi(self.hashes as i32 - 1)
        });
        let raised = 1.0 - refused.sum::<f64>() / f64::from(STEPS);
        let before = self.fill(expired);
        (1.0 - before) * -(-hits).exp_m1() + before * -(-hits * raised).exp_m1()
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::rates::{growth, plain};

    use super::*;

    fn burst(factor: f64) -> Burst {
        let cells = plain::cells(1000.0, 0.01, 4);
        Burst {
            cells,
            hashes: 4,
            capacity_events: 1000.0,
            limit: Limit::Cardinality,
            tick_events: 10.0 * factor,
            alive_ticks: 100.0,
            kept_ticks: 100.0,
        }
    }

    #[test]
    fn a_load_of_five_generations_costs_about_five_rates() {
        let steady = burst(5.0).steady();
        assert!((5.7..6.0).contains(&steady.generations), "{steady:?}");
        // Four full ones, and two that are half full or half empty.
        let (four, five) = (growth::live_rate(0.01, 4.0), growth::live_rate(0.01, 5.0));
        assert!(steady.rate > 0.95 * four && steady.rate < five, "{steady:?}");
        assert_eq!(burst(0.9).steady().generations, 1.0);
    }
}
