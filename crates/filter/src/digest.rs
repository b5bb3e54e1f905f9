//! Hashes the bytes of an event to a [`Digest`], and derives hash words from a digest.
//!
//! The same bytes under the same [`FilterSecret`] give the same digest on every machine and in every release. The page
//! `docs/reference/hashing.md` describes all steps with test vectors.
//!
//! This module does not depend on geometries or windows.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_128_with_secret, xxh3_128_with_seed};

const SECRET_BYTES: usize = 192;

/// Number of words that [`Digest::word`] can derive.
pub const DIGEST_WORDS: usize = 32;

/// Secret key of a filter's hash. Without the key, an attacker cannot choose events that collide.
///
/// The secret is part of a filter's identity, because two filters with different secrets use different positions for
/// the same event. The `Debug` output of this type does not contain the secret.
#[derive(Clone, PartialEq, Eq)]
pub struct FilterSecret(Box<[u8; SECRET_BYTES]>);

impl FilterSecret {
    /// Derives the secret from a 64-bit seed. The eight bytes of the seed in little-endian order are the material.
    pub fn from_seed(seed: u64) -> Self {
        Self::from_material(&seed.to_le_bytes())
    }

    /// Derives the secret from material of any length. The secret consists of 12 blocks of 16 bytes. Block `i` is
    /// `XXH3-128(material, seed = i)` in little-endian order.
    pub fn from_material(material: &[u8]) -> Self {
        let mut secret = Box::new([0; SECRET_BYTES]);
        for (seed, block) in (0u64..).zip(secret.as_chunks_mut::<16>().0) {
            *block = xxh3_128_with_seed(material, seed).to_le_bytes();
        }
        Self(secret)
    }

    /// Hashes an event that consists of one part.
    ///
    /// ```
    /// use firstseen_filter::FilterSecret;
    /// let secret = FilterSecret::from_seed(7);
    /// assert_eq!(secret.digest(b"click-1"), secret.digest(b"click-1"));
    /// assert_ne!(secret.digest(b"click-1"), secret.digest(b"click-2"));
    /// assert_ne!(secret.digest(b"click-1"), FilterSecret::from_seed(8).digest(b"click-1"));
    /// ```
    #[inline]
    pub fn digest(&self, event: &[u8]) -> Digest {
        let hash = xxh3_128_with_secret(event, &self.0[..]);
        Digest { lo: hash as u64, hi: (hash >> 64) as u64 }
    }

    /// Hashes a key that consists of several parts. Each part is preceded by its length as four little-endian bytes, so
    /// that `["ab", "c"]` and `["a", "bc"]` have different digests. The call uses `scratch` as a buffer and overwrites
    /// its content. Reuse the same buffer to avoid an allocation per event.
    ///
    /// ```
    /// use firstseen_filter::FilterSecret;
    /// let (secret, mut scratch) = (FilterSecret::from_seed(7), Vec::new());
    /// let split_late = secret.digest_parts([&b"ab"[..], b"c"], &mut scratch);
    /// let split_early = secret.digest_parts([&b"a"[..], b"bc"], &mut scratch);
    /// assert_ne!(split_late, split_early);
    /// ```
    #[inline]
    pub fn digest_parts<'a>(&self, parts: impl IntoIterator<Item = &'a [u8]>, scratch: &mut Vec<u8>) -> Digest {
        scratch.clear();
        for part in parts {
            append_part(part, scratch);
        }
        self.digest(scratch)
    }
}

/// Appends one part to a key of several parts. The digest of the bytes that all parts of a key give in order is the one
/// that [`FilterSecret::digest_parts`] returns, so a program can keep such a key as bytes.
///
/// ```
/// use firstseen_filter::{FilterSecret, append_part};
/// let (secret, mut key) = (FilterSecret::from_seed(7), Vec::new());
/// append_part(b"user-1", &mut key);
/// append_part(b"ad-7", &mut key);
/// assert_eq!(secret.digest(&key), secret.digest_parts([&b"user-1"[..], b"ad-7"], &mut Vec::new()));
/// ```
#[inline]
pub fn append_part(part: &[u8], key: &mut Vec<u8>) {
    // The length prefix of a part over 4 GiB wraps. The part still has one digest, but the prefix protects less well
    // against ambiguous parts.
    key.extend_from_slice(&(part.len() as u32).to_le_bytes());
    key.extend_from_slice(part);
}

impl std::fmt::Debug for FilterSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FilterSecret(..)")
    }
}

/// Hash of 128 bits that stands for an event inside one filter: XXH3-128 under the secret of the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digest {
    /// The low 64 bits of XXH3-128.
    pub lo: u64,
    /// The high 64 bits of XXH3-128.
    pub hi: u64,
}

impl Digest {
    /// Returns the hash word with index `index`. A digest has [`DIGEST_WORDS`] independent words of 64 bits. The word
    /// is `fold((lo xor A[index]) * (hi xor B[index]))`, where `lo` and `hi` are the halves of the digest, `A` and `B`
    /// are tables of constants, and `fold` combines the two halves of the 128-bit product by xor.
    ///
    /// Each word is computed with one multiplication, independently of the other words. The usual alternative is double
    /// hashing, in which word i is `h1 + i h2`. The filter does not use it, because these words form an arithmetic
    /// progression. If `h2` is small, many positions of an event lie close together, which raises the false-positive
    /// rate of filters with many positions.
    ///
    /// # Panics
    /// Panics if `index` is not below [`DIGEST_WORDS`].
    #[inline(always)]
    pub const fn word(self, index: usize) -> u64 {
        let (a, b) = WORD_KEYS[index];
        let product = (self.lo ^ a) as u128 * (self.hi ^ b) as u128;
        product as u64 ^ (product >> 64) as u64
    }
}

/// Maps a uniform 64-bit word to a uniform number below `range`, without a division: `word * range / 2^64`.
#[inline(always)]
pub const fn reduce(word: u64, range: u64) -> u64 {
    ((word as u128 * range as u128) >> 64) as u64
}

/// Keys of the hash words: consecutive outputs of SplitMix64 started from 0, two for each word.
const WORD_KEYS: [(u64, u64); DIGEST_WORDS] = {
    let mut keys = [(0, 0); DIGEST_WORDS];
    let mut state = 0;
    let mut index = 0;
    while index < DIGEST_WORDS {
        keys[index] = (split_mix(&mut state), split_mix(&mut state));
        index += 1;
    }
    keys
};

const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
