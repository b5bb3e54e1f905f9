//! Of all submissions of one event that occurred within one window, at most one is told first-seen.

use super::{Violation, pairs};
use crate::history::{Call, History};

const LAW: &str = "one winner: two submissions of one event within a window were told first-seen";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    let winners: Vec<&Call> = calls.iter().copied().filter(|call| call.won()).collect();
    for (first, second) in pairs(&winners) {
        let same_submission = first.name.is_some() && first.name == second.name;
        if !same_submission && first.time_ms.abs_diff(second.time_ms) < history.window_ms {
            violations.push(Violation { law: LAW, calls: vec![first.clone(), second.clone()] });
        }
    }
}
