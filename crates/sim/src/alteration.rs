//! The size of a run's filter, and the filter that replaces it if an operator alters it. The same seed gives the same
//! filter.

use std::fmt;

use crate::seeded_rng::SeededRng;

/// Seed of the random numbers for alterations, which are independent of the other random numbers of a storm.
const OF_ALTERATIONS: u64 = 0xA1_7E2 << 32;
/// Number of events for which the filter is sized. At its error rate, no false positive is to be expected.
pub(crate) const CAPACITY_EVENTS: u64 = 10_000;
/// Slicings of the filters of storms.
pub(crate) const STORM_SLICINGS: [&str; 5] =
    ["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"];

/// The filter after an alteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alteration {
    /// Kind of the new filter. `None` means the kind of its predecessor.
    pub kind: Option<&'static str>,
    /// Slicing of the new filter.
    pub slicing: &'static str,
    /// Number of events for which the new filter is sized.
    pub capacity_events: u64,
    /// Window of the new filter in milliseconds. `None` means the window of its predecessor.
    pub window_ms: Option<u64>,
    /// Whether the new filter has a new secret.
    pub has_new_secret: bool,
    /// Whether the new filter starts empty and with a new clock (`firstseen filter set-clock`).
    pub forgets: bool,
}

impl Alteration {
    /// Returns a filter of the same definition that knows nothing about its predecessor.
    pub(crate) fn forgetting(slicing: &'static str) -> Self {
        let capacity_events = CAPACITY_EVENTS;
        Self { kind: None, slicing, capacity_events, window_ms: None, has_new_secret: false, forgets: true }
    }

    /// Draws an alteration for two of five storms.
    pub(crate) fn draw(seed: u64) -> Option<Self> {
        let mut rng = SeededRng::new(seed ^ OF_ALTERATIONS);
        let happens = rng.below(5) < 2;
        let slicing = rng.pick(&STORM_SLICINGS);
        // The capacity differs so much that the definition differs for every slicing.
        let capacity_events = CAPACITY_EVENTS * (1 + rng.below(3)) + CAPACITY_EVENTS / 2;
        happens.then(|| Self {
            kind: None,
            slicing,
            capacity_events,
            window_ms: None,
            has_new_secret: rng.below(2) == 0,
            forgets: false,
        })
    }
}

impl fmt::Display for Alteration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, slicing, capacity_events, window_ms, has_new_secret, forgets } = self;
        if *forgets {
            return f.write_str("forgets, and begins with another clock");
        }
        let kind = kind.map_or_else(String::new, |kind| format!("{kind} "));
        let secret = if *has_new_secret { ", another secret" } else { "" };
        let window = window_ms.map_or_else(String::new, |window_ms| format!(" of {window_ms} ms"));
        write!(f, "altered to {kind}{slicing} for {capacity_events} events{window}{secret}")
    }
}
