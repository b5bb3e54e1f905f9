//! Manages the connection slots of a node, and chooses the connection that must give way if no slot is free.
//!
//! # Guarantees
//! - Connections whose role is not known yet use a small set of separate slots. If this set is full, a new connection
//!   replaces the oldest one. A client that holds or opens many connections therefore cannot lock out a client that
//!   quickly shows its role.
//! - Of the other slots, some are reserved for nodes and some for operators.
//! - If no slot is free, a connection that has made no call for a long time is closed.
//!
//! This module does not depend on certificates, on the clock, or on the connections themselves.

use std::collections::BTreeMap;

use firstseen_routing::MonotonicMs;
use tokio_util::sync::CancellationToken;

use crate::shares::{Party, PartyShares};

/// Time for which a connection must have been without a call before it can be closed to free its slot for another
/// connection, in milliseconds. A working client makes its next call sooner than that, and if its connection is closed,
/// it can connect again.
pub(super) const IDLE_MIN_MS: u64 = 10_000;

/// The connection slots of a node.
pub(super) struct ConnectionSlots {
    unknown_max: usize,
    places: PartyShares,
    /// Connections whose role is not known yet, in the order of their arrival, with the tokens that close them.
    unknown: BTreeMap<u64, CancellationToken>,
    holders: BTreeMap<u64, SlotHolder>,
    next: u64,
}

/// A connection that has a slot.
struct SlotHolder {
    close: CancellationToken,
    party: Party,
    calls: u64,
    /// Whether the connection has ever made a call.
    has_asked: bool,
    /// Time at which the connection last had a call, or at which it received its slot.
    idle_since_ms: MonotonicMs,
}

/// Result of a request for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotOutcome {
    /// The connection has a slot.
    Here,
    /// The connection has the slot of another connection, which was closed.
    InsteadOfAnother,
    /// There is no free slot, and the connection must be closed.
    Nowhere,
}

impl ConnectionSlots {
    /// Creates `places` slots for connections whose role is known, and `unknown_max` slots for other connections.
    pub(super) fn new(places: u32, unknown_max: u32) -> Self {
        Self {
            unknown_max: unknown_max as usize,
            places: PartyShares::of_places(u64::from(places)),
            unknown: BTreeMap::new(),
            holders: BTreeMap::new(),
            next: 0,
        }
    }

    /// Registers a new connection, and returns the number that identifies it in calls of the other methods. To close
    /// the connection later, for example to free its slot, this registry cancels the token `close`.
    ///
    /// A new connection has no role yet: whether it belongs to a node, an operator or a producer becomes known with its
    /// first call. Only a limited number of connections may be without a role. If the new connection exceeds this
    /// limit, the oldest connection without a role is closed, and the second value of the result is `true`.
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

    /// Sets the role of a connection, and assigns it a slot.
    pub(super) fn assign_slot(&mut self, number: u64, party: Party, now_ms: MonotonicMs) -> SlotOutcome {
        let Some(close) = self.unknown.remove(&number) else { return SlotOutcome::Nowhere };
        let seated = self.take(party, now_ms);
        match seated {
            SlotOutcome::Nowhere => close.cancel(),
            SlotOutcome::Here | SlotOutcome::InsteadOfAnother => {
                let holder = SlotHolder { close, party, calls: 0, has_asked: false, idle_since_ms: now_ms };
                self.holders.insert(number, holder);
            }
        }
        seated
    }

    /// Moves a connection to a slot of another party. Its first call shows which party the connection belongs to.
    fn move_to(&mut self, number: u64, party: Party, now_ms: MonotonicMs) -> SlotOutcome {
        let Some(holder) = self.holders.remove(&number) else { return SlotOutcome::Nowhere };
        self.places.give(holder.party, 1);
        let seated = self.take(party, now_ms);
        match seated {
            SlotOutcome::Nowhere => holder.close.cancel(),
            SlotOutcome::Here | SlotOutcome::InsteadOfAnother => {
                drop(self.holders.insert(number, SlotHolder { party, ..holder }))
            }
        }
        seated
    }

