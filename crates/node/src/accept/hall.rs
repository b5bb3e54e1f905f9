//! The connections of a node, and which of them has to go when there is no room.
//!
//! Promises: connections whose role is not known yet have a little room of their own, where the oldest goes when
//! another comes: so a peer that only holds connections open, or opens many, keeps out no peer that is quick. Of the
//! places for the others, some are kept for nodes and for operators; where no place is left, a connection that has made
//! no call for long goes. Must not know: connections, certificates, the clock.

use std::collections::BTreeMap;

use firstseen_routing::MonotonicMs;
use tokio_util::sync::CancellationToken;

use crate::shares::{Party, PartyShares};

/// A connection without a call for so long may have to give up its place. A peer that works makes its next call sooner,
/// or can connect again.
pub(super) const IDLE_MIN_MS: u64 = 10_000;

/// The connections of a node.
pub(super) struct Hall {
    unknown_max: usize,
    places: PartyShares,
    /// Connections whose role is not known yet, in the order in which they came, each with the token that closes it.
    unknown: BTreeMap<u64, CancellationToken>,
    occupants: BTreeMap<u64, Occupant>,
    next: u64,
}

/// A connection that has a place.
struct Occupant {
    close: CancellationToken,
    party: Party,
    calls: u64,
    /// Whether it ever made a call.
    has_asked: bool,
    /// When it last had a call, or got its place.
    idle_since_ms: MonotonicMs,
}

/// The answer to a connection that asks for a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seated {
    /// It has a place.
    Here,
    /// It has a place, which another connection has given up.
    InsteadOfAnother,
    /// There is no place, and it has to go.
    Nowhere,
}

impl Hall {
    /// A hall without connections; with room for so many, and for so many whose role is not known.
    pub(super) fn new(places: u32, unknown_max: u32) -> Self {
        Self {
            unknown_max: unknown_max as usize,
            places: PartyShares::of_places(u64::from(places)),
            unknown: BTreeMap::new(),
            occupants: BTreeMap::new(),
            next: 0,
        }
    }

    /// A connection comes, which is closed when `close` is cancelled; returns its number, and whether another one had
    /// to go.
    pub(super) fn come(&mut self, close: CancellationToken) -> (u64, bool) {
        let number = self.next;
        self.next += 1;
        self.unknown.insert(number, close);
        let is_full = self.unknown.len() > self.unknown_max;
        if is_full && let Some((_, oldest)) = self.unknown.pop_first() {
            oldest.cancel();
        }
        (number, is_full)
    }

    /// The role of a connection is known now.
    pub(super) fn seat(&mut self, number: u64, party: Party, now_ms: MonotonicMs) -> Seated {
        let Some(close) = self.unknown.remove(&number) else { return Seated::Nowhere };
        let seated = self.take(party, now_ms);
        match seated {
            Seated::Nowhere => close.cancel(),
            Seated::Here | Seated::InsteadOfAnother => {
                let occupant = Occupant { close, party, calls: 0, has_asked: false, idle_since_ms: now_ms };
                self.occupants.insert(number, occupant);
            }
        }
        seated
    }

    /// A connection makes its first call, and so shows whose place it should have.
    fn move_to(&mut self, number: u64, party: Party, now_ms: MonotonicMs) -> Seated {
        let Some(occupant) = self.occupants.remove(&number) else { return Seated::Nowhere };
        self.places.give(occupant.party, 1);
        let seated = self.take(party, now_ms);
        match seated {
            Seated::Nowhere => occupant.close.cancel(),
            Seated::Here | Seated::InsteadOfAnother => {
                drop(self.occupants.insert(number, Occupant { party, ..occupant }))
            }
        }
        seated
    }

