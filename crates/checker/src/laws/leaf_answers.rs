//! Law: if an event was called first-seen at a site, later submissions of it at the same site get the verdict
//! duplicate, even while the site is cut off. This must work because the leaf of the site knows the event and needs no
//! other node. The law does not apply to claims and confirmations, because the root answers them.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "leaf answers: an event first-seen at a site was no duplicate there in an outage";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    for asked in calls.iter().filter(|call| is_asked_during_outage(history, call)) {
        if asked.verdict == Some(Decision::Duplicate) {
            continue;
        }
        if let Some(delivery) = calls.iter().find(|call| is_delivered_before(history, call, asked)) {
            violations.push(Violation::of(LAW, vec![(*delivery).clone(), (*asked).clone()]));
        }
    }
}

/// Returns whether a leaf answered the whole call while its site could not reach the other sites.
fn is_asked_during_outage(history: &History, call: &Call) -> bool {
    // A producer whose right was revoked may get no verdict.
    let may_ask = !history.rights.revoked.contains(&call.producer);
    let is_of_leaf = call.site.is_some() && !call.is_claim && !call.is_confirm && may_ask;
    is_of_leaf && history.outages.iter().any(|outage| outage.has_all_of(call))
}

/// Returns whether `call` delivered the event at the site of `asked` before, within one window.
fn is_delivered_before(history: &History, call: &Call, asked: &Call) -> bool {
    call.won()
        && !call.is_confirm
        && call.site == asked.site
        && !call.is_same_submission(asked)
        && call.had_returned(asked.began_us)
        && call.time_ms <= asked.time_ms
        && asked.time_ms - call.time_ms < history.promises.window_ms
}
