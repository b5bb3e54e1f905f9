//! Formulas for a filter that grows by generations of equal size, under a steady load that is too large for one
//! generation.
//!
//! The formulas hold for events that are all new.
//!
//! This module does not depend on filters or streams.

use firstseen_filter::Limit;

/// Load, and the generations that receive it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    /// Number of cells in a generation (m).
    pub(super) cells: f64,
    /// Number of positions per event (k).
    pub(super) hashes: u32,
    /// Number of events at which a generation is full.
    pub(super) capacity_events: f64,
    /// Measure that tells when a generation is full.
    pub(super) limit: Limit,
    /// Number of events per tick.
    pub(super) tick_events: f64,
    /// Mean number of ticks for which an event lives.
    pub(super) alive_ticks: f64,
    /// Number of ticks from the last event of a generation until it is dropped.
    pub(super) kept_ticks: f64,
}

/// State in the long run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steady {
    /// Mean number of live generations over time.
    pub(super) generations: f64,
    /// Mean false-positive rate over events.
    pub(super) rate: f64,
}

/// Number of steps of all integrals.
const STEPS: u32 = 256;
/// Number of iterations after which the rate no longer changes. Each iteration reduces the error to less than a third.
const ROUNDS: u32 = 40;

/// Returns the midpoints of [`STEPS`] equal parts of the range from 0 to 1.
fn midpoints() -> impl Iterator<Item = f64> {
    (0..STEPS).map(|step| (f64::from(step) + 0.5) / f64::from(STEPS))
}

impl Burst {
    /// Returns the state of the filter in the long run.
    ///
    /// The function derives the mean number of live generations from the time that a generation takes to fill up. A
    /// generation is full when it has recorded x events. This takes `tau = x / (arrivals (1 - rate))` ticks, where
    /// `arrivals` is the number of events per tick, because an event that is called a duplicate is not recorded. A
    /// generation is therefore live for tau ticks while it fills up, and for another `kept_ticks` ticks until it is
    /// dropped. A new generation opens every tau ticks, so `1 + kept_ticks / tau` generations are live on average.
    ///
    /// The formula for the number of live generations is corrected in two cases:
    ///
    /// - The event that fills a generation may be the last event of its tick. The next generation then opens one tick
    ///   later than the formula assumes. With n events per tick, this happens for one generation in n.
    /// - A single generation may have room for all live events. It then never fills up, so the number is exactly 1.
    ///
    /// An event is a false positive if at least one generation has all its cells set. The false-positive rate of all
    /// generations together is therefore `1 - product of (1 - p_i^k)`. Here k is the number of positions per event, and
    /// p_i is the share of cells that the live events of generation i have set. The rate changes while a generation
    /// fills up, and the function returns its mean over that time.
    ///
    /// Koloniari et al. 2011, section 5, use a simpler formula: `1 - (1 - P)^L` for L full generations that have the
    /// rate P each.
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

    /// Returns the rate when the newest generation is filled to the share `progress`, and the events of the last
    /// `alive` periods are alive.
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

    /// Returns the share of cells that are set after `tested` tested events that no other generation knew.
    fn fill(&self, tested: f64) -> f64 {
        firstseen_filter::rates::plain::fill(self.cells, self.hashes, tested)
    }

    /// Returns the number of events that a generation records if it tests `tested` events. The generation does not
    /// record an event that it calls a duplicate, which happens with the probability `p^k`. Here p is the share of its
    /// cells that are set. Because p increases while events are recorded, the result is the integral of `1 - p^k` over
    /// the tested events.
    fn delivered(&self, tested: f64) -> f64 {
        let rates = midpoints().map(|progress| self.fill(progress * tested).powi(self.hashes as i32));
        tested * (1.0 - rates.sum::<f64>() / f64::from(STEPS))
    }

    /// Returns the number of events that a generation has tested when it is full.
    ///
    /// The result depends on the kind of limit. With a limit by cardinality, a generation is full when it has recorded
    /// a given number of events. With a limit by density, it is full when more than a given number of its cells are
    /// set.
    ///
    /// With a limit by density, a full generation has slightly more set cells than the limit, because the event that
    /// exceeds the limit sets several cells at once. The mean excess is `(1 + p + k (1 - p)) / 2` cells, where p is the
    /// share of set cells and k is the number of positions per event. This is the mean excess of a renewal process
    /// whose steps have the distribution binomial(k, 1 - p).
    ///
    /// If other generations are live, a generation with a limit by density needs another correction. An event has the
    /// same cells in all generations. Consider a cell that is set in another live generation. That generation calls the
    /// share `d = p^(k-1)` of the events with this cell duplicates, and the newest generation does not record these
    /// events. The newest generation therefore hits this cell less often than other cells. With G other live
    /// generations, the relative variance of the hits per cell is `v = G p (1 - p) d^2`.
    ///
    /// Because the hits are uneven, a generation needs more events to fill. After n events with k positions each, a
    /// generation of m cells has received `x = k n / m` hits per cell on average. If all cells were hit equally often,
    /// the share of empty cells would be `e^-x`. With uneven hits, the share is greater, namely `e^-x (1 + v x^2 / 2)`.
    /// The number of events that fill the generation is therefore greater by the share `v x / 2`.
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

    /// Returns the share of cells that are still set in a full generation after the first `expired` of its events have
    /// expired.
    ///
    /// A cell that an expired event has set is still set if a younger event has set it again or has raised its expiry.
    /// There are two cases:
    ///
    /// - A younger event hits the cell while it is empty. The event is then new, so it sets the cell.
    /// - A younger event hits the cell while it is set. It raises the expiry only if it is not called a duplicate,
    ///   which means that at least one of its other k - 1 cells is empty. The probability of this is `1 - p^(k-1)`,
    ///   where p is the share of set cells.
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
        // There are four full generations, and two that are partly filled or partly expired.
        let (four, five) = (growth::live_rate(0.01, 4.0), growth::live_rate(0.01, 5.0));
        assert!(steady.rate > 0.95 * four && steady.rate < five, "{steady:?}");
        assert_eq!(burst(0.9).steady().generations, 1.0);
    }
}
