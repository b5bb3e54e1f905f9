//! Measures how far apart the clocks of a stream's producers are. The measurement uses the events whose times the event
//! clock of the stream has doubted.
//!
//! The measurement distinguishes a broken clock from a stream whose producers have clocks that are far apart. It
//! assumes that a broken clock affects at most a hundredth of all events, either as single events or as a hundred
//! events in a row.
//!
//! An event is doubtful if its time is too far ahead of the event clock and if other events do not confirm this time.
//! The measurement examines the last 4,096 events. It concludes that the clocks of the producers are far apart if two
//! conditions hold: at least a sixteenth of these events is doubtful, and the doubtful events are spread over most of
//! the 4,096.
//!
//! The result of the measurement is a distance. From then on, the event clock accepts a time that is ahead by no more
//! than this distance, because such times are normal in this stream and do not indicate a broken clock.
//!
//! To check how the doubtful events are spread, the measurement counts them in cells. A cell is a run of 512
//! consecutive events. A hundred doubtful events in a row lie in at most two cells, whereas a stream whose producers
//! are far apart has doubtful events in most cells. The events of a broken clock can therefore not look like such a
//! stream.
//!
//! The measurement takes a fixed amount of memory and depends only on its inputs. It works both with milliseconds and
//! with units of a window. It does not decide what happens to a doubtful event.

/// Number of events per cell.
const CELL_EVENTS: u64 = 512;

/// Number of recent cells that are taken into account.
const CELLS: u64 = 8;

/// Number of recent cells that must contain enough events at the distance.
const CELLS_NEEDED: usize = 6;

/// Number of events at the distance that a cell must contain to be counted.
const DOUBTED_IN_CELL: u16 = 16;

/// Number of events at the distance that all cells together must contain: a sixteenth of all events.
const DOUBTED_NEEDED: u16 = (CELLS * CELL_EVENTS / 16) as u16;

/// Number of events for which a measured distance holds. Afterwards the stream must show it again.
const HOLDS_EVENTS: u64 = 1 << 16;

/// Maximum number of events that a clock reads in a look-ahead. In a look-ahead, a clock that doubts an event time
/// reads the events that follow, if the caller has passed them. It measures from them how far apart the clocks of the
/// producers are.
pub const FORESEEN_EVENTS_MAX: usize = 4096;

/// Minimum distance between two look-aheads, as a multiple of the number of events that a look-ahead reads. A
/// look-ahead is additional work, because the clock examines its events a second time when it places them. With a
/// multiple of 4, look-aheads add at most a quarter to the work of the clock.
const LOOK_SPACING: u64 = 4;

/// Minimum number of following events in which enough cells can be filled.
pub(super) const FORESEEN_EVENTS_MIN: usize = CELLS_NEEDED * CELL_EVENTS as usize;

/// Number of distances that are distinguished. Distances are rounded down to powers of two.
const DISTANCES: usize = 64;

/// Doubtful times among consecutive events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    number: u64,
    doubted: u16,
    by_distance: [u16; DISTANCES],
}

/// Doubtful times among the recent events of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disorder {
    cells: [Cell; CELLS as usize],
    /// Number of the first event at which the next look-ahead may happen.
    foreseen_until: u64,
    /// Number of the last event for which the measured distance holds. `None` if no distance was measured.
    holds_until: Option<u64>,
}

impl Disorder {
    pub(super) fn new() -> Self {
        let cells = [Cell { number: 0, doubted: 0, by_distance: [0; DISTANCES] }; CELLS as usize];
        Self { cells, foreseen_until: 0, holds_until: None }
    }

    /// Records a doubtful event. `event` is the number of the event in the stream. `distance` states how much later the
    /// event's time is than the anchor of the clock, which is the greatest confirmed time.
    ///
    /// Returns `None` if too few of the recent events were doubtful. Otherwise returns the measured distance. An event
    /// time of this stream that is ahead of the anchor by no more than this distance is not a sign of a broken clock.
    pub(super) fn note(&mut self, event: u64, distance: u64) -> Option<u64> {
        let number = event / CELL_EVENTS;
        let cell = &mut self.cells[(number % CELLS) as usize];
        if cell.number != number {
            *cell = Cell { number, doubted: 0, by_distance: [0; DISTANCES] };
        }
        cell.doubted += 1;
        cell.by_distance[power_of(distance)] += 1;
        let recent = self.cells.iter().filter(|cell| cell.number + CELLS > number);
        if recent.map(|cell| cell.doubted).sum::<u16>() < DOUBTED_NEEDED {
            return None;
        }
        let power = self.greatest_power(number)?;
        self.holds_until = Some(event.saturating_add(HOLDS_EVENTS));
        Some(1_u64.checked_shl(power + 1).unwrap_or(u64::MAX))
    }

    /// Returns the greatest power of two such that enough events in enough cells were at least that far ahead. Only
    /// cells up to `number` count.
    fn greatest_power(&self, number: u64) -> Option<u32> {
        let mut as_far = [0_u16; CELLS as usize];
        for power in (0..DISTANCES).rev() {
            let mut filled = 0;
            let mut doubted = 0;
            for (as_far, cell) in as_far.iter_mut().zip(&self.cells) {
                *as_far += cell.by_distance[power];
                if cell.number + CELLS > number {
                    filled += usize::from(*as_far >= DOUBTED_IN_CELL);
                    doubted += *as_far;
                }
            }
            if filled >= CELLS_NEEDED && doubted >= DOUBTED_NEEDED {
                return Some(power as u32);
            }
        }
        None
    }

