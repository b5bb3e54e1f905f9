//! A lookup never calls an event first-seen that another call got first-seen for less than a window ago, once that call
//! has returned, as long as no node is lost that has the event's cells. An event that a leaf alone called first-seen
//! counts once the leaf has brought it to the root. (For submissions `one_winner` says the same.)

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "no false negative: a lookup did not find what was delivered before it began";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    // A lookup needs no lease: a node that is cut off answers by the map that it has.
    let missed =
        |call: &&&Call| call.is_lookup && call.verdict == Some(Decision::FirstSeen) && !history.may_be_stale(call);
    for lookup in calls.iter().filter(missed) {
        let delivered_before = |call: &&&Call| {
            call.won()
                && call.returned_us.is_some_and(|returned_us| returned_us < lookup.began_us)
                && call.time_ms <= lookup.time_ms
                && history.are_within_window(call, lookup)
                && !history.may_have_lost(call, lookup)
                && !history.may_be_unknown_elsewhere(call, lookup)
        };
        if let Some(delivery) = calls.iter().find(delivered_before) {
            violations.push(Violation::of(LAW, vec![(*delivery).clone(), (*lookup).clone()]));
        }
    }
}
