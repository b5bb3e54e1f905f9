//! What happens in a run: everything is drawn from the seed.
//!
//! Promises: the same seed gives the same scenario. Must not know: how it is carried out.

use std::fmt;

/// SplitMix64: small, and enough to spread seeds.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall as `seed` says.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `range`.
    pub fn below(&mut self, range: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        firstseen_filter::reduce(word ^ (word >> 31), range)
    }

    /// One of `choices`.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// What the network does while producers submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nemesis {
    /// Delays only, which reorder what comes over different connections.
    Delay,
    /// Connections are reset again and again: requests and replies on their way are lost.
    Reset,
    /// A node's links to the others are held and released.
    Hold,
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Decides everything, also what the simulated network does.
    pub seed: u64,
    /// Nodes of the cluster.
    pub nodes: usize,
    /// How the filter is cut.
    pub slicing: &'static str,
    /// The filter's kind and window.
    pub kind: &'static str,
    /// The window, in milliseconds: longer than the run, or short.
    pub window_ms: u64,
    /// Slices are asked one after the other, or all at once.
    pub parallel: bool,
    /// First-seen is told when all slices have acknowledged.
    pub safe: bool,
    /// Producers that run at once.
    pub producers: u32,
    /// Different events.
    pub events: u64,
    /// Calls of each producer.
    pub calls: u32,
    /// Most milliseconds that a message takes.
    pub latency_max_ms: u64,
    /// What goes wrong.
    pub nemesis: Nemesis,
    /// Submissions are named, and those that end unknown are made again by a restarted producer.
    pub named: bool,
}

impl Scenario {
    /// The scenario of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        Self {
            seed,
            nodes: 3,
            slicing: dice.pick(&["vertical:7", "vertical:7", "horizontal:5", "horizontal-vertical:2x4"]),
            kind: dice.pick(&["timing", "generations", "bloom"]),
            window_ms: dice.pick(&[3_600_000, 3_600_000, 2_000]),
            parallel: dice.below(3) == 0,
            safe: dice.below(3) == 0,
            producers: 2 + dice.below(4) as u32,
            events: 10 + dice.below(30),
            calls: 60,
            latency_max_ms: dice.pick(&[2, 20, 60]),
            nemesis: dice.pick(&[Nemesis::Delay, Nemesis::Reset, Nemesis::Reset, Nemesis::Hold]),
            named: dice.below(3) == 0,
        }
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, slicing, kind, producers, events, latency_max_ms, nemesis, .. } = self;
        write!(f, "seed {seed}: {kind} {slicing}")?;
        for (is_set, name) in [(self.parallel, "parallel"), (self.safe, "safe"), (self.named, "named")] {
            if is_set {
                write!(f, " {name}")?;
            }
        }
        write!(f, ", {producers} producers, {events} events, up to {latency_max_ms} ms, {nemesis:?}")
    }
}
