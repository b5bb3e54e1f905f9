//! The budget for the memory of calls, messages and batches in flight. All connections, streams and slice groups of a
//! node share this budget, and together they never use more bytes than the node's limit. Code that needs memory takes a
//! charge from the budget. When the charge is dropped, its bytes become available again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::shares::{Party, PartyShares};

/// A limit on the bytes in flight.
pub(crate) struct Budget {
    shares: Mutex<PartyShares>,
}

impl Budget {
    /// Creates a budget of `bytes_max` bytes.
    pub(crate) fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { shares: Mutex::new(PartyShares::of_bytes(bytes_max)) })
    }

    fn shares(&self) -> MutexGuard<'_, PartyShares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges `bytes` bytes. Returns `None` if not enough bytes are left.
    pub(crate) fn charge(self: &Arc<Self>, party: Party, bytes: u64) -> Option<Charge> {
        let mut charge = Charge { budget: self.clone(), party, bytes: 0 };
        charge.grow(bytes).then_some(charge)
    }

    /// Returns the number of bytes that are currently charged.
    pub(crate) fn taken(&self) -> u64 {
        self.shares().taken()
    }
}

/// A number of charged bytes, which are released when this value is dropped.
pub(crate) struct Charge {
    budget: Arc<Budget>,
    party: Party,
    bytes: u64,
}

impl Charge {
    /// Charges further bytes. Returns whether enough bytes were left.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let is_free = self.budget.shares().take(self.party, bytes);
        self.bytes += if is_free { bytes } else { 0 };
        is_free
    }

    /// Releases some of the bytes.
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
