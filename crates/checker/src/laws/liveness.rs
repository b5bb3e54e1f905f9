//! Once there are no more failures, every copy gets the cells that another one has; where lost events have expired too,
//! everything is complete, and every verdict definite.

use super::Violation;
use crate::history::History;
use firstseen_routing::{Decision, Reason};

/// A few calls are enough to show.
const SHOWN_MAX: usize = 3;

const LAW: &str = "liveness: not all is well though nothing goes wrong any more";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let Some(healed) = &history.healed else { return };
    let late = history.calls.iter().filter(|call| history.first_attempt_us(call) > healed.at_us);
    let open = late.filter(|call| is_open(call.verdict, healed.is_whole));
    let calls: Vec<_> = open.take(SHOWN_MAX).cloned().collect();
    if !calls.is_empty() || healed.lacks.is_some() {
        violations.push(Violation { law: LAW, calls, what: healed.lacks.clone() });
    }
}

/// Returns whether a call has no verdict, and not for a reason that there may be.
fn is_open(verdict: Option<Decision>, is_whole: bool) -> bool {
    match verdict {
        // How long somebody may hold an event, and how long that may be unknown, is a law of claims.
        Some(Decision::Undecided(Reason::Claimed | Reason::ClaimsUnknown)) => false,
        // A producer that asks for missing slices again and again may reach its deadline before the last answer.
        Some(Decision::Undecided(Reason::SlicesDown | Reason::Unknown)) => is_whole,
        Some(Decision::Undecided(_)) | None => true,
        Some(_) => false,
    }
}
