//! Replies to names, as one copy hands them to another.
//!
//! A retry must get the verdict of its first attempt from whichever copy answers. A copy that comes back asks for the replies, and gets
//! them as records without events between two messages: `HandedOver { told_for_ms: 0 }` says that they begin, and the other one for how
//! long back they are all there. Newer replies come by themselves, with the records of the copy that answers.
//!
//! Promises: the number of replies that are handed over at once is bounded. It must not depend on which copy asks.

use firstseen_filter::FilterSlice;

use crate::group::guard::ReplayGuard;
use crate::protocol::{ClockReading, Mirrored};

/// The most replies that one copy sends to another at once. A copy that remembers more sends none; the other copy then waits for the
/// retry horizon, after which no submission with one of these names may be retried.
const HANDED_EVENTS_MAX: usize = 1 << 18;
/// Replies in one message.
const MESSAGE_EVENTS_MAX: usize = 1 << 10;

/// Returns all replies that are remembered, as records without events; none if they are too many.
pub(super) fn remembered(guard: &ReplayGuard, clock: ClockReading, slice: &FilterSlice) -> Option<Vec<Mirrored>> {
    let mut replies: Vec<Mirrored> = Vec::new();
    let mut events = 0;
    for (name, names, decisions) in guard.kept() {
        events += decisions.len();
        if events > HANDED_EVENTS_MAX {
            return None;
        }
        match replies.last_mut() {
            Some(last) if takes_more(last) && !names.is_empty() => {
                last.names.extend(names);
                last.decisions.extend(decisions);
            }
            _ => {
                let nothing = Mirrored::without_events(name, clock, slice.newest_generation(), slice.probe_shape());
                replies.push(Mirrored { names, decisions, ..nothing });
            }
        }
    }
    Some(replies)
}

/// Whether replies to more named submissions fit into a record.
fn takes_more(replied: &Mirrored) -> bool {
    !replied.names.is_empty() && replied.decisions.len() < MESSAGE_EVENTS_MAX
}
