//! Selection of the next key of a stream.
//!
//! Keys are numbers of 64 bits without a recognisable pattern. All keys of one stream are different from each other.
//! Streams with different seeds have a key in common only by chance.
//!
//! This module does not depend on time or sites.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};

use super::{Keys, StreamError};

/// Source of keys. It draws numbers of keys, and converts them to keys.
pub(super) struct KeySource {
    law: Law,
    salt: u64,
}

enum Law {
    Distinct { next: u64 },
    Uniform { keys: u64 },
    Zipf(Zipf<f64>),
    Repeats { distinct_share: f64, recent_keys: u64, next: u64 },
}

impl KeySource {
    pub(super) fn new(keys: Keys, random: &mut ChaCha8Rng) -> Result<Self, StreamError> {
        let law = match keys {
            Keys::Distinct => Law::Distinct { next: 0 },
            Keys::Uniform { keys } => Law::Uniform { keys },
            Keys::Zipf { keys, exponent } => Law::Zipf(Zipf::new(keys as f64, exponent).map_err(|error| {
                StreamError { field: "keys", value: error.to_string(), rule: "choose keys and an exponent that fit" }
            })?),
            Keys::Repeats { distinct_share, recent_keys } => Law::Repeats { distinct_share, recent_keys, next: 0 },
        };
        Ok(Self { law, salt: random.random() })
    }

    pub(super) fn next(&mut self, random: &mut ChaCha8Rng) -> u64 {
        let number = match &mut self.law {
            Law::Distinct { next } => advance(next),
            Law::Uniform { keys } => random.random_range(0..*keys),
            Law::Zipf(zipf) => zipf.sample(random) as u64,
            Law::Repeats { distinct_share, recent_keys, next } => {
                if *next == 0 || random.random_bool(*distinct_share) {
                    advance(next)
                } else {
                    random.random_range(next.saturating_sub(*recent_keys)..*next)
                }
            }
        };
        self.key(number)
    }

    /// Returns the key with the given rank, counted from 1. Zipf ranks are the numbers of keys. Other keys are numbered
    /// from 0.
    pub(super) fn ranked(&self, rank: u64) -> u64 {
        match self.law {
            Law::Zipf(_) => self.key(rank),
            Law::Distinct { .. } | Law::Uniform { .. } | Law::Repeats { .. } => self.key(rank.saturating_sub(1)),
        }
    }

    fn key(&self, number: u64) -> u64 {
        scattered(number.wrapping_add(self.salt))
    }
}

fn advance(next: &mut u64) -> u64 {
    let number = *next;
    *next += 1;
    number
}

/// Finalizer of SplitMix64. Different numbers have different results.
pub(super) fn scattered(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
