//! Rules by which counters decay from epoch to epoch, and the error that each rule causes.
//!
//! The rules give the same results on every machine, because they only add, multiply and divide floating-point numbers.
//! The results of these operations are exactly specified.
//!
//! This module does not depend on where counters are stored.

use serde::{Deserialize, Serialize};

use super::DecayingError;

use crate::unit_number::UnitNumber;

/// Valid decay factors. With a factor of 1 nothing would ever leave the filter.
pub(super) const LAMBDA_RANGE: std::ops::RangeInclusive<f64> = 1e-6..=0.999_999;

/// Maximum number of fractional bits in a counter.
pub const FRACTION_BITS_MAX: u32 = 12;

/// Rule by which a counter decays as time passes. `lambda` is the decay factor of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DecayRule {
    /// Rule of the paper, which reproduces the paper's results. Counters are integers, and each epoch replaces every
    /// counter with `ceil(lambda * counter)` (Cheng et al., section 3, with the rounding that Claim 1 requires).
    /// Because counters are rounded up, estimates are never below the true frequency.
    ///
    /// The drawback is that a counter never returns to zero. It stops at a floor of up to `ceil(1/(1 - lambda)) - 1`,
    /// which is 9 for lambda = 0.9 and 99 for lambda = 0.99.
    Literal {
        /// Decay factor of one epoch.
        lambda: f64,
    },
    /// Rule for practical use: counters have `fraction_bits` (f) fractional bits and decay to zero.
    ///
    /// Rounding after every epoch would add up to a large error, so this rule divides the epochs into runs of g epochs
    /// and lets counters decay only at the end of a run. The number g is the greatest number with `lambda^g >= 1/2`,
    /// but at least 1. Within a run, newer occurrences must still count more than older ones. A newer occurrence
    /// therefore adds more to its counters than an older one.
    ///
    /// The integer in a counter is a number of parts, which are fractions of an occurrence. In the epoch with index d
    /// of a run, an occurrence adds `ceil(2^f / lambda^d)` parts. When a frequency is estimated in that epoch, each
    /// part is worth `lambda^d / 2^f` occurrences. An occurrence of the same epoch therefore counts as 1. An occurrence
    /// of an earlier epoch of the run has added fewer parts, so it counts as less than 1.
    ///
    /// At the end of a run, every counter is replaced with `floor(lambda^g * counter)`. Rounding down makes a counter
    /// too low by less than one part, which is `2^-f` occurrences, in each run. Over all runs, the loss is less than
    /// [`DecayRule::epsilon`]. When an occurrence is added, its parts are rounded up, which makes it count too high by
    /// less than `2^-f`.
    Lasting {
        /// Decay factor of one epoch.
        lambda: f64,
        /// Number of fractional bits in a counter, 2 to 12.
        fraction_bits: u32,
    },
}

impl DecayRule {
    /// Returns the decay factor of one epoch.
    pub fn lambda(&self) -> f64 {
        match *self {
            Self::Literal { lambda } | Self::Lasting { lambda, .. } => lambda,
        }
    }

