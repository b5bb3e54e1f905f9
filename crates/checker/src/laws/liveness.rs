//! Law: when there are no more faults, the cluster recovers completely. First, every copy gets the cells that another
//! copy has. When the events that were lost have also expired, every slice is complete and every verdict is definite.

use super::Violation;
use crate::history::History;
use firstseen_routing::{Decision, Reason};

/// Maximum number of calls that a violation shows.
const SHOWN_MAX: usize = 3;

const LAW: &str = "liveness: not everything has recovered although there are no more faults";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let Some(healed) = &history.healed else { return };
    let late = history.calls.iter().filter(|call| history.first_attempt_us(call) > healed.at_us);
    let open = late.filter(|call| is_open(call.verdict, healed.is_whole));
    let calls: Vec<_> = open.take(SHOWN_MAX).cloned().collect();
    if !calls.is_empty() || healed.lacks.is_some() {
        violations.push(Violation { law: LAW, calls, what: healed.lacks.clone() });
    }
}

/// Returns whether a call has no verdict, without an allowed reason.
fn is_open(verdict: Option<Decision>, is_whole: bool) -> bool {
    match verdict {
        // The laws about claims limit how long an event may be held, and how long its holder may be unknown.
        Some(Decision::Undecided(Reason::Claimed | Reason::ClaimsUnknown)) => false,
        // A producer that repeatedly asks for missing slices may reach its deadline before the last reply.
        Some(Decision::Undecided(Reason::SlicesDown | Reason::Unknown)) => is_whole,
        Some(Decision::Undecided(_)) | None => true,
        Some(_) => false,
    }
}