    /// A place for one of `party`; where there is none, that of an idle connection.
    fn take(&mut self, party: Party, now_ms: MonotonicMs) -> Seated {
        if self.places.take(party, 1) {
            return Seated::Here;
        }
        let idle = self.occupants.iter().filter(|(_, occupant)| {
            let is_idle = occupant.calls == 0 && now_ms.since(occupant.idle_since_ms) >= IDLE_MIN_MS;
            is_idle && (occupant.party == party || self.places.is_over(occupant.party))
        });
        let Some(number) = idle.min_by_key(|(_, occupant)| occupant.idle_since_ms).map(|(number, _)| *number) else {
            return Seated::Nowhere;
        };
        if let Some(idle) = self.occupants.remove(&number) {
            self.places.give(idle.party, 1);
            idle.close.cancel();
        }
        if self.places.take(party, 1) { Seated::InsteadOfAnother } else { Seated::Nowhere }
    }

    /// A connection makes a call, and should have a place of `party` for it where it is the first. Returns whose place
    /// it has, and how it got it; [`Seated::Nowhere`] where it has to go.
    pub(super) fn begin_call(&mut self, number: u64, party: Party, now_ms: MonotonicMs) -> (Party, Seated) {
        let seated = match self.occupants.get(&number) {
            None => self.seat(number, party, now_ms),
            Some(occupant) if !occupant.has_asked && occupant.party != party => self.move_to(number, party, now_ms),
            Some(_) => Seated::Here,
        };
        let Some(occupant) = self.occupants.get_mut(&number) else { return (party, Seated::Nowhere) };
        occupant.calls += 1;
        occupant.has_asked = true;
        (occupant.party, seated)
    }

    /// A call of a connection is over.
    pub(super) fn end_call(&mut self, number: u64, now_ms: MonotonicMs) {
        let Some(occupant) = self.occupants.get_mut(&number) else { return };
        occupant.calls = occupant.calls.saturating_sub(1);
        occupant.idle_since_ms = now_ms;
    }

