//! The bytes under way in all connections, streams and groups of a node together.
//!
//! Promises: the charges together are never more than the node allows, and dropping one gives it back. Must not know:
//! what is charged.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::shares::{Party, PartyShares};

/// Bytes that may be under way.
pub(crate) struct Budget {
    shares: Mutex<PartyShares>,
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { shares: Mutex::new(PartyShares::of_bytes(bytes_max)) })
    }

    fn shares(&self) -> MutexGuard<'_, PartyShares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes so many bytes; none where there are not so many left.
    pub(crate) fn charge(self: &Arc<Self>, party: Party, bytes: u64) -> Option<Charge> {
        let mut charge = Charge { budget: self.clone(), party, bytes: 0 };
        charge.grow(bytes).then_some(charge)
    }

    /// Bytes that are charged.
    pub(crate) fn taken(&self) -> u64 {
        self.shares().taken()
    }
}

/// Bytes that were taken; dropping this gives them back.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    party: Party,
    bytes: u64,
}

impl Charge {
    /// Takes more bytes; returns whether there were so many left.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let is_free = self.budget.shares().take(self.party, bytes);
        self.bytes += if is_free { bytes } else { 0 };
        is_free
    }

    /// Gives some bytes back.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.budget.shares().give(self.party, bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_given_back() {
        let budget = Budget::new(1600);
        let mut charge = budget.charge(Party::Producers, 900).expect("room");
        assert!(budget.charge(Party::Producers, 101).is_none() && !charge.grow(101));
        assert!(charge.grow(100));
        let kept = [(Party::Nodes, 400), (Party::Agreement, 100), (Party::Operators, 100)];
        let kept = kept.map(|(party, bytes)| budget.charge(party, bytes));
        assert!(kept.iter().all(Option::is_some));
        assert_eq!(budget.taken(), 1600);
        charge.shrink(u64::MAX);
        assert_eq!(budget.taken(), 600);
        drop((charge, kept));
        assert_eq!(budget.taken(), 0);
    }
}
