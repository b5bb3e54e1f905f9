//! Random seeds.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns a random seed, which producers cannot guess.
pub fn drawn_seed() -> u64 {
    // The standard library uses randomness of the system for the keys of its hash maps.
    RandomState::new().build_hasher().finish()
}