    /// A connection is closed.
    pub(super) fn leave(&mut self, number: u64) {
        self.unknown.remove(&number);
        if let Some(occupant) = self.occupants.remove(&number) {
            self.places.give(occupant.party, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonotonicMs {
        MonotonicMs(ms)
    }

    /// A hall of 16 places, 4 of them for nodes and one for operators, and the connections that came to it.
    struct Evening {
        hall: Hall,
        close: BTreeMap<u64, CancellationToken>,
    }

    impl Evening {
        fn new(unknown_max: u32) -> Self {
            Self { hall: Hall::new(16, unknown_max), close: BTreeMap::new() }
        }

        fn come(&mut self) -> u64 {
            let close = CancellationToken::new();
            let (number, _) = self.hall.come(close.clone());
            self.close.insert(number, close);
            number
        }

        /// A connection comes, and shows its role at once.
        fn enter(&mut self, party: Party, now_ms: MonotonicMs) -> (u64, Seated) {
            let number = self.come();
            (number, self.hall.seat(number, party, now_ms))
        }

        /// Lets in as many as get in.
        fn fill(&mut self, party: Party, now_ms: MonotonicMs) -> Vec<u64> {
            let enter = || Some(self.enter(party, now_ms)).filter(|(_, seated)| *seated == Seated::Here);
            std::iter::from_fn(enter).map(|(number, _)| number).collect()
        }

        fn gone(&self) -> Vec<u64> {
            self.close.iter().filter(|(_, close)| close.is_cancelled()).map(|(number, _)| *number).collect()
        }
    }

    #[test]
    fn of_those_whom_nobody_knows_the_oldest_goes() {
        let mut evening = Evening::new(2);
        let numbers = [evening.come(), evening.come(), evening.come()];
        assert_eq!(evening.gone(), numbers[..1]);
        assert_eq!(evening.hall.seat(numbers[0], Party::Nodes, at(0)), Seated::Nowhere);
        assert_eq!(evening.hall.seat(numbers[1], Party::Nodes, at(0)), Seated::Here);
        assert_eq!(evening.hall.seat(numbers[2], Party::Nodes, at(0)), Seated::Here);
        // A connection whose role is known is no longer one of these.
        let numbers = [evening.come(), evening.come()];
        assert!(!evening.gone().contains(&numbers[0]));
    }

    #[test]
    fn producers_take_no_place_of_nodes_or_operators() {
        let mut evening = Evening::new(1);
        assert_eq!(evening.fill(Party::Producers, at(0)).len(), 16 - 4 - 1);
        assert_eq!(evening.fill(Party::Operators, at(0)).len(), 1);
        assert_eq!(evening.fill(Party::Nodes, at(0)).len(), 4);
    }

    #[test]
    fn whoever_is_idle_for_long_gives_its_place_up() {
        let mut evening = Evening::new(1);
        let producers = evening.fill(Party::Producers, at(0));
        let (busy, idle, late) = (producers[0], producers[1], producers[2]);
        evening.hall.begin_call(busy, Party::Producers, at(0));
        for number in &producers[2..] {
            evening.hall.begin_call(*number, Party::Producers, at(0));
            evening.hall.end_call(*number, at(1 + u64::from(*number == late)));
        }
        assert_eq!(evening.enter(Party::Producers, at(IDLE_MIN_MS - 1)).1, Seated::Nowhere, "nobody is idle for long");
        assert_eq!(evening.enter(Party::Producers, at(IDLE_MIN_MS)).1, Seated::InsteadOfAnother);
        assert!(evening.gone().contains(&idle));
        for _ in 0..producers.len() - 3 {
            assert_eq!(evening.enter(Party::Producers, at(IDLE_MIN_MS + 1)).1, Seated::InsteadOfAnother);
        }
        assert!(!evening.gone().contains(&late));
        assert_eq!(evening.enter(Party::Producers, at(IDLE_MIN_MS + 1)).1, Seated::Nowhere);
        assert_eq!(evening.enter(Party::Producers, at(IDLE_MIN_MS + 2)).1, Seated::InsteadOfAnother);
        assert!(evening.gone().contains(&late) && !evening.gone().contains(&busy));
    }

    #[test]
    fn nodes_keep_their_places_however_idle() {
        let mut evening = Evening::new(1);
        assert_eq!(evening.fill(Party::Nodes, at(0)).len(), 15);
        // Connections beyond the places kept for their party have to go for others, the rest do not.
        let seated: Vec<Seated> = (0..13).map(|_| evening.enter(Party::Producers, at(IDLE_MIN_MS)).1).collect();
        assert_eq!(seated[..11], [Seated::InsteadOfAnother; 11]);
        assert_eq!(seated[11..], [Seated::Nowhere; 2]);
    }

    #[test]
    fn the_first_call_shows_whose_place_it_is() {
        let mut evening = Evening::new(2);
        // A node that forwards batches takes no place of links; nor does a connection whose role only its call shows.
        let (relay, stranger) = (evening.enter(Party::Nodes, at(0)).0, evening.come());
        assert_eq!(evening.hall.begin_call(relay, Party::Producers, at(0)), (Party::Producers, Seated::Here));
        assert_eq!(evening.hall.begin_call(stranger, Party::Producers, at(0)), (Party::Producers, Seated::Here));
        assert_eq!(evening.hall.begin_call(relay, Party::Nodes, at(0)).0, Party::Producers, "only the first");
        assert_eq!(evening.fill(Party::Producers, at(0)).len(), 9);
        let another = evening.enter(Party::Nodes, at(0)).0;
        assert_eq!(evening.hall.begin_call(another, Party::Producers, at(0)).1, Seated::Nowhere);
        assert!(evening.gone().contains(&another));
        evening.hall.leave(relay);
        assert_eq!(evening.fill(Party::Producers, at(0)).len(), 1);
        assert_eq!(evening.fill(Party::Nodes, at(0)).len(), 4, "who had to go has left no place taken");
    }
}
