//! Law: an event gets the verdict duplicate only if another submission may have recorded it. A submission must never be
//! called a duplicate of itself. If the producer of the other submission lacked the right to record events, that
//! submission does not count, because it has recorded nothing.
//!
//! The event times of the two submissions do not matter. A submission can be a duplicate of another submission whose
//! event time is later, because a filter compares an event that arrives late with everything that it has recorded.

use super::Violation;
use super::rights::lacked_right;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "no duplicate of itself: an event was a duplicate although no other call can have recorded it";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    // A confirmation may have found the event because its own first try has recorded it.
    let told = calls.iter().filter(|call| call.verdict == Some(Decision::Duplicate) && !call.is_confirm);
    for duplicate in told {
        let is_explained = calls.iter().any(|other| {
            other.id != duplicate.id
                && !other.is_same_submission(duplicate)
                && (other.may_have_recorded() || history.may_have_recorded_in_vain(other, duplicate))
                && lacked_right(history, other).is_none()
                && duplicate.returned_us.is_none_or(|returned_us| other.began_us < returned_us)
                && history.may_be_known(other, duplicate)
        });
        if !is_explained {
            violations.push(Violation::of(LAW, vec![(*duplicate).clone()]));
        }
    }
}