    /// Takes a slot for a client of the kind `party`. If no slot is free, the function looks for a connection that has
    /// made no call for at least [`IDLE_MIN_MS`]. It closes the connection that has been idle for the longest time, and
    /// uses the slot of that connection.
    fn take(&mut self, party: Party, now_ms: MonotonicMs) -> SlotOutcome {
        if self.places.take(party, 1) {
            return SlotOutcome::Here;
        }
        let idle = self.holders.iter().filter(|(_, holder)| {
            let is_idle = holder.calls == 0 && now_ms.since(holder.idle_since_ms) >= IDLE_MIN_MS;
            is_idle && (holder.party == party || self.places.is_over(holder.party))
        });
        let Some(number) = idle.min_by_key(|(_, holder)| holder.idle_since_ms).map(|(number, _)| *number) else {
            return SlotOutcome::Nowhere;
        };
        if let Some(idle) = self.holders.remove(&number) {
            self.places.give(idle.party, 1);
            idle.close.cancel();
        }
        if self.places.take(party, 1) { SlotOutcome::InsteadOfAnother } else { SlotOutcome::Nowhere }
    }

    /// Registers the beginning of a call on a connection. `party` is the kind of client that usually makes such calls.
    /// Slots are reserved for each kind of client, but only the first call on a connection shows which kind has
    /// connected. At the first call, the connection therefore moves to a slot of `party`.
    ///
    /// Returns two values: the kind of client whose slot the connection uses, and how the connection received that
    /// slot. If the second value is [`SlotOutcome::Nowhere`], no slot was free, and the caller must close the
    /// connection.
    pub(super) fn begin_call(&mut self, number: u64, party: Party, now_ms: MonotonicMs) -> (Party, SlotOutcome) {
        let seated = match self.holders.get(&number) {
            None => self.assign_slot(number, party, now_ms),
            Some(holder) if !holder.has_asked && holder.party != party => self.move_to(number, party, now_ms),
            Some(_) => SlotOutcome::Here,
        };
        let Some(holder) = self.holders.get_mut(&number) else { return (party, SlotOutcome::Nowhere) };
        holder.calls += 1;
        holder.has_asked = true;
        (holder.party, seated)
    }

    /// Notes that a call on a connection has ended.
    pub(super) fn end_call(&mut self, number: u64, now_ms: MonotonicMs) {
        let Some(holder) = self.holders.get_mut(&number) else { return };
        holder.calls = holder.calls.saturating_sub(1);
        holder.idle_since_ms = now_ms;
    }

