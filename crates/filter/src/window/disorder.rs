//! How far apart the times of a stream are, as shown by the times that its clock has doubted.
//!
//! A broken clock is rare: up to a hundredth of all events, alone or a hundred in a row. Where a sixteenth of the last
//! 4,096 events is doubted, and they are spread over most of these, the stream has producers that are far apart
//! instead, and the distance between them is no sign of a broken clock. The events are counted in cells of 512. A
//! hundred doubted events in a row fill two cells at most.
//!
//! Promises: pure, and of a fixed size. Must not know: what a time counts; what becomes of an event.

/// Events in a cell.
const CELL_EVENTS: u64 = 512;

/// The last cells that count.
const CELLS: u64 = 8;

/// So many of the last cells must have events that are as far ahead.
const CELLS_NEEDED: usize = 6;

/// Events of a cell that must be as far ahead so that the cell counts.
const DOUBTED_IN_CELL: u16 = 16;

/// Events of all cells that must be as far ahead: a sixteenth.
const DOUBTED_NEEDED: u16 = (CELLS * CELL_EVENTS / 16) as u16;

/// Events for which a distance holds. After that the stream must show it again.
const HOLDS_EVENTS: u64 = 1 << 16;

/// A clock that doubts a time looks at the events that come next, up to so many of them where they are known, to find
/// how far apart the times of the stream are.
pub const FORESEEN_EVENTS_MAX: usize = 4096;

/// A look ahead doubts each event once more. So it costs at most a quarter of what the doubts themselves cost.
const LOOK_SPACING: u64 = 4;

/// The least number of events ahead in which enough cells can be filled.
pub(super) const FORESEEN_EVENTS_MIN: usize = CELLS_NEEDED * CELL_EVENTS as usize;

/// Distances are told apart by powers of two.
const DISTANCES: usize = 64;

/// The doubted times of consecutive events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    number: u64,
    doubted: u16,
    by_distance: [u16; DISTANCES],
}

/// The doubted times of the last events of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disorder {
    cells: [Cell; CELLS as usize],
    /// No look at the events ahead is due before this event.
    foreseen_until: u64,
    /// After this event the distance that was shown last holds no more; `None` where none was shown.
    holds_until: Option<u64>,
}

impl Disorder {
    pub(super) fn new() -> Self {
        let cells = [Cell { number: 0, doubted: 0, by_distance: [0; DISTANCES] }; CELLS as usize];
        Self { cells, foreseen_until: 0, holds_until: None }
    }

    /// Notes that event `event` of the stream, a count of events, was doubted as its time is `distance` ahead of the
    /// clock's anchor. Returns a distance that is no sign of a broken clock in this stream, if it has shown one.
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

    /// The greatest power of two as far ahead as which enough events were doubted, in enough cells up to cell `number`.
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

    /// Whether a look at the events after event `event` is due, of which `known` are known. It is not due again for
    /// [`LOOK_SPACING`] times as many events as it can see.
    pub(super) fn is_look_due(&mut self, event: u64, known: usize) -> bool {
        let is_due = known >= FORESEEN_EVENTS_MIN && event >= self.foreseen_until;
        if is_due {
            let seen = FORESEEN_EVENTS_MAX.min(known) as u64;
            self.foreseen_until = event.saturating_add(LOOK_SPACING * seen);
        }
        is_due
    }

    /// Lets no look be due any more: this is a copy that looks ahead itself.
    pub(super) fn look_no_more(&mut self) {
        self.foreseen_until = u64::MAX;
    }

    /// The distance that was shown by events ahead holds from event `event` on.
    pub(super) fn hold_from(&mut self, event: u64) {
        self.holds_until = Some(event.saturating_add(HOLDS_EVENTS));
    }

    /// Whether the distance that was shown last holds no more at event `event`, which is said once.
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

    /// The distance that is shown when `is_doubted` says which of `events` events are doubted, and how far ahead they
    /// are.
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
        // A sixteenth, evenly.
        assert_eq!(shown(6_000, |event| event.is_multiple_of(16).then_some(900)), Some(1024));
        // Few of them are much further ahead.
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
            // A hundred in a row, five times as often as a hundredth of all allows.
            let doubted = |event: u64| (event >= start && (event - start) % 2000 < 100).then_some(900);
            assert_eq!(shown(100_000, doubted), None, "from {start} on");
        }
        // Half of all for some time, and nothing for as long: that is a gap, or a clock that was set.
        assert_eq!(shown(1 << 20, |event| (event % 8192 < 2048).then_some(900)), None);
    }

    #[test]
    fn a_distance_holds_for_some_time() {
        let mut disorder = Disorder::new();
        assert!(!disorder.ends_at(u64::MAX));
        disorder.hold_from(100);
        assert!(!disorder.ends_at(100 + HOLDS_EVENTS) && disorder.ends_at(101 + HOLDS_EVENTS));
        assert!(!disorder.ends_at(102 + HOLDS_EVENTS), "it is said once");
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
