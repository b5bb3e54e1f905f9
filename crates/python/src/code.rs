//! Verdicts as numbers, which `firstseen.Verdict` gives names to.

use firstseen_client::{Confirming, Lost, Reason, Verdict};
use firstseen_routing::Answer;

/// The event was seen within the window before.
pub(crate) const DUPLICATE: u8 = 0;
/// The event was not seen within the window before.
pub(crate) const FIRST_SEEN: u8 = 1;
/// The filter has no room for the event.
pub(crate) const FULL: u8 = 2;
/// The event is older than the window and the lateness allow.
pub(crate) const LATE: u8 = 3;
/// The time of the event is too far ahead of the times of other events.
pub(crate) const FUTURE: u8 = 4;
/// The event has no key.
pub(crate) const NO_KEY: u8 = 5;
/// The event has no time, and the window needs one.
pub(crate) const NO_TIME: u8 = 6;
/// Another consumer holds a claim on the event.
pub(crate) const CLAIMED: u8 = 19;
/// The event is not judged yet.
pub(crate) const PENDING: u8 = u8::MAX;

/// Returns the number of an answer.
pub(crate) fn of(answer: Answer) -> u8 {
    match answer {
        Answer::FirstSeen => FIRST_SEEN,
        Answer::Duplicate => DUPLICATE,
        Answer::Undecided => FULL,
        Answer::Late => LATE,
        Answer::Refused => FUTURE,
    }
}

/// Returns the number of a verdict of a cluster.
pub(crate) fn of_verdict(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::FirstSeen => FIRST_SEEN,
        Verdict::Duplicate => DUPLICATE,
        Verdict::Undecided(reason) => of_reason(reason),
    }
}

/// Returns the number of the answer to a confirmation, which is that of the verdict behind it.
pub(crate) fn of_confirming(confirming: Confirming) -> u8 {
    match confirming {
        Confirming::Confirmed => FIRST_SEEN,
        Confirming::LeaseLost(Lost::Recorded) => DUPLICATE,
        Confirming::LeaseLost(Lost::NotHeld) => CLAIMED,
        Confirming::Undecided(reason) => of_reason(reason),
    }
}

/// Returns the number of the reason why a cluster could not decide.
pub(crate) fn of_reason(reason: Reason) -> u8 {
    match reason {
        Reason::Full => FULL,
        Reason::Late => LATE,
        Reason::Future => FUTURE,
        Reason::Overloaded => 7,
        Reason::StaleMap => 8,
        Reason::TooOld => 9,
        Reason::Unknown => 10,
        Reason::NotReady => 11,
        Reason::Invalid => 12,
        Reason::UnknownFilter => 13,
        Reason::SlicesDown => 14,
        Reason::Altered => 15,
        Reason::NameReused => 16,
        Reason::CutOff => 17,
        Reason::ClockSkew => 18,
        Reason::Claimed => CLAIMED,
        Reason::Forbidden => 20,
        Reason::ClaimsUnknown => 21,
    }
}
