//! An event is a duplicate only where another submission of it may have been recorded: never because of itself. (A
//! recorded event with a later time explains the duplicate, however much later: one that comes late finds what was
//! recorded before.) Who has not the right to record events has recorded none.

use super::Violation;
use super::rights::lacked_right;
use crate::history::{Call, History};
use firstseen_routing::Decision;

const LAW: &str = "no duplicate of itself: no other submission can have recorded the event";

pub(super) fn check(history: &History, calls: &[&Call], violations: &mut Vec<Violation>) {
    // A confirm may have found what its own first try has recorded.
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
