//! Counts of answers that rest on fewer slices than usual.
//!
//! Promises: counts only rise. Must not know: where answers come from.

/// Events whose answers rest on fewer slices than usual.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Degraded {
    /// The number of these events.
    pub events: u64,
    /// How many of them would be called duplicates by mistake, if all of them were new, as nodes expect (Koloniari 2011,
    /// section 3.2: fill^a, where a of an event's positions are asked).
    pub expected_false_positives: f64,
}

impl Degraded {
    /// Adds so many events, a new one of which is called a duplicate by this chance.
    pub(crate) fn add(&mut self, events: u64, rate: f64) {
        self.events += events;
        self.expected_false_positives += events as f64 * rate;
    }

    /// The sum of both.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.events += other.events;
        self.expected_false_positives += other.expected_false_positives;
        self
    }
}
