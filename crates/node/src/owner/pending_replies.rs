//! The table of callers that wait for a reply of an owner. Each waiting caller has a number (`reply_to`), by which the
//! state machines of the owner refer to the caller. When the reply arrives, the table removes the entry of the caller.
//! If no reply arrives in time, the table removes the entry as well, and the caller receives the reply "unknown".

use std::collections::{BTreeSet, HashMap};

use firstseen_routing::{EarlyDuplicates, GroupReply, MonotonicMs};

use crate::reply_queues::RunPlace;

/// Time for which an entry stays in the table after the caller's deadline, in milliseconds. At the deadline, the state
/// machine that processes the request should itself reply to the caller, and this reply takes a moment to arrive. The
/// table sends the reply "unknown" only if no reply has arrived after this additional time.
const GRACE_MS: u64 = 1000;

/// The pending replies, by the number that the state machines use for each of them.
#[derive(Default)]
pub(super) struct PendingReplies {
    places: HashMap<u64, (RunPlace, MonotonicMs)>,
    /// Numbers of the pending replies, ordered by the time at which each of them expires.
    ends: BTreeSet<(MonotonicMs, u64)>,
    last_number: u64,
}

impl PendingReplies {
    /// Adds a pending reply and returns its number.
    pub(super) fn take(&mut self, place: RunPlace, deadline_ms: MonotonicMs) -> u64 {
        self.last_number += 1;
        let end_ms = deadline_ms.after(GRACE_MS);
        self.places.insert(self.last_number, (place, end_ms));
        self.ends.insert((end_ms, self.last_number));
        self.last_number
    }

    /// Delivers the reply to the caller with this number.
    pub(super) fn reply(&mut self, number: u64, reply: GroupReply) {
        // If the number is unknown, the deadline has passed and the caller already has its reply.
        let Some((place, end_ms)) = self.places.remove(&number) else { return };
        self.ends.remove(&(end_ms, number));
        place.reply(reply);
    }

    /// Delivers the events of a run that are already known to be duplicates.
    pub(super) fn forward_early(&self, early: &EarlyDuplicates) {
        if let Some((place, _)) = self.places.get(&early.reply_to) {
            place.forward_early(early);
        }
    }

    /// Removes the entries whose deadline has passed. Their callers receive the reply "unknown".
    pub(super) fn expire(&mut self, now_ms: MonotonicMs) {
        while let Some((end_ms, number)) = self.ends.first().copied() {
            if end_ms > now_ms {
                break;
            }
            self.ends.remove(&(end_ms, number));
            self.places.remove(&number);
        }
    }

    /// Returns whether no reply is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the earliest time at which a pending reply expires.
    pub(super) fn next_end_ms(&self) -> Option<MonotonicMs> {
        self.ends.first().map(|(end_ms, _)| *end_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply_queues::{PendingBatch, PendingHeader, ReplyQueues};
    use firstseen_routing::{Answers, Decision, FilterId, Reason};

    #[test]
    fn a_place_ends_with_its_answer_or_its_time() {
        let (ears, mut finished, _found) = ReplyQueues::with_room(2);
        let mut desk = PendingReplies::default();
        let mut take = |sequence, deadline_ms| {
            let place = PendingBatch::places(PendingHeader::of(FilterId(1), sequence), &[1], ears.clone(), None)
                .pop()
                .expect("one run");
            desk.take(place, MonotonicMs(deadline_ms))
        };
        let (first, _second) = (take(1, 10), take(2, 20));
        desk.reply(first, GroupReply { answers: Answers::new(vec![Decision::FirstSeen]), ..GroupReply::default() });
        assert_eq!(finished.try_recv().expect("answered").header.sequence, 1);
        desk.expire(MonotonicMs(20 + GRACE_MS - 1));
        assert!(!desk.is_empty());
        desk.expire(MonotonicMs(20 + GRACE_MS));
        let late = finished.try_recv().expect("its time is over");
        let decisions = late.replies().next().expect("one run").answers.decisions();
        assert_eq!((late.header.sequence, decisions), (2, &[Decision::Undecided(Reason::Unknown)][..]));
        assert!(desk.is_empty() && desk.next_end_ms().is_none());
        desk.reply(first, GroupReply::default());
    }
}
