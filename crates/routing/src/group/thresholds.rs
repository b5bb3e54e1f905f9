//! What may be said of an event of which some positions cannot be asked (Koloniari 2011, section 3.2).
//!
//! Of k positions, a lie on live, complete slices. A zero on one of these proves that the event is new, whatever a is.
//! That is the strict rule: an event that comes to the end of the pipeline was found at all a positions. So with x of k
//! required,
//!
//! `FP(x) = sum over a >= x of C(k,a) q^a p^(k-a) fill^a`, `FN(x) = sum over a < x of C(k,a) q^a p^(k-a)`
//!
//! where p is the share of slices that are down and q = 1 - p.
//!
//! Promises: the same for everybody who has the same map. Must not know: cells, nodes.

use crate::map::{FilterPolicies, WhenLost};
use crate::verdict::{Decision, Reason};

/// The verdict on events for which too few slices are left.
pub(crate) const TOO_FEW_LEFT: Decision = Decision::Undecided(Reason::SlicesDown);

/// The course of an event, as far as that rests on how many of its positions can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// The event's slices decide. Where too few are left, a zero still proves that the event is new; without one, the
    /// verdict is that of [`verdict_if_too_few`].
    Ask,
    /// The event counts as new: x positions are required for a duplicate, and fewer can be asked.
    New,
    /// The event is decided so; nothing is asked, and nothing set.
    Decide(Decision),
}

/// How many of its `hashes` positions must vote for a verdict on an event, by default half of them.
pub(super) fn min_live(policies: &FilterPolicies, hashes: usize) -> usize {
    match policies.thresholds.min_live {
        0 => hashes.div_ceil(2),
        min_live => min_live as usize,
    }
}

/// The chance that a new event of which `positions` are asked is called a duplicate, in so many generations whose cells are
/// set by this share each: `1 - (1 - fill^a)^generations`.
pub(super) fn rate_of_positions(fill: f64, positions: usize, generations: usize) -> f64 {
    let of_one = fill.powi(i32::try_from(positions).unwrap_or(i32::MAX));
    1.0 - (1.0 - of_one).powi(i32::try_from(generations).unwrap_or(i32::MAX))
}

/// The course of an event of `hashes` positions, of which `voting` vote: they lie on live, complete slices.
pub(super) fn course(policies: &FilterPolicies, voting: usize, hashes: usize) -> Course {
    let is_enough = voting >= min_live(policies, hashes);
    match verdict_if_too_few(policies, voting, hashes) {
        Some(decision) if voting == 0 => Course::Decide(decision),
        None if is_enough && voting < policies.thresholds.set_min as usize => Course::New,
        Some(_) | None => Course::Ask,
    }
}

/// The policy's verdict on an event of which no zero was found, where too few of its slices are live and complete; none where
/// the slices decide.
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
