//! Numbers that look random, the same for the same seed (SplitMix64: Steele, Lea, Flood, 2014).
//!
//! Promises: a seed decides all of them. Must not know: what they decide.

/// The state of the sequence.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    /// The next one.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to below 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// One below `range`.
    pub(crate) fn below(&mut self, range: u64) -> u64 {
        firstseen_filter::reduce(self.next(), range)
    }
}
