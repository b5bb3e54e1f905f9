//! Verdicts as numbers, which `firstseen.Verdict` gives names to.

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
