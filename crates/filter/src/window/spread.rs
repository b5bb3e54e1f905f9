//! Decides whether the events that agree on a time are spread over all events of a sequence.
//!
//! This decision distinguishes producers whose clocks are far apart from broken clocks. All producers send at the same
//! time, so the events of a producer whose clock is right are spread over the whole sequence. Broken times are not
//! spread: single broken events are too few (at most a hundredth of all events), and a hundred broken events in a row
//! are all in one place.
//!
//! The rule is pure. It is the same for a clock and for an owner of slices.
//!
//! This module does not depend on times or producers.

/// Divisor that gives a quarter of the events. At least this part of the events must agree, and at most this part may
/// disagree in a row.
pub(super) const SPREAD_PART: usize = 4;

/// Counts of consecutive events that agree and disagree on a time.
///
/// ```
/// use firstseen_filter::Spread;
/// let (mut third, mut burst) = (Spread::default(), Spread::default());
/// for event in 0..256 {
///     third.add(event % 3 == 0, 1);
///     burst.add(event < 100, 1);
/// }
/// assert!(third.is_enough() && !burst.is_enough());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Spread {
    known: usize,
    agree: usize,
    disagree_in_a_row: usize,
    disagree_longest: usize,
}

impl Spread {
    /// Adds the next `events` events, which all agree or all disagree.
    pub fn add(&mut self, agree: bool, events: usize) {
        self.known += events;
        if agree && events > 0 {
            self.agree += events;
            self.disagree_in_a_row = 0;
        } else {
            self.disagree_in_a_row += events;
            self.disagree_longest = self.disagree_longest.max(self.disagree_in_a_row);
        }
    }

    /// Returns the number of events added so far.
    pub fn known(&self) -> usize {
        self.known
    }

    /// Returns whether at least a quarter of the events agree, and no run of disagreeing events is longer than a
    /// quarter of all events.
    pub fn is_enough(&self) -> bool {
        SPREAD_PART * self.agree >= self.known && SPREAD_PART * self.disagree_longest <= self.known
    }
}