    /// Returns the greatest amount by which an estimate can be below the true frequency. It is 0 for the literal rule.
    ///
    /// For the lasting rule, each run of g epochs loses less than `2^-f` by rounding, and a loss decays like the
    /// counter itself. The result is the sum of the losses of all earlier runs, `2^-f (1 + lambda^g + lambda^2g + ...)
    /// = 2^-f / (1 - lambda^g)`. This is at most 3.5 times `2^-f`, however slow the decay is.
    ///
    /// The bound is small because counters are rounded only once per run. If they were rounded at each epoch, the loss
    /// would be `2^-f / (1 - lambda)`, which is much greater for a slow decay.
    ///
    /// ```
    /// use firstseen_filter::DecayRule;
    /// let slow = DecayRule::Lasting { lambda: 0.99, fraction_bits: 6 };
    /// assert!(slow.epsilon() < 0.032);
    /// ```
    pub fn epsilon(&self) -> f64 {
        match self {
            Self::Literal { .. } => 0.0,
            Self::Lasting { .. } => {
                let decay = Decay::new(*self);
                1.0 / (decay.parts_per_count * (1.0 - decay.run_factor))
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), DecayingError> {
        if !LAMBDA_RANGE.contains(&self.lambda()) {
            return Err(DecayingError::Lambda(self.lambda()));
        }
        match *self {
            Self::Lasting { fraction_bits, .. } if !(2..=FRACTION_BITS_MAX).contains(&fraction_bits) => {
                Err(DecayingError::FractionBits(fraction_bits))
            }
            _ => Ok(()),
        }
    }
}

/// Decay rule in a form that is prepared for counters in whole parts.
#[derive(Clone, Copy)]
pub(super) struct Decay {
    lambda: f64,
    /// Number of parts of an occurrence in the first epoch of a run, `2^f`.
    parts_per_count: f64,
    /// Number of epochs between two decays of the counters (g).
    pub(super) run_epochs: u64,
    /// Factor of one decay of the counters, `lambda^g`.
    run_factor: f64,
    pub(super) literal: bool,
}

impl Decay {
    pub(super) fn new(rule: DecayRule) -> Self {
        // A rule that was read from a file and not checked yet must not cause an endless loop.
        let lambda = rule.lambda().clamp(*LAMBDA_RANGE.start(), *LAMBDA_RANGE.end());
        let DecayRule::Lasting { fraction_bits, .. } = rule else {
            return Self { lambda, parts_per_count: 1.0, run_epochs: 1, run_factor: lambda, literal: true };
        };
        let mut run_epochs = 1;
        let mut run_factor = lambda;
        while run_factor * lambda >= 0.5 {
            run_epochs += 1;
            run_factor *= lambda;
        }
        let parts_per_count = f64::from(1 << fraction_bits.min(FRACTION_BITS_MAX));
        Self { lambda, parts_per_count, run_epochs, run_factor, literal: false }
    }

    /// Returns the value of a counter after the end of a run. The result is never greater than before. With the lasting
    /// rule it is always smaller.
    #[inline(always)]
    pub(super) fn step(&self, parts: u32) -> u32 {
        let exact = f64::from(parts) * self.run_factor;
        let below = exact as u32;
        below + u32::from(self.literal && f64::from(below) < exact)
    }

    /// Returns the worth of one part in `epoch`, in occurrences.
    pub(super) fn worth(&self, epoch: UnitNumber) -> f64 {
        power(self.lambda, epoch.0 % self.run_epochs) / self.parts_per_count
    }

    /// Returns the number of parts of one occurrence `age_epochs` ago, if a part is worth `worth`. The number is
    /// rounded up and at least 1.
    pub(super) fn parts(&self, age_epochs: u64, worth: f64) -> u32 {
        ((power(self.lambda, age_epochs) / worth).ceil() as u32).max(1)
    }

    /// Returns the number of decays of the counters between two epochs.
    pub(super) fn steps_between(&self, from_epoch: UnitNumber, until_epoch: UnitNumber) -> u64 {
        (until_epoch.0 / self.run_epochs).saturating_sub(from_epoch.0 / self.run_epochs)
    }

    /// Returns the number of epochs without input after which a counter of `parts` is zero, or `None` if it never
    /// reaches zero.
    pub(super) fn epochs_to_zero(&self, parts: u32) -> Option<u64> {
        let mut left = parts;
        let mut steps = 0;
        while left != 0 {
            let next = self.step(left);
            if next == left {
                return None;
            }
            (left, steps) = (next, steps + 1);
        }
        Some(steps * self.run_epochs)
    }
}

/// Returns `base^exponent` for a base below 1. The function uses repeated squaring, which gives the same bits on every
/// machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut power = 1.0;
    while exponent != 0 {
        if exponent & 1 == 1 {
            power *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literal_rule_sticks_where_the_paper_s_formula_says() {
        for (lambda, floor) in [(0.5, 1), (0.9, 9), (0.99, 99), (0.999, 999)] {
            let decay = Decay::new(DecayRule::Literal { lambda });
            let mut parts = 1_000_000;
            while decay.step(parts) != parts {
                parts = decay.step(parts);
            }
            assert_eq!((parts, decay.epochs_to_zero(1_000_000)), (floor, None), "lambda {lambda}");
        }
    }

    #[test]
    fn the_lasting_rule_always_decays_to_zero_with_runs_of_at_most_a_half() {
        for lambda in [1e-6, 0.3, 0.5, 0.706, 0.708, 0.9, 0.99, 0.9999] {
            let decay = Decay::new(DecayRule::Lasting { lambda, fraction_bits: 4 });
            assert!((1..=65_535).all(|parts| decay.step(parts) < parts), "lambda {lambda}");
            assert!(decay.run_epochs == 1 || (0.5..0.71).contains(&decay.run_factor), "lambda {lambda}");
            assert!(decay.epochs_to_zero(u32::MAX).is_some());
        }
    }

    #[test]
    fn parts_are_worth_at_least_the_occurrence_they_stand_for() {
        for lambda in [0.3, 0.9, 0.99, 0.9999] {
            let decay = Decay::new(DecayRule::Lasting { lambda, fraction_bits: 5 });
            for epoch in (0..2 * decay.run_epochs).map(UnitNumber) {
                let counted = f64::from(decay.parts(0, decay.worth(epoch))) * decay.worth(epoch);
                assert!((1.0 - 1e-12..1.0 + 1.0 / 32.0).contains(&counted), "lambda {lambda}, epoch {epoch}");
            }
        }
    }
}
