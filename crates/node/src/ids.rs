//! Generates identifiers for commands to the consensus group, for callers that have not supplied an identifier of their
//! own. No two commands may have the same identifier, because the cluster would take the second command for a retry of
//! the first and would not execute it. All identifiers from one process differ. Identifiers from different processes
//! differ if each process begins with a random seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// A generator of command identifiers.
pub(crate) struct Ids {
    seed: u64,
    drawn: AtomicU64,
}

impl Ids {
    /// Creates a generator that is seeded with `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, drawn: AtomicU64::new(0) }
    }

    /// Returns the next identifier.
    pub(crate) fn next(&self) -> [u8; 16] {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&mixed(self.seed).to_le_bytes());
        id[8..].copy_from_slice(&mixed(mixed(!self.seed) ^ number).to_le_bytes());
        id
    }
}

/// Returns 64 pseudorandom bits that depend on `value` (the finalizer of SplitMix64).
fn mixed(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ() {
        let (one, other) = (Ids::new(1), Ids::new(2));
        let names: BTreeSet<_> = (0..1000).flat_map(|_| [one.next(), other.next()]).collect();
        assert_eq!(names.len(), 2000);
    }
}
