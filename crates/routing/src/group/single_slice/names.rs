//! Transfers remembered replies from one copy of a slice to another. A remembered reply belongs to the idempotency key
//! of a submission. After the transfer, both copies give the same reply to a retry with that key.
//!
//! A retry must get the verdict of its first attempt, whichever copy answers. A copy that comes back asks for the
//! remembered replies, and receives them as records without events. Two messages frame the transfer: `HandedOver {
//! told_for_ms: 0 }` marks the beginning, and a second `HandedOver` states for how long back the replies are complete.
//! Newer replies arrive with the records of the answering copy.
//!
//! The number of replies that are transferred at once is bounded.

use firstseen_filter::FilterSlice;

use crate::group::guard::ReplayGuard;
use crate::protocol::{ClockReading, Mirrored};

/// Maximum number of remembered replies that one copy sends to another copy at once. If a copy remembers more replies,
/// it sends none of them. The receiving copy then has to wait for one retry horizon. After that time, none of the
/// submissions whose replies it lacks can be retried any more.
const HANDED_EVENTS_MAX: usize = 1 << 18;
/// Maximum number of replies in one message.
const MESSAGE_EVENTS_MAX: usize = 1 << 10;

/// Returns all remembered replies as records without events, or `None` if there are too many.
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

/// Returns whether replies to more events with their own idempotency keys fit into a record.
fn takes_more(replied: &Mirrored) -> bool {
    !replied.names.is_empty() && replied.decisions.len() < MESSAGE_EVENTS_MAX
}
