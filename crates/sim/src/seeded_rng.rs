//! The random number generator that determines everything in a run. The same seed gives the same numbers.

/// SplitMix64 generator, which is small and distributes seeds well enough.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// Creates a generator from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `range`.
    pub fn below(&mut self, range: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        firstseen_filter::reduce(word ^ (word >> 31), range)
    }

    /// Returns one of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}
