//! Whether those of some consecutive events that agree on a time are spread over all of them.
//!
//! Producers that are far apart each send all the time, so the events of one that is on time are spread over all events.
//! Broken times are not: a hundredth of all events is too few, and a hundred in a row are at one place.
//!
//! Promises: pure, the same rule for a clock and for an owner of slices. Must not know: times, producers.

/// The part of the events that must agree, and the greatest part of them that may disagree in a row: a quarter.
pub(super) const SPREAD_PART: usize = 4;

/// Consecutive events, and which of them agree.
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

    /// How many events there are.
    pub fn known(&self) -> usize {
        self.known
    }

    /// Whether at least a quarter of the events agree, and nowhere more than a quarter of them in a row disagree.
    pub fn is_enough(&self) -> bool {
        SPREAD_PART * self.agree >= self.known && SPREAD_PART * self.disagree_longest <= self.known
    }
}
