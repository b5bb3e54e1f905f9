//! Once nothing goes wrong any more, every copy gets what another has; where what was lost has expired, too, everything is
//! complete, and every answer definite.

use super::Violation;
use crate::history::History;
use firstseen_routing::{Decision, Reason};

/// A few calls tell as much as all.
const SHOWN_MAX: usize = 3;

const LAW: &str = "liveness: not all is well though nothing goes wrong any more";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let Some(healed_us) = history.healed_us else { return };
    // Who asks for slices that are missing again and again may run out of time before the last answer.
    let may_lack = |reason: Reason| !history.ends_whole && matches!(reason, Reason::SlicesDown | Reason::Unknown);
    let is_open = |told: Option<Decision>| match told {
        Some(Decision::Undecided(reason)) => !may_lack(reason),
        Some(_) => false,
        None => true,
    };
    let open = history.calls.iter().filter(|call| history.first_attempt_us(call) > healed_us && is_open(call.told));
    let calls: Vec<_> = open.take(SHOWN_MAX).cloned().collect();
    if !calls.is_empty() || history.unhealed.is_some() {
        violations.push(Violation { law: LAW, calls, what: history.unhealed.clone() });
    }
}
