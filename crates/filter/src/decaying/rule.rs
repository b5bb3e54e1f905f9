//! How counters decay from epoch to epoch, and what that does to the truth.
//!
//! Promises: the same on every machine: only additions, multiplications and divisions of floating-point numbers.
//! Must not know: where counters are kept.

use serde::{Deserialize, Serialize};

use super::DecayingError;

use crate::unit_number::UnitNumber;

/// Least and greatest decay factor: with 1 nothing would ever leave.
pub(super) const LAMBDA_RANGE: std::ops::RangeInclusive<f64> = 1e-6..=0.999_999;

/// Most fractional bits of a counter.
pub const FRACTION_BITS_MAX: u32 = 12;

/// How a counter decays as time passes. `lambda` is the decay factor of one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DecayRule {
    /// The paper's: counters are whole numbers, and each epoch makes of every one `ceil(lambda * counter)` (C05 3
    /// with the rounding that Claim 1 needs). Estimates never fall below the truth, but a counter sticks at
    /// `ceil(1/(1 - lambda)) - 1` or below for ever (9 for 0.9, 99 for 0.99). For reproduction.
    Literal {
        /// Decay factor of one epoch.
        lambda: f64,
    },
    /// For use: counters have `fraction_bits` (f) fractional bits and decay to zero.
    ///
    /// Within a run of g epochs (the most with `lambda^g >= 1/2`, at least 1) counters stand still, and what is added
    /// in epoch d of the run is `ceil(2^f / lambda^d)` parts, of which each is worth `lambda^d / 2^f` then and at
    /// every moment the same as all others. At the end of a run every counter becomes
    /// `floor(lambda^g * counter)`. So a counter loses less than one part of `2^-f` a run, and all losses together are
    /// below [`DecayRule::epsilon`]; an occurrence is counted too high by less than a `2^-f`-th.
    Lasting {
        /// Decay factor of one epoch.
        lambda: f64,
        /// Fractional bits of a counter, 2 to 12.
        fraction_bits: u32,
    },
}

impl DecayRule {
    /// Decay factor of one epoch.
    pub fn lambda(&self) -> f64 {
        match *self {
            Self::Literal { lambda } | Self::Lasting { lambda, .. } => lambda,
        }
    }

    /// No estimate is below the truth by more than this: 0 for the literal rule, otherwise the sum of all losses of
    /// earlier runs, `2^-f (1 + lambda^g + lambda^2g + ...) = 2^-f / (1 - lambda^g)`, between 1.4 and 3.5 parts (1 to 2
    /// with lambda below 0.7), however slow the decay. (Rounding each epoch would lose `2^-f / (1 - lambda)`.)
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

/// A [`DecayRule`] made ready for counters in whole parts.
#[derive(Clone, Copy)]
pub(super) struct Decay {
    lambda: f64,
    /// `2^f`: parts of an occurrence in the first epoch of a run.
    parts_per_count: f64,
    /// Epochs from one decay of the counters to the next (g).
    pub(super) run_epochs: u64,
    /// `lambda^g`.
    run_factor: f64,
    pub(super) literal: bool,
}

impl Decay {
    pub(super) fn new(rule: DecayRule) -> Self {
        // A rule that was read and not checked yet must not make this loop for ever.
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

    /// The value of a counter after the end of a run. Never more than it was; in the lasting rule always less.
    #[inline(always)]
    pub(super) fn step(&self, parts: u32) -> u32 {
        let exact = f64::from(parts) * self.run_factor;
        let below = exact as u32;
        below + u32::from(self.literal && f64::from(below) < exact)
    }

    /// The worth of one part in `epoch`, in occurrences.
    pub(super) fn worth(&self, epoch: UnitNumber) -> f64 {
        power(self.lambda, epoch.0 % self.run_epochs) / self.parts_per_count
    }

    /// Parts of one occurrence of `age_epochs` ago, where a part is worth `worth`; rounded up, at least 1.
    pub(super) fn parts(&self, age_epochs: u64, worth: f64) -> u32 {
        ((power(self.lambda, age_epochs) / worth).ceil() as u32).max(1)
    }

    /// Decays of all counters between two epochs.
    pub(super) fn steps_between(&self, from_epoch: UnitNumber, until_epoch: UnitNumber) -> u64 {
        (until_epoch.0 / self.run_epochs).saturating_sub(from_epoch.0 / self.run_epochs)
    }

    /// Epochs without input after which a counter of `parts` is zero; `None` if it never is.
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

/// `base^exponent` for a base below 1, by squaring: the same bits on every machine.
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
