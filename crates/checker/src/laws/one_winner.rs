//! Law: of all submissions of one event within one window, at most one gets the verdict first-seen. Two cases are
//! exempt: a node with cells of the event was lost, or a leaf of a filter tree gave one of the verdicts on its own.
//!
//! This law does not require that any submission gets first-seen. Another law, `no_own_duplicate`, is violated if all
//! verdicts of an event are duplicate, because there is then no first-seen submission that explains the duplicates.

use super::{Violation, pairs};
use crate::history::{Call, History};

const LAW: &str = "one winner: two submissions of one event within a window were called first-seen";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    for (first, second) in rivals(history, calls) {
        let is_excused = history.is_alone(first) || history.is_alone(second);
        if !is_excused && !history.may_have_lost(first, second) {
            violations.push(Violation::of(LAW, vec![first.clone(), second.clone()]));
        }
    }
}

/// Returns the pairs of different submissions of one event within a window that both got the verdict first-seen.
pub(super) fn rivals<'a>(history: &History, calls: &[&'a Call]) -> Vec<(&'a Call, &'a Call)> {
    let winners: Vec<&Call> = calls.iter().copied().filter(|call| call.won()).collect();
    let different = pairs(&winners).filter(|(first, second)| !first.is_same_submission(second));
    different.filter(|(first, second)| history.are_within_window(first, second)).collect()
}