    /// Returns whether a look-ahead may take place at event `event`. The parameter `known` is the number of known
    /// events that follow. A look-ahead needs at least [`FORESEEN_EVENTS_MIN`] of them. If the result is `true`, the
    /// method also sets the earliest event for the next look-ahead. If this look-ahead reads n events, that event is
    /// [`LOOK_SPACING`] * n events later.
    pub(super) fn is_look_due(&mut self, event: u64, known: usize) -> bool {
        let is_due = known >= FORESEEN_EVENTS_MIN && event >= self.foreseen_until;
        if is_due {
            let seen = FORESEEN_EVENTS_MAX.min(known) as u64;
            self.foreseen_until = event.saturating_add(LOOK_SPACING * seen);
        }
        is_due
    }

    /// Disables further look-aheads. The clock calls this method on the copy that performs a look-ahead itself.
    pub(super) fn look_no_more(&mut self) {
        self.foreseen_until = u64::MAX;
    }

    /// Marks the distance that a look-ahead measured as valid from event `event` on.
    pub(super) fn hold_from(&mut self, event: u64) {
        self.holds_until = Some(event.saturating_add(HOLDS_EVENTS));
    }

    /// Returns whether the measured distance has just become invalid at event `event`. The method returns `true` only
    /// once for each distance.
    pub(super) fn ends_at(&mut self, event: u64) -> bool {
        let ends = self.holds_until.is_some_and(|until| event > until);
        if ends {
            (self.holds_until, self.foreseen_until) = (None, event);
        }
        ends
    }
}

fn power_of(distance: u64) -> usize {
    distance.max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a measurement over a stream of `events` events, and returns the last distance that the measurement reports.
    /// For each event, the function `doubted` returns how far its time is ahead of the anchor, or `None` if its time is
    /// not doubtful. Only the doubtful events are passed to the measurement.
    fn shown(events: u64, doubted: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let mut disorder = Disorder::new();
        (0..events).filter_map(|event| disorder.note(event, doubted(event)?)).last()
    }

    #[test]
    fn a_third_of_all_events_shows_how_far_apart_a_stream_is() {
        for block in [1, 2, 10, 32, 50, 100, 128, 150, 200] {
            let doubted = |event: u64| (event / block).is_multiple_of(3).then_some(900_000);
            assert_eq!(shown(6_000, doubted), Some(1 << 20), "blocks of {block}");
        }
        // A sixteenth of the events is doubtful, at regular intervals.
        assert_eq!(shown(6_000, |event| event.is_multiple_of(16).then_some(900)), Some(1024));
        // A few of the doubtful events are much further ahead than the others.
        let doubted =
            |event: u64| event.is_multiple_of(3).then_some(if event.is_multiple_of(60) { 1 << 40 } else { 900 });
        assert_eq!(shown(6_000, doubted), Some(1024));
        assert_eq!(shown(6_000, |event| event.is_multiple_of(2).then_some(u64::MAX)), Some(u64::MAX));
    }

    #[test]
    fn a_hundredth_of_all_events_shows_nothing() {
        for events in [100, 50, 20] {
            assert_eq!(shown(100_000, |event| (event % events == 7).then_some(900)), None, "one in {events}");
        }
        for start in (0..600).step_by(50) {
            // A hundred doubtful events occur in a row, five times as often as a share of a hundredth allows.
            let doubted = |event: u64| (event >= start && (event - start) % 2000 < 100).then_some(900);
            assert_eq!(shown(100_000, doubted), None, "from {start} on");
        }
        // All events of a long stretch are doubtful, followed by a longer stretch without doubtful events. Such a
        // pattern is a gap in the stream, or a clock that was set.
        assert_eq!(shown(1 << 20, |event| (event % 8192 < 2048).then_some(900)), None);
    }

    #[test]
    fn a_distance_holds_for_some_time() {
        let mut disorder = Disorder::new();
        assert!(!disorder.ends_at(u64::MAX));
        disorder.hold_from(100);
        assert!(!disorder.ends_at(100 + HOLDS_EVENTS) && disorder.ends_at(101 + HOLDS_EVENTS));
        assert!(!disorder.ends_at(102 + HOLDS_EVENTS), "the end of the distance is reported only once");
    }

    #[test]
    fn a_look_at_events_ahead_is_seldom_due() {
        let mut disorder = Disorder::new();
        assert!(!disorder.is_look_due(0, FORESEEN_EVENTS_MIN - 1) && disorder.is_look_due(0, 3_500));
        assert!(!disorder.is_look_due(13_999, 100_000) && disorder.is_look_due(14_000, 100_000));
        assert!(!disorder.is_look_due(14_001, 100_000) && disorder.is_look_due(14_000 + 4 * 4_096, 100_000));
        disorder.look_no_more();
        assert!(!disorder.is_look_due(u64::MAX - 1, 100_000));
    }
}
