//! Detects records that arrive more than one window after records with later times.
//!
//! A filter reports an event as seen if all cells at its positions are set and have not expired. For a record that is
//! older than the window, this report can be wrong, because an equal record that is more than one window newer may have
//! set the cells. Two equal records that are more than one window apart are not duplicates of each other. This module
//! therefore treats the older record as late, so that it is passed on instead of being dropped.

use firstseen_filter::Window;
use firstseen_routing::Answer;

/// Events that are answered together advance the clock by at most this fraction of the window: an eighth.
const PIECE_PART: u64 = 8;

/// The clock of a run, which is the greatest time of the records that were judged so far.
#[derive(Clone, Copy, Debug)]
pub struct BeyondWindow {
    /// Length of the window in milliseconds. `None` means that the window is not a duration.
    window_ms: Option<u64>,
    clock_ms: u64,
}

impl BeyondWindow {
    /// Creates a clock that shows `clock_ms`, or 0 if nothing was judged yet.
    pub fn new(window: &Window, clock_ms: u64) -> Self {
        let window_ms = match window {
            Window::Duration(window_ms) => Some(*window_ms),
            _ => None,
        };
        Self { window_ms, clock_ms }
    }

    /// Returns the end of a range of events that the filter answers in one step, before any of the answers are checked.
    /// The range begins with event `start` of the current batch, which has `events` events. `times_ms` contains the
    /// times of all events of the batch.
    ///
    /// If no event of the batch from `start` on is older than the window, the range extends to the end of the batch.
    /// Otherwise the range ends so early that the clock advances by at most an eighth of the window within it. The
    /// cells that the old events have set are then still valid when [`Self::call_late`] checks the answers.
    pub fn piece_end(&self, times_ms: &[u64], start: usize, events: usize) -> usize {
        let Some(window_ms) = self.window_ms else { return events };
        let times_ms = &times_ms[start.min(times_ms.len())..events.min(times_ms.len())];
        let mut clock_ms = self.clock_ms;
        let mut has_old = false;
        for time_ms in times_ms {
            clock_ms = clock_ms.max(*time_ms);
            has_old |= time_ms.saturating_add(window_ms) < clock_ms;
        }
        if !has_old {
            return events;
        }
        let Some(first_ms) = times_ms.first() else { return events };
        let end_ms = self.clock_ms.max(*first_ms).saturating_add(window_ms / PIECE_PART);
        let beyond = times_ms.iter().position(|time_ms| *time_ms > end_ms);
        beyond.map_or(events, |beyond| start + beyond)
    }

    /// Changes answers from duplicate to late, if the filter may have compared an event with an equal event of another
    /// window.
    ///
    /// An answer is changed under two conditions: the event is older than the window, and `is_apart` returns true for
    /// the index of the event. `times_ms` contains the times of the events, in milliseconds since 1970.
    pub fn call_late(&mut self, times_ms: &[u64], answers: &mut [Answer], mut is_apart: impl FnMut(usize) -> bool) {
        let Some(window_ms) = self.window_ms else { return };
        for (event, (time_ms, answer)) in times_ms.iter().zip(answers).enumerate() {
            let is_old = time_ms.saturating_add(window_ms) < self.clock_ms;
            match answer {
                Answer::Duplicate if is_old && is_apart(event) => *answer = Answer::Late,
                Answer::FirstSeen | Answer::Duplicate => self.clock_ms = self.clock_ms.max(*time_ms),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::{Duplicate, FirstSeen, Late, Refused};

    /// Returns the answers after the check for events with these times. The window is 10 ms long, and the clock shows
    /// 100 ms.
    fn called(events: &[(u64, Answer)]) -> Vec<Answer> {
        let times_ms: Vec<u64> = events.iter().map(|(time_ms, _)| *time_ms).collect();
        let mut answers: Vec<Answer> = events.iter().map(|(_, answer)| *answer).collect();
        BeyondWindow::new(&Window::Duration(10), 100).call_late(&times_ms, &mut answers, |_| true);
        answers
    }

    #[test]
    fn a_duplicate_that_is_older_than_the_window_is_late() {
        assert_eq!(called(&[(89, Duplicate), (90, Duplicate), (89, FirstSeen)]), [Late, Duplicate, FirstSeen]);
        assert_eq!(called(&[(90, Duplicate), (101, FirstSeen), (90, Duplicate)]), [Duplicate, FirstSeen, Late]);
        assert_eq!(called(&[(101, Duplicate), (90, Duplicate)]), [Duplicate, Late]);
    }

    #[test]
    fn a_duplicate_whose_equal_is_near_stays_one() {
        let mut answers = [Duplicate, Duplicate];
        BeyondWindow::new(&Window::Duration(10), 100).call_late(&[50, 60], &mut answers, |event| event == 1);
        assert_eq!(answers, [Duplicate, Late]);
    }

    #[test]
    fn a_time_that_is_refused_moves_no_clock() {
        assert_eq!(called(&[(500, Refused), (95, Duplicate)]), [Refused, Duplicate]);
    }

    #[test]
    fn a_window_without_a_length_of_time_makes_nothing_late() {
        let mut answers = [Duplicate];
        BeyondWindow::new(&Window::Unbounded, u64::MAX).call_late(&[0], &mut answers, |_| true);
        assert_eq!(answers, [Duplicate]);
    }
}
