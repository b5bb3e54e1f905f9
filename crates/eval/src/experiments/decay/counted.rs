//! Simulates the errors of decaying counters with randomly drawn positions. Two rules for rounding a counter are
//! compared. The rule of Cheng et al., section 3, rounds up to whole occurrences after every epoch, so a counter never
//! falls below 1. The lasting rule of this project gives counters fractional bits and rounds them down after several
//! epochs, so a counter can become 0 again.
//!
//! The simulation follows every occurrence and every epoch, and uses no production filter. Its results are the expected
//! values with which measurements of production counters are compared.

use std::collections::HashMap;

use firstseen_filter::{DecayRule, DecayingShape, UnitNumber};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{EPOCHS, LAST_EPOCH};
use crate::drawn::Drawn;

/// Number of draws of all positions.
const DRAWS: u32 = 4;

/// Counters (m) in whole parts of an occurrence.
struct Counters {
    rule: DecayRule,
    parts: Vec<f64>,
}

impl Counters {
    /// Returns how many occurrences one part of a counter is worth in the given epoch. A part is the smallest amount
    /// that a counter can count. Under the rule of the paper, a part is always worth one occurrence. Under the lasting
    /// rule, a counter has f fractional bits and is not changed within a run of several epochs. Instead, the worth of a
    /// part decays: in the d-th epoch of a run, it is `lambda^d / 2^f`.
    fn worth(&self, epoch: UnitNumber) -> f64 {
        match self.rule {
            DecayRule::Literal { .. } => 1.0,
            DecayRule::Lasting { lambda, fraction_bits } => {
                lambda.powi((epoch.0 % run_epochs(lambda)) as i32) / 2f64.powi(fraction_bits as i32)
            }
        }
    }

    fn least(&self, places: &[usize]) -> f64 {
        places.iter().map(|place| self.parts[*place]).fold(f64::INFINITY, f64::min)
    }

    /// Counts an occurrence. The rule of the paper adds to all k counters. With fractional bits, counters are raised
    /// only to the new estimate.
    fn count(&mut self, places: &[usize], epoch: UnitNumber) {
        match self.rule {
            DecayRule::Literal { .. } => places.iter().for_each(|place| self.parts[*place] += 1.0),
            DecayRule::Lasting { .. } => {
                let raised = self.least(places) + whole(1.0 / self.worth(epoch)).ceil();
                places.iter().for_each(|place| self.parts[*place] = self.parts[*place].max(raised));
            }
        }
    }

    /// Begins an epoch. Counters are rounded up after each epoch, or rounded down after a run of epochs.
    fn pass(&mut self, epoch: UnitNumber) {
        match self.rule {
            DecayRule::Literal { lambda } => {
                self.parts.iter_mut().for_each(|parts| *parts = whole(lambda * *parts).ceil());
            }
            DecayRule::Lasting { lambda, .. } if epoch.0.is_multiple_of(run_epochs(lambda)) => {
                let factor = lambda.powi(run_epochs(lambda) as i32);
                self.parts.iter_mut().for_each(|parts| *parts = whole(factor * *parts).floor());
            }
            DecayRule::Lasting { .. } => {}
        }
    }
}

/// Returns the greatest number of epochs g with `lambda^g >= 1/2`, but at least 1.
fn run_epochs(lambda: f64) -> u64 {
    ((0.5f64.ln() / lambda.ln()) as u64).max(1)
}

/// Rounds a value that is an integer except for rounding errors.
fn whole(value: f64) -> f64 {
    if (value - value.round()).abs() < 1e-9 { value.round() } else { value }
}

/// Returns an upper bound for the error of a counter that is too low because of rounding, in occurrences. The rule of
/// Cheng et al. always rounds counters up. Rounding then never makes a counter too low, so the bound is 0.
///
/// The lasting rule rounds a counter down at the end of every run of g epochs. With f fractional bits, the counter
/// loses less than `2^-f` each time, and earlier losses decay like the counter itself. In total, the counter loses less
/// than `2^-f (1 + lambda^g + lambda^2g + ...) = 2^-f / (1 - lambda^g)`.
pub(super) fn loss_max(rule: DecayRule) -> f64 {
    match rule {
        DecayRule::Literal { .. } => 0.0,
        DecayRule::Lasting { lambda, fraction_bits } => {
            2f64.powi(-(fraction_bits as i32)) / (1.0 - lambda.powi(run_epochs(lambda) as i32))
        }
    }
}

/// Expected values for a stream.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    /// Mean difference between estimate and truth over all keys, in occurrences.
    pub(super) excess: Drawn,
    /// Share of keys that were never seen but whose counters are all above zero.
    pub(super) ghosts: Drawn,
}

/// Returns the expected values for a stream whose `keys` arrive in order through all epochs.
pub(super) fn expected(shape: &DecayingShape, keys: &[u64], truths: &HashMap<u64, f64>, seed: u64) -> Expected {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut excess = Vec::new();
    let mut ghosts = Vec::new();
    for _ in 0..DRAWS {
        let mut cells = Counters { rule: shape.rule, parts: vec![0.0; shape.cells as usize] };
        let mut places: HashMap<u64, Vec<usize>> = HashMap::new();
        let per_epoch = (keys.len() as u64).div_ceil(EPOCHS);
        let mut now = UnitNumber::FIRST;
        for (number, key) in (0..).zip(keys) {
            let epoch = UnitNumber(number / per_epoch);
            while now < epoch {
                now = now.after(1);
                cells.pass(now);
            }
            let places = places
                .entry(*key)
                .or_insert_with(|| (0..shape.hashes).map(|_| random.random_range(0..shape.cells) as usize).collect());
            cells.count(places, now);
        }
        while now < LAST_EPOCH {
            now = now.after(1);
            cells.pass(now);
        }
        let over = truths
            .iter()
            .map(|(key, truth)| places.get(key).map_or(0.0, |places| cells.least(places) * cells.worth(now) - truth));
        excess.push(over.sum::<f64>() / truths.len() as f64);
        let in_use = cells.parts.iter().filter(|parts| **parts > 0.0).count() as f64 / shape.cells as f64;
        ghosts.push(in_use.powi(shape.hashes as i32));
    }
    Expected { excess: Drawn::of(&excess), ghosts: Drawn::of(&ghosts) }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::CounterStorage;

    use super::*;

    #[test]
    fn a_key_alone_is_off_by_its_rounding() {
        let keys = vec![7; 10 * EPOCHS as usize];
        let lambda: f64 = 0.9;
        let truth: f64 = (0..EPOCHS as i32).map(|age| 10.0 * lambda.powi(age)).sum();
        let truths = HashMap::from([(7, truth)]);
        let excess = |rule| {
            let shape = DecayingShape { cells: 1 << 20, hashes: 4, rule, storage: CounterStorage::Basic };
            expected(&shape, &keys, &truths, 3).excess.mean
        };
        // The counter is 10, 19, 28 (27.1), 36 (35.2), 43 (42.4), 49 (48.7) and so on, up to 100. From then on a tenth
        // is lost and added again.
        assert!((excess(DecayRule::Literal { lambda }) - (100.0 - truth)).abs() < 1e-9);
        let lasting = excess(DecayRule::Lasting { lambda, fraction_bits: 4 });
        assert!(lasting.abs() < 100.0 / 16.0 && lasting != 0.0, "{lasting}");
    }
}
