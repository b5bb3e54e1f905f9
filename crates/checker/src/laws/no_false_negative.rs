//! Law: a lookup finds an event that another call has recorded less than a window ago. The other call must have got the
//! verdict first-seen and must have returned before the lookup began. The law `one_winner` requires the same of
//! submissions.
//!
//! Events whose cells were lost with a node are exempt. If a leaf called an event first-seen on its own, the law
//! applies to this event only after the leaf has reported it to the root.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "no false negative: a lookup did not find an event that was first-seen before it began";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    let missed = calls.iter().filter(|call| call.is_lookup && call.verdict == Some(Decision::FirstSeen));
    // A lookup needs no lease, so a node that is cut off answers it by the map that it has.
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
