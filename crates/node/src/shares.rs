//! Divides a limited resource, such as connections or memory, between nodes, operators and producers. Some parts of the
//! resource are reserved: one part for the links between nodes, one for their consensus, and one for operators.
//! Producers cannot use the reserved parts, so nodes and operators still get their share when producers overload the
//! node. All parties together never use more than the limit.

/// A party that uses a share of the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// Nodes: the links between them, and also their consensus if it has no reserved part of its own.
    Nodes,
    /// The consensus between nodes, where links must not use its part.
    Agreement,
    /// Operators.
    Operators,
    /// Producers and all other clients.
    Producers,
}

impl Party {
    const ALL: [Self; 4] = [Self::Nodes, Self::Agreement, Self::Operators, Self::Producers];
}

/// A limited resource, and the amount that each party uses.
pub(crate) struct PartyShares {
    max: u64,
    /// Amount that is reserved for each party.
    kept: [u64; Party::ALL.len()],
    taken: [u64; Party::ALL.len()],
}

impl PartyShares {
    /// Creates the shares of `max` connection slots. Calls of the consensus use the slots of nodes.
    pub(crate) fn of_places(max: u64) -> Self {
        Self::keeping(max, |party| match party {
            Party::Nodes => max / 4,
            Party::Operators => max / 16,
            Party::Agreement | Party::Producers => 0,
        })
    }

    /// Creates the shares of `max` bytes.
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

    /// Takes `amount` of the resource if it is available. Returns whether it was.
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

    /// Releases `amount` of the resource.
    pub(crate) fn give(&mut self, party: Party, amount: u64) {
        let taken = &mut self.taken[party as usize];
        *taken = taken.saturating_sub(amount);
    }

    /// Returns whether `party` uses more than its reserved part. If it releases the excess, other parties can use it.
    pub(crate) fn is_over(&self, party: Party) -> bool {
        self.taken[party as usize] > self.kept(party)
    }

    /// Returns the amount that all parties use together.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes as much as `party` can get, and returns that amount.
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
