//! The size of a run's filter, and the filter that follows it where an operator alters it.
//!
//! Promises: the same seed gives the same filter. Must not know: when it follows, and who alters it.

use std::fmt;

use crate::dice::Dice;

/// The dice of alterations fall independently of the other dice of a storm.
const OF_ALTERATIONS: u64 = 0xA1_7E2 << 32;
/// Events that the filter is sized for, at a rate at which no false positive is to be expected.
pub(crate) const CAPACITY_EVENTS: u64 = 10_000;
/// Slicings of the filters of storms.
pub(crate) const STORM_SLICINGS: [&str; 5] =
    ["none", "horizontal:5", "vertical:7", "horizontal-vertical:2x4", "vertical:3"];

/// The new filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alteration {
    /// Its kind; none where that is the former one's.
    pub kind: Option<&'static str>,
    /// Its slicing.
    pub slicing: &'static str,
    /// Events that it is sized for.
    pub capacity_events: u64,
    /// Its window in milliseconds. `None` means the window of the former filter.
    pub window_ms: Option<u64>,
    /// Whether it has a new secret.
    pub has_new_secret: bool,
    /// Whether it starts empty and with a new clock (`firstseen filter set-clock`).
    pub forgets: bool,
}

impl Alteration {
    /// A filter of the same definition that knows nothing of the former one.
    pub(crate) fn forgetting(slicing: &'static str) -> Self {
        let capacity_events = CAPACITY_EVENTS;
        Self { kind: None, slicing, capacity_events, window_ms: None, has_new_secret: false, forgets: true }
    }

    /// In two of five storms the filter is altered.
    pub(crate) fn draw(seed: u64) -> Option<Self> {
        let mut dice = Dice::new(seed ^ OF_ALTERATIONS);
        let happens = dice.below(5) < 2;
        let slicing = dice.pick(&STORM_SLICINGS);
        // The difference is so large that the definition differs, whatever the slicing is.
        let capacity_events = CAPACITY_EVENTS * (1 + dice.below(3)) + CAPACITY_EVENTS / 2;
        happens.then(|| Self {
            kind: None,
            slicing,
            capacity_events,
            window_ms: None,
            has_new_secret: dice.below(2) == 0,
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
