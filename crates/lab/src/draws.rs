//! Pseudorandom numbers (SplitMix64: Steele, Lea, Flood, 2014). The same seed always gives the same numbers.

/// State of the generator.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    /// Returns the next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to below 1.
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `range`.
    pub(crate) fn below(&mut self, range: u64) -> u64 {
        firstseen_filter::reduce(self.next(), range)
    }
}
