//! Counts answers that rest on fewer slices than usual, or that a level of a tree gave without the levels above it.
//!
//! The counts only increase.

/// Counts of events whose answers rest on fewer slices than usual, or on fewer levels of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Degraded {
    /// Number of these events.
    pub events: u64,
    /// Number of these events that are expected to be false duplicates if all of the events were new. For each event, a
    /// node estimates the probability of a false duplicate as `fill^a`. Here `fill` is the share of the filter's cells
    /// that are set, and `a` is the number of the event's positions that the node could look up (Koloniari et al. 2011,
    /// section 3.2).
    pub expected_false_positives: f64,
}

impl Degraded {
    /// Adds `events` events. `rate` is the probability that a new event among them is called a duplicate.
    pub(crate) fn add(&mut self, events: u64, rate: f64) {
        self.events += events;
        self.expected_false_positives += events as f64 * rate;
    }

    /// Returns the sum of both counts.
    pub(crate) fn and(mut self, other: Self) -> Self {
        self.events += other.events;
        self.expected_false_positives += other.expected_false_positives;
        self
    }
}
