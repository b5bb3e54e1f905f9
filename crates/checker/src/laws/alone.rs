//! Two laws about trees whose leaves answer alone while they are cut off from the levels above:
//!
//! - A leaf answers alone only while it is cut off. If all nodes can be reached, an event that the levels above do not
//!   decide stays undecided.
//! - A leaf that is cut off does not stop to answer alone because the lease of its node has ended.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::{Decision, Reason};

const ONLY_IF_CUT_OFF: &str = "alone only if cut off: a leaf answered alone although every node could be reached";

const WITHOUT_LEASE: &str = "alone without lease: a leaf that was cut off was undecided because its lease had ended";

/// Time in microseconds within which a node notices that it cannot reach the others, even if connections stay open.
const NOTICED_US: u64 = 3_500_000;

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    if !history.promises.leaves_answer_alone {
        return;
    }
    for call in history.calls.iter().filter(|call| is_alone_beside_others(history, call)) {
        violations.push(Violation::of(ONLY_IF_CUT_OFF, vec![call.clone()]));
    }
    for call in history.calls.iter().filter(|call| is_undecided_in_outage(history, call)) {
        violations.push(Violation::of(WITHOUT_LEASE, vec![call.clone()]));
    }
}

/// Returns whether a leaf alone gave the verdict of a call while all nodes could be reached.
fn is_alone_beside_others(history: &History, call: &Call) -> bool {
    // Only verdicts that a level gave alone are then marked as degraded. Otherwise the root may also reply first-seen
    // with a mark, because some of its slices are missing.
    let is_mark_of_leaf = history.promises.never_forgets && !history.promises.outlives_a_node;
    let began_us = history.first_attempt_us(call);
    let mut unreachable = history.periods.unreachable.iter();
    let may_be_cut_off = unreachable.any(|(from_us, until_us)| *from_us <= call.ended_us() && began_us <= *until_us);
    is_mark_of_leaf && call.won() && history.is_alone(call) && !may_be_cut_off
}

/// Returns whether a submission at a site that was cut off is undecided because the lease of the site's node has ended.
fn is_undecided_in_outage(history: &History, call: &Call) -> bool {
    let asks_leaf = !call.is_lookup && !call.is_claim && !call.is_confirm;
    let mut outages = history.outages.iter().filter(|outage| call.site == Some(outage.site));
    asks_leaf
        && call.verdict == Some(Decision::Undecided(Reason::CutOff))
        && outages.any(|outage| outage.has_all_of(call) && call.began_us >= outage.from_us.saturating_add(NOTICED_US))
}
