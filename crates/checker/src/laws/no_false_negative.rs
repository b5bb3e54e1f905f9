//! A lookup never calls an event first-seen that another call got first-seen for less than a window ago, once that call
//! has returned, as long as no node is lost that has the event's cells. An event that a leaf alone called first-seen
//! counts once the leaf has brought it to the root. (For submissions `one_winner` says the same.)

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "no false negative: a lookup did not find what was delivered before it began";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    let missed = calls.iter().filter(|call| call.is_lookup && call.verdict == Some(Decision::FirstSeen));
    // A lookup needs no lease: a node that is cut off answers by the map that it has.
    for lookup in missed.filter(|call| !history.may_be_stale(call)) {
        let delivery = calls.iter().find(|call| {
            call.won()
                && call.had_returned(lookup.began_us)
                && call.time_ms <= lookup.time_ms
                && history.are_within_window(call, lookup)
                && !history.may_have_lost(call, lookup)
                && !history.may_be_unknown_elsewhere(call, lookup)
        });
        if let Some(delivery) = delivery {
            violations.push(Violation::of(LAW, vec![(*delivery).clone(), (*lookup).clone()]));
        }
    }
}
