//! How nodes, operators and producers share a limited number of something.
//!
//! Promises: of that number, one part is kept for links between nodes, another for their agreement, another for
//! operators; no one else takes these, and all together take no more than there is. Must not know: what is shared.

/// A party that has a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// Nodes: the links between them, and their agreement where that has no part of its own.
    Nodes,
    /// The agreement of nodes, where their links must not take its part.
    Agreement,
    /// Operators.
    Operators,
    /// Producers, and all others.
    Producers,
}

impl Party {
    const ALL: [Self; 4] = [Self::Nodes, Self::Agreement, Self::Operators, Self::Producers];
}

/// A limited number of something, and how much of it each party has.
pub(crate) struct PartyShares {
    max: u64,
    /// The part that is kept for each party.
    kept: [u64; Party::ALL.len()],
    taken: [u64; Party::ALL.len()],
}

impl PartyShares {
    /// Shares of so many places, none taken; a caller has a place whatever it calls for.
    pub(crate) fn of_places(max: u64) -> Self {
        Self::keeping(max, |party| match party {
            Party::Nodes => max / 4,
            Party::Operators => max / 16,
            Party::Agreement | Party::Producers => 0,
        })
    }

    /// Shares of so many bytes, none taken.
    pub(crate) fn of_bytes(max: u64) -> Self {
        Self::keeping(max, |party| match party {
            Party::Nodes => max / 4,
            Party::Agreement | Party::Operators => max / 16,
            Party::Producers => 0,
        })
    }

    fn keeping(max: u64, kept: impl Fn(Party) -> u64) -> Self {
        Self { max, kept: Party::ALL.map(kept), taken: [0; Party::ALL.len()] }
    }

    fn kept(&self, party: Party) -> u64 {
        self.kept[party as usize]
    }

    /// Takes so much where there is room; returns whether there was.
    pub(crate) fn take(&mut self, party: Party, amount: u64) -> bool {
        let own = self.taken[party as usize].saturating_add(amount);
        let others = Party::ALL.iter().filter(|other| **other != party);
        let others: u64 = others.map(|other| self.kept(*other).max(self.taken[*other as usize])).sum();
        let is_free = own.max(self.kept(party)).saturating_add(others) <= self.max;
        if is_free {
            self.taken[party as usize] = own;
        }
        is_free
    }

    /// Gives so much back.
    pub(crate) fn give(&mut self, party: Party, amount: u64) {
        let taken = &mut self.taken[party as usize];
        *taken = taken.saturating_sub(amount);
    }

    /// Whether `party` has some of the part that is kept for no party: if it gives that back, others may have it.
    pub(crate) fn is_over(&self, party: Party) -> bool {
        self.taken[party as usize] > self.kept(party)
    }

    /// The number that all parties have together.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes all that `party` gets; returns how much that is.
    fn all(shares: &mut PartyShares, party: Party) -> u64 {
        (0..).find(|_| !shares.take(party, 1)).expect("there is an end")
    }

    #[test]
    fn what_is_kept_for_one_nobody_else_takes() {
        let mut shares = PartyShares::of_places(64);
        assert_eq!(all(&mut shares, Party::Producers), 64 - 16 - 4);
        assert_eq!(all(&mut shares, Party::Nodes), 16);
        assert_eq!(all(&mut shares, Party::Operators), 4);
        assert_eq!(shares.taken(), 64);
        shares.give(Party::Producers, 3);
        assert_eq!(all(&mut shares, Party::Nodes), 3, "what nobody has anybody may have");
        assert!(shares.is_over(Party::Nodes) && !shares.is_over(Party::Operators));
        shares.give(Party::Nodes, 5);
        assert_eq!(all(&mut shares, Party::Operators), 3, "two of them are kept for nodes");
    }

    #[test]
    fn links_and_producers_leave_room_for_the_agreement() {
        let mut shares = PartyShares::of_bytes(64);
        assert_eq!(all(&mut shares, Party::Nodes), 64 - 4 - 4, "the rest was nobody's");
        assert_eq!(all(&mut shares, Party::Producers), 0);
        assert_eq!(all(&mut shares, Party::Agreement), 4);
        assert_eq!(all(&mut shares, Party::Operators), 4);
        shares.give(Party::Nodes, 40);
        assert_eq!(all(&mut shares, Party::Agreement), 40, "what nobody has anybody may have");
    }

    #[test]
    fn a_few_are_shared_by_all() {
        let mut shares = PartyShares::of_places(3);
        assert_eq!(all(&mut shares, Party::Producers), 3);
        assert!(!shares.take(Party::Nodes, u64::MAX));
    }
}
