//! An event that was called first-seen at a site is a duplicate there also while the site is cut off: the leaf needs no
//! other node to know that. Claims and confirms are for the root, and not for leaves.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "leaf answers: what was delivered at a site was not a duplicate there during an outage";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    // Who may have lost its right is told nothing.
    let may = |call: &Call| !history.rights.revoked.contains(&call.producer);
    let is_of_leaf = |call: &Call| call.site.is_some() && !call.is_claim && !call.is_confirm && may(call);
    let during = |call: &&&Call| is_of_leaf(call) && history.outages.iter().any(|outage| outage.has_all_of(call));
    for asked in calls.iter().filter(during) {
        let delivered_here = |call: &&&Call| {
            call.won()
                && !call.is_confirm
                && call.site == asked.site
                && (call.name.is_none() || call.name != asked.name)
                && call.returned_us.is_some_and(|returned_us| returned_us < asked.began_us)
                && call.time_ms <= asked.time_ms
                && asked.time_ms - call.time_ms < history.promises.window_ms
        };
        let delivery = calls.iter().find(delivered_here);
        if let Some(delivery) = delivery.filter(|_| asked.verdict != Some(Decision::Duplicate)) {
            violations.push(Violation::of(LAW, vec![(*delivery).clone(), (*asked).clone()]));
        }
    }
}