    /// Releases the slot of a closed connection.
    pub(super) fn leave(&mut self, number: u64) {
        self.unknown.remove(&number);
        if let Some(holder) = self.holders.remove(&number) {
            self.places.give(holder.party, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> MonotonicMs {
        MonotonicMs(ms)
    }

    /// Sixteen slots, of which four are reserved for nodes and one for operators, with the connections that were
    /// opened.
    struct TestSlots {
        slots: ConnectionSlots,
        close: BTreeMap<u64, CancellationToken>,
    }

    impl TestSlots {
        fn new(unknown_max: u32) -> Self {
            Self { slots: ConnectionSlots::new(16, unknown_max), close: BTreeMap::new() }
        }

        fn come(&mut self) -> u64 {
            let close = CancellationToken::new();
            let (number, _) = self.slots.come(close.clone());
            self.close.insert(number, close);
            number
        }

        /// Opens a connection that shows its role at once.
        fn enter(&mut self, party: Party, now_ms: MonotonicMs) -> (u64, SlotOutcome) {
            let number = self.come();
            (number, self.slots.assign_slot(number, party, now_ms))
        }

        /// Opens connections until no slot is free.
        fn fill(&mut self, party: Party, now_ms: MonotonicMs) -> Vec<u64> {
            let mut numbers = Vec::new();
            loop {
                let (number, outcome) = self.enter(party, now_ms);
                if outcome != SlotOutcome::Here {
                    return numbers;
                }
                numbers.push(number);
            }
        }

        fn gone(&self) -> Vec<u64> {
            self.close.iter().filter(|(_, close)| close.is_cancelled()).map(|(number, _)| *number).collect()
        }
    }

    #[test]
    fn of_those_whom_nobody_knows_the_oldest_goes() {
        let mut test_slots = TestSlots::new(2);
        let numbers = [test_slots.come(), test_slots.come(), test_slots.come()];
        assert_eq!(test_slots.gone(), numbers[..1]);
        assert_eq!(test_slots.slots.assign_slot(numbers[0], Party::Nodes, at(0)), SlotOutcome::Nowhere);
        assert_eq!(test_slots.slots.assign_slot(numbers[1], Party::Nodes, at(0)), SlotOutcome::Here);
        assert_eq!(test_slots.slots.assign_slot(numbers[2], Party::Nodes, at(0)), SlotOutcome::Here);
        // A connection whose role is known no longer uses these slots.
        let numbers = [test_slots.come(), test_slots.come()];
        assert!(!test_slots.gone().contains(&numbers[0]));
    }

    #[test]
    fn producers_take_no_place_of_nodes_or_operators() {
        let mut test_slots = TestSlots::new(1);
        assert_eq!(test_slots.fill(Party::Producers, at(0)).len(), 16 - 4 - 1);
        assert_eq!(test_slots.fill(Party::Operators, at(0)).len(), 1);
        assert_eq!(test_slots.fill(Party::Nodes, at(0)).len(), 4);
    }

    #[test]
    fn whoever_is_idle_for_long_gives_its_place_up() {
        let mut test_slots = TestSlots::new(1);
        let producers = test_slots.fill(Party::Producers, at(0));
        let (busy, idle, late) = (producers[0], producers[1], producers[2]);
        test_slots.slots.begin_call(busy, Party::Producers, at(0));
        for number in &producers[2..] {
            test_slots.slots.begin_call(*number, Party::Producers, at(0));
            test_slots.slots.end_call(*number, at(1 + u64::from(*number == late)));
        }
        assert_eq!(
            test_slots.enter(Party::Producers, at(IDLE_MIN_MS - 1)).1,
            SlotOutcome::Nowhere,
            "nobody is idle for long"
        );
        assert_eq!(test_slots.enter(Party::Producers, at(IDLE_MIN_MS)).1, SlotOutcome::InsteadOfAnother);
        assert!(test_slots.gone().contains(&idle));
        for _ in 0..producers.len() - 3 {
            assert_eq!(test_slots.enter(Party::Producers, at(IDLE_MIN_MS + 1)).1, SlotOutcome::InsteadOfAnother);
        }
        assert!(!test_slots.gone().contains(&late));
        assert_eq!(test_slots.enter(Party::Producers, at(IDLE_MIN_MS + 1)).1, SlotOutcome::Nowhere);
        assert_eq!(test_slots.enter(Party::Producers, at(IDLE_MIN_MS + 2)).1, SlotOutcome::InsteadOfAnother);
        assert!(test_slots.gone().contains(&late) && !test_slots.gone().contains(&busy));
    }

    #[test]
    fn nodes_keep_their_places_however_idle() {
        let mut test_slots = TestSlots::new(1);
        assert_eq!(test_slots.fill(Party::Nodes, at(0)).len(), 15);
        // Connections in excess of the slots that are reserved for their party must give way. The other connections
        // stay.
        let seated: Vec<SlotOutcome> = (0..13).map(|_| test_slots.enter(Party::Producers, at(IDLE_MIN_MS)).1).collect();
        assert_eq!(seated[..11], [SlotOutcome::InsteadOfAnother; 11]);
        assert_eq!(seated[11..], [SlotOutcome::Nowhere; 2]);
    }

    #[test]
    fn the_first_call_shows_whose_place_it_is() {
        let mut test_slots = TestSlots::new(2);
        // A node that forwards batches must not use a slot for links. Nor may a connection whose role only its first
        // call shows.
        let (relay, stranger) = (test_slots.enter(Party::Nodes, at(0)).0, test_slots.come());
        assert_eq!(test_slots.slots.begin_call(relay, Party::Producers, at(0)), (Party::Producers, SlotOutcome::Here));
        assert_eq!(
            test_slots.slots.begin_call(stranger, Party::Producers, at(0)),
            (Party::Producers, SlotOutcome::Here)
        );
        assert_eq!(test_slots.slots.begin_call(relay, Party::Nodes, at(0)).0, Party::Producers, "only the first");
        assert_eq!(test_slots.fill(Party::Producers, at(0)).len(), 9);
        let another = test_slots.enter(Party::Nodes, at(0)).0;
        assert_eq!(test_slots.slots.begin_call(another, Party::Producers, at(0)).1, SlotOutcome::Nowhere);
        assert!(test_slots.gone().contains(&another));
        test_slots.slots.leave(relay);
        assert_eq!(test_slots.fill(Party::Producers, at(0)).len(), 1);
        assert_eq!(test_slots.fill(Party::Nodes, at(0)).len(), 4, "who had to go has left no place taken");
    }
}
