//! The *desk* of an owner: where each caller waits for its reply. An owner's machines know a caller only by the number
//! that the desk has given it (`reply_to`).
//!
//! Promises: an entry ends with its reply, or when its time is over (then the reply is "unknown"), so no entry is kept
//! for ever. Must not know: what is asked.

use std::collections::{BTreeSet, HashMap};

use firstseen_routing::{EarlyDuplicates, GroupReply, MonotonicMs};

use crate::pending::RunPlace;

/// How long after its deadline a reply is still waited for: the machines reply to late ones themselves.
const GRACE_MS: u64 = 1000;

/// Places, by the number that an owner's machine has for each.
#[derive(Default)]
pub(super) struct Desk {
    places: HashMap<u64, (RunPlace, MonotonicMs)>,
    /// Numbers by the time after which no caller waits.
    ends: BTreeSet<(MonotonicMs, u64)>,
    last_number: u64,
}

impl Desk {
    /// Takes a place, and returns its number.
    pub(super) fn take(&mut self, place: RunPlace, deadline_ms: MonotonicMs) -> u64 {
        self.last_number += 1;
        let end_ms = deadline_ms.after(GRACE_MS);
        self.places.insert(self.last_number, (place, end_ms));
        self.ends.insert((end_ms, self.last_number));
        self.last_number
    }

    /// Gives the place of this number its reply.
    pub(super) fn reply(&mut self, number: u64, reply: GroupReply) {
        // Not there: the place's time was over, and it has its reply.
        let Some((place, end_ms)) = self.places.remove(&number) else { return };
        self.ends.remove(&(end_ms, number));
        place.reply(reply);
    }

    /// Hands a place those of its events that are duplicates for certain.
    pub(super) fn hand_early(&self, early: &EarlyDuplicates) {
        if let Some((place, _)) = self.places.get(&early.reply_to) {
            place.hand_early(early);
        }
    }

    /// Lets go of places whose time is over: they answer "unknown".
    pub(super) fn expire(&mut self, now_ms: MonotonicMs) {
        while let Some((end_ms, number)) = self.ends.first().copied() {
            if end_ms > now_ms {
                break;
            }
            self.ends.remove(&(end_ms, number));
            self.places.remove(&number);
        }
    }

    /// Whether no place waits.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The first time after which a place waits no more.
    pub(super) fn next_end_ms(&self) -> Option<MonotonicMs> {
        self.ends.first().map(|(end_ms, _)| *end_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pending::{Ears, PendingBatch, PendingHeader};
    use firstseen_routing::{Answers, Decision, FilterId, Reason};

    #[test]
    fn a_place_ends_with_its_answer_or_its_time() {
        let (ears, mut finished, _found) = Ears::with_room(2);
        let mut desk = Desk::default();
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
