//! Decides which verdicts are allowed for an event if some of its slices are down. The cells in these slices cannot be
//! tested, so only some of the event's positions are known (Koloniari et al. 2011, section 3.2).
//!
//! An event has k positions, and `a` of them lie in live and complete slices. An empty cell at any of these `a`
//! positions proves that the event is new, so the event counts as a duplicate only if all `a` cells are set.
//!
//! A filter can be configured to call an event a duplicate only if at least x of its positions can be tested. The
//! following formulas give the rate of false positives (FP) and the rate of false negatives (FN) that result from x.
//!
//! `FP(x) = sum over a >= x of C(k,a) q^a p^(k-a) fill^a`, `FN(x) = sum over a < x of C(k,a) q^a p^(k-a)`
//!
//! Here p is the share of slices that are down, and q = 1 - p.
//!
//! All nodes with the same cluster map compute the same result. This module does not depend on cells or nodes.

use crate::map::{FilterPolicies, WhenLost};
use crate::verdict::{Decision, Reason};

/// The decision on events for which too few slices are left.
pub(crate) const TOO_FEW_LEFT: Decision = Decision::Undecided(Reason::SlicesDown);

/// How an event is processed, as far as that depends on the number of its positions that can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// The slices of the event are tested. If any cell is empty, the event is new, no matter how few slices are left.
    /// If no cell is empty, the event is a duplicate, provided that enough slices are left. Otherwise
    /// [`verdict_if_too_few`] gives the verdict.
    Ask,
    /// The event counts as new, because a duplicate requires x positions and fewer can be asked.
    New,
    /// The event gets this decision. No slice is asked and no cell is set.
    Decide(Decision),
}

/// Returns how many of the `hashes` positions of an event must be asked for a verdict. The default is half of them.
pub(super) fn min_live(policies: &FilterPolicies, hashes: usize) -> usize {
    match policies.thresholds.min_live {
        0 => hashes.div_ceil(2),
        min_live => min_live as usize,
    }
}

/// Returns the probability that a new event is called a duplicate by mistake, if only `positions` of its positions can
/// be tested. The mistake occurs if all tested cells are set in at least one of the `generations` generations.
///
/// With `fill` as the share of cells that are set in each generation, the probability is `1 - (1 -
/// fill^positions)^generations`.
pub(super) fn rate_of_positions(fill: f64, positions: usize, generations: usize) -> f64 {
    let of_one = fill.powi(i32::try_from(positions).unwrap_or(i32::MAX));
    1.0 - (1.0 - of_one).powi(i32::try_from(generations).unwrap_or(i32::MAX))
}

/// Returns how an event with `hashes` positions is processed if `voting` of them lie on live and complete slices.
pub(super) fn course(policies: &FilterPolicies, voting: usize, hashes: usize) -> Course {
    let is_enough = voting >= min_live(policies, hashes);
    match verdict_if_too_few(policies, voting, hashes) {
        Some(decision) if voting == 0 => Course::Decide(decision),
        None if is_enough && voting < policies.thresholds.set_min as usize => Course::New,
        Some(_) | None => Course::Ask,
    }
}

/// Returns the verdict on an event if no tested cell is empty, but too few of its slices are live and complete. The
/// policy of the filter prescribes this verdict. Returns `None` if the test itself decides. That is the case if enough
/// slices are left, or if the policy accepts the result of fewer slices.
pub(super) fn verdict_if_too_few(policies: &FilterPolicies, voting: usize, hashes: usize) -> Option<Decision> {
    match policies.when_lost {
        _ if voting >= min_live(policies, hashes) => None,
        WhenLost::Undecided => Some(TOO_FEW_LEFT),
        WhenLost::Duplicate => Some(Decision::Duplicate),
        WhenLost::FirstSeen => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::Thresholds;

    #[test]
    fn every_number_of_live_positions_has_one_course() {
        let mut policies = FilterPolicies { thresholds: Thresholds { min_live: 0, set_min: 7 }, ..Default::default() };
        let courses = |policies: &FilterPolicies| -> Vec<Course> { (0..=9).map(|a| course(policies, a, 9)).collect() };
        let few = |none| [vec![none], vec![Course::Ask; 4], vec![Course::New; 2], vec![Course::Ask; 3]].concat();
        assert_eq!(courses(&policies), few(Course::Decide(TOO_FEW_LEFT)));
        policies.when_lost = WhenLost::Duplicate;
        assert_eq!(courses(&policies), few(Course::Decide(Decision::Duplicate)));
        policies.when_lost = WhenLost::FirstSeen;
        assert_eq!(courses(&policies), few(Course::Ask));
        policies.thresholds = Thresholds { min_live: 9, set_min: 0 };
        policies.when_lost = WhenLost::Undecided;
        assert_eq!(courses(&policies), [vec![Course::Decide(TOO_FEW_LEFT)], vec![Course::Ask; 9]].concat());
        let verdicts: Vec<_> = (0..=9).map(|a| verdict_if_too_few(&policies, a, 9)).collect();
        assert_eq!(verdicts, [vec![Some(TOO_FEW_LEFT); 9], vec![None]].concat(), "but where a slice denies it");
    }
}
