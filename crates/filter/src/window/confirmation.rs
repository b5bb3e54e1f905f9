//! Decides whether the time of an event may advance a clock. Without such a decision, a single broken record or a
//! machine whose clock is wrong could end the window for all other events. Other systems call the time that such a
//! clock shows a watermark.
//!
//! A clock has an anchor and a step. The anchor is the greatest time that was confirmed. The step is a distance from
//! the anchor: events whose times are not confirmed may advance the clock up to one step beyond the anchor, but not
//! further. Such events do not move the anchor, so even many of them advance the clock by at most one step.
//!
//! A time that is more than one step after the anchor must be confirmed by the events that follow it, or by the time of
//! day. If it is confirmed, the anchor moves to that time, however far that is. The comparison with other events costs
//! little, because it is needed only once each time the stream has advanced by a step.
//!
//! Broken events are events whose times are wrong. The tolerance is the greater of the step and the lateness. If fewer
//! than half of the next events are broken, broken events can move the clock ahead of the correct events by at most one
//! tolerance. The reason is that a time is confirmed only if at least half of the next events are no more than one
//! tolerance behind it. At least one of these events is correct, so the clock is at most one tolerance ahead of a
//! correct event.
//!
//! Even after the clock has followed a broken event, correct events are therefore at most one tolerance behind it. If
//! the lateness is at least the step, the tolerance equals the lateness. Correct events are then not later than the
//! lateness allows, so the broken event does not change how they are judged.
//!
//! A weaker rule applies to streams whose producers have clocks that are far apart. In such a stream, most of the next
//! events may come from producers whose clocks are behind. Fewer than half of the next events can then confirm the time
//! of an event that is on time. One quarter is enough in this case, if the confirming events are spread over all events
//! that are compared.
//!
//! This rule does not confirm broken times, because broken events are not spread in this way. A single broken clock
//! produces too few of them, and a hundred broken events in a row are all in one place.
//!
//! If many events show that the clocks of a stream's producers are far apart, the step and the tolerance become wider
//! (`disorder.rs`).
//!
//! The functions of this module are pure. Whatever the input is, the anchor moves only to confirmed times. The module
//! works both with milliseconds and with units of a window, and the caller passes the time of day as a parameter.

use super::spread::{SPREAD_PART, Spread};

/// Maximum number of following events that a comparison takes into account.
pub const AHEAD_EVENTS_MAX: usize = 256;

/// Number of events that the time of day counts for in a comparison. The time of day is treated as this number of
/// events that have this time. It counts for only a few events, because it proves little: in a log of last year, a
/// record with today's date is as wrong as any other.
const PRESENT_EVENTS: usize = 8;

/// Minimum number of compared events that can show whether the events that agree are spread over all of them.
const SPREAD_EVENTS_MIN: usize = 32;

/// Anchor of a clock. Times are in milliseconds or units, as the clock counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeConfirmation {
    step: u64,
    tolerance: u64,
    /// How far apart the times of a correct stream may be. 0 means that the stream has not shown such a distance.
    distance: u64,
    /// Whether the latest confirmed time is far ahead of most events, because the clocks of some producers are behind.
    is_apart: bool,
    /// Greatest time that was confirmed. `None` before the first confirmed time.
    anchor: Option<u64>,
    /// Latest time that an event may have without a comparison with other events.
    free_to: Option<u64>,
}

impl TimeConfirmation {
    /// Creates an anchor for a stream without confirmed times. After the first confirmed time, unconfirmed events can
    /// advance the clock by at most `step` beyond the anchor. A following event confirms a time if it is older than
    /// that time by at most `lateness` or `step`, whichever is greater.
    pub(super) fn new(step: u64, lateness: u64) -> Self {
        let tolerance = step.max(lateness);
        Self { step, tolerance, distance: 0, is_apart: false, anchor: None, free_to: None }
    }

    /// Sets how far the clocks of this stream's producers are apart. The distance is 0 until the first call, and
    /// remains valid until the next call. It has two effects. First, the clock may advance beyond the anchor by up to
    /// this distance, because such times are not a sign of a broken clock. Second, an event may confirm a time that is
    /// later than its own time by up to this distance.
    pub(super) fn widen(&mut self, distance: u64) {
        self.distance = distance;
        self.free_to = self.anchor.map(|anchor| anchor.saturating_add(self.step));
    }

    /// Returns how far apart the times of this stream may be, or `None` if the stream has not shown a distance.
    pub(super) fn distance(&self) -> Option<u64> {
        Some(self.distance).filter(|distance| *distance > 0)
    }

    /// Returns whether `time` is ahead of the anchor by no more than the distance between the clocks of producers. If
    /// so, the clock may advance to `time` even though other events do not confirm it. Comparisons with other events
    /// still take place once per step. Without them, no time would be confirmed any more, and the anchor would fall
    /// behind the clock.
    pub(super) fn is_in_distance(&mut self, time: u64) -> bool {
        let Some(anchor) = self.anchor else { return false };
        let last = anchor.saturating_add(self.distance);
        if time <= last {
            self.free_to = self.free_to.max(Some(time.saturating_add(self.step).min(last)));
        }
        time <= last
    }

    /// Returns whether an event of `time` may advance the clock without a comparison with other events.
    #[inline]
    pub(super) fn is_free(&self, time: u64) -> bool {
        self.is_free_after(0, time)
    }

    /// Returns whether an event of `time` may advance the clock without a comparison with other events. The parameter
    /// `passed` is the time that has elapsed since the anchor was set. The latest time that needs no comparison is
    /// moved forward by `passed`. The reason is that event times in a steady stream advance as fast as the time of day,
    /// even if the events arrive late.
    #[inline]
    pub(super) fn is_free_after(&self, passed: u64, time: u64) -> bool {
        self.free_to.is_some_and(|free_to| time <= free_to.saturating_add(passed))
    }

    /// Returns how much earlier a correct event may be than other correct events.
    pub(super) fn tolerance(&self) -> u64 {
        self.tolerance
    }

    /// Returns the anchor, or `None` before the first confirmed time.
    pub(super) fn anchor(&self) -> Option<u64> {
        self.anchor
    }

    /// Moves the anchor to at least `time`, which is known to have passed.
    #[inline]
    pub(super) fn trust(&mut self, time: u64) {
        self.anchor = self.anchor.max(Some(time));
        self.free_to = self.free_to.max(Some(time.saturating_add(self.step)));
    }

    /// Restores the anchor of a clock that has shown `time`. The clock may have advanced to `time` because of an
    /// unconfirmed event, so `time` itself must not become the anchor. An unconfirmed event may be at most one
    /// tolerance ahead of the anchor. The anchor is therefore set one tolerance before `time`.
    #[inline]
    pub(super) fn restore(&mut self, time: u64) {
        self.trust(time.saturating_sub(self.tolerance));
    }

    /// Returns whether `time` is before `present` by no more than the times of correct events can be.
    pub(super) fn is_no_earlier(&self, time: u64, present: u64) -> bool {
        time >= present.saturating_sub(self.tolerance)
    }

    /// Returns whether `time` is so close to `present` that the time of day confirms it.
    fn is_near(&self, time: u64, present: u64) -> bool {
        present.abs_diff(time) <= self.step
    }

    /// Returns whether `time` is confirmed by the times of the following events and by the time of day, as far as these
    /// are known. If `time` is confirmed, the anchor moves to it.
    ///
    /// If no following events are known, `time` is confirmed unless it contradicts the time of day. A time contradicts
    /// the time of day if it is later than the time of day by more than one step. Once the clock has an anchor, such a
    /// time needs much more evidence: half of [`AHEAD_EVENTS_MAX`] following events must agree with it. If fewer events
    /// than that are known, it cannot be confirmed.
    pub(super) fn confirm(&mut self, time: u64, ahead: &[u64], present: Option<u64>) -> bool {
        let ahead = &ahead[..ahead.len().min(AHEAD_EVENTS_MAX)];
        let is_now = present.is_some_and(|present| self.is_near(time, present));
        let is_after_now = present.is_some_and(|present| self.is_after(time, present));
        // While no time has been confirmed yet, the event itself counts among the events that show where the stream is.
        let own = usize::from(self.anchor.is_none()) + if is_now { PRESENT_EVENTS } else { 0 };
        let known = own + ahead.len();
        let needed = match (is_after_now, self.anchor) {
            (false, _) => known.div_ceil(2),
            (true, None) => (known / 2 + 1).max(2),
            (true, Some(_)) => AHEAD_EVENTS_MAX.div_ceil(2),
        };
        let edge = self.edge(time);
        let at_time = agree(ahead, time);
        if own + at_time >= needed {
            return self.confirms_by_majority(time, ahead.len());
        }
        let at_edge = agree(ahead, edge);
        if own + at_edge >= needed {
            return self.confirms_by_majority(edge, ahead.len());
        }
        self.is_apart = !is_after_now
            && [(time, at_time), (edge, at_edge)].into_iter().any(|(from, agree)| self.is_spread(ahead, from, agree));
        self.is_apart
    }

    /// Moves the anchor to `from`, which most of the `known` compared events have reached.
    fn confirms_by_majority(&mut self, from: u64, known: usize) -> bool {
        self.is_apart &= known < SPREAD_EVENTS_MIN;
        self.trust(from);
        true
    }

    /// Returns whether the events of `from` or later, `agree` in number, are spread over all events of `ahead`. If so,
    /// the anchor moves to `from`.
    fn is_spread(&mut self, ahead: &[u64], from: u64, agree: usize) -> bool {
        // Near the end of an input few events are left to compare. There the result of the latest larger comparison
        // applies.
        let is_spread = SPREAD_PART * agree >= ahead.len()
            && if ahead.len() < SPREAD_EVENTS_MIN { self.is_apart } else { are_spread(ahead, from) };
        if is_spread {
            self.trust(from);
        }
        is_spread
    }

    /// Returns the earliest time that an event can have and still confirm `time`.
    fn edge(&self, time: u64) -> u64 {
        time.saturating_sub(self.tolerance.max(self.distance))
    }

    /// Returns whether `time` is after `present` by more than one step.
    pub(super) fn is_after(&self, time: u64, present: u64) -> bool {
        time > present && !self.is_near(time, present)
    }

    /// Returns whether the clocks of other nodes confirm `time`, which means that enough of these clocks have reached
    /// it. The function `is_said_from` returns whether enough clocks have reached a given time.
    ///
    /// If enough clocks have reached `time`, the anchor moves to `time`. Clocks that are behind `time` by no more than
    /// the tolerance confirm it as well, because correct clocks may differ by that much. If `time` is confirmed only
    /// with the help of such clocks, the anchor moves only to the earliest time that they may show.
    pub(super) fn follow(&mut self, time: u64, is_said_from: impl Fn(u64) -> bool) -> bool {
        let anchor = [time, self.edge(time)].into_iter().find(|from| is_said_from(*from));
        anchor.into_iter().for_each(|anchor| self.trust(anchor));
        anchor.is_some()
    }
}

/// Returns the number of events in `ahead` that are of time `from` or later.
fn agree(ahead: &[u64], from: u64) -> usize {
    ahead.iter().filter(|time| **time >= from).count()
}

/// Returns whether the events of `from` or later are spread over all events of `ahead`.
fn are_spread(ahead: &[u64], from: u64) -> bool {
    // This shortcut answers earlier in two common cases: with descending times, and after a burst, the last events of
    // `ahead` do not agree.
    let last = &ahead[ahead.len() - ahead.len() / SPREAD_PART - 1..];
    if agree(last, from) == 0 {
        return false;
    }
    let mut spread = Spread::default();
    ahead.iter().for_each(|time| spread.add(*time >= from, 1));
    spread.is_enough()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    /// Returns whether the events `ahead` confirm a time a day after [`NOW`]. `now` is the time of day, if it is known.
    fn is_confirmed_by(now: Option<u64>, ahead: &[u64]) -> bool {
        borne().confirm(NOW + 86_400, ahead, now)
    }

    fn borne() -> TimeConfirmation {
        let mut borne = TimeConfirmation::new(60, 100);
        borne.trust(NOW);
        borne
    }

    #[test]
    fn steps_do_not_add_up() {
        let borne = borne();
        assert!(borne.is_free(NOW + 60) && !borne.is_free(NOW + 61));
        // However often the check is made, only confirmed times move the anchor.
        let mut asked = borne;
        assert!(!asked.confirm(NOW + 200, &[NOW; 9], None));
        assert_eq!(asked, borne);
    }

    #[test]
    fn time_that_has_passed_moves_events_on() {
        assert!(borne().is_free_after(40, NOW + 100) && !borne().is_free_after(40, NOW + 101));
        assert!(
            borne().is_free_after(u64::MAX, u64::MAX) && !TimeConfirmation::new(60, 100).is_free_after(u64::MAX, 0)
        );
        assert_eq!((borne().anchor(), TimeConfirmation::new(60, 100).anchor()), (Some(NOW), None));
    }

    #[test]
    fn half_of_the_events_that_come_next_bear_a_time_out() {
        let (far, old) = (NOW + 86_400, NOW + 1);
        assert!(is_confirmed_by(None, &[]), "no other event contradicts the time");
        assert!(
            is_confirmed_by(None, &[far])
                && is_confirmed_by(None, &[far, old])
                && is_confirmed_by(None, &[far + 5000, old])
        );
        assert!(!is_confirmed_by(None, &[old]) && !is_confirmed_by(None, &[far, old, old]));
        // The first case is a burst of a hundred broken events. The second case has broken events beyond the range of
        // the comparison.
        let burst = |broken: usize| [vec![far; broken], vec![old; 400]].concat();
        assert!(
            !is_confirmed_by(None, &burst(100))
                && !is_confirmed_by(None, &burst(127))
                && is_confirmed_by(None, &burst(128))
        );
        assert!(is_confirmed_by(None, &[vec![far; 128], vec![old; 128], vec![far; 900]].concat()));
    }

    #[test]
    fn a_spread_quarter_of_all_that_is_known_bears_a_time_out() {
        let (far, old) = (NOW + 86_400, NOW + 1);
        let every = |nth: usize, events: usize| -> Vec<u64> {
            (0..events).map(|event| if event % nth == 0 { far } else { old }).collect()
        };
        assert!(
            is_confirmed_by(None, &every(3, 256))
                && is_confirmed_by(None, &every(4, 256))
                && !is_confirmed_by(None, &every(5, 256))
        );
        assert!(
            is_confirmed_by(None, &every(3, 32)) && !is_confirmed_by(None, &every(3, 31)),
            "31 events are too few to judge their spread"
        );
        assert!(!borne().confirm(far, &every(3, 256), Some(NOW)), "a time after the time of day needs more events");
        // The same number of far events does not count if they are at one place, but counts if they are at several
        // places.
        let at = |starts: &[usize], length: usize| -> Vec<u64> {
            let is_far = |event: usize| starts.iter().any(|start| (*start..start + length).contains(&event));
            (0..256).map(|event| if is_far(event) { far } else { old }).collect()
        };
        for start in 0..156 {
            assert!(
                !is_confirmed_by(None, &at(&[start], 100)),
                "a hundred broken events in a row, from event {start} on"
            );
        }
        assert!(!is_confirmed_by(None, &at(&[0, 200], 50)) && is_confirmed_by(None, &at(&[0, 64, 128, 192], 40)));
    }

    #[test]
    fn what_many_events_have_shown_holds_for_the_last_ones_of_an_input() {
        let third = |from: u64, events: u64| -> Vec<u64> {
            (0..events).map(|event| if event % 3 == 0 { from + event } else { NOW + 1 }).collect()
        };
        let mut apart = borne();
        assert!(apart.confirm(NOW + 5_000, &third(NOW + 5_000, 100), None));
        assert!(
            apart.confirm(NOW + 6_000, &third(NOW + 6_000, 20), None),
            "a third of the last twenty events confirms the time"
        );
        assert!(!borne().confirm(NOW + 6_000, &third(NOW + 6_000, 20), None), "the stream has not shown a distance");
        assert!(apart.confirm(NOW + 7_000, &[NOW + 7_000; 100], None));
        assert!(
            !apart.confirm(NOW + 8_000, &third(NOW + 8_000, 20), None),
            "most events have confirmed the previous time"
        );
    }

    #[test]
    fn a_distance_that_a_stream_has_shown_is_no_sign_of_a_broken_clock() {
        let mut wide = borne();
        wide.widen(900);
        assert!(wide.distance() == Some(900) && !wide.is_free(NOW + 61), "comparisons are due as often as before");
        assert!(wide.is_in_distance(NOW + 500) && wide.is_free(NOW + 560) && !wide.is_free(NOW + 561));
        assert!(wide.is_in_distance(NOW + 900) && !wide.is_in_distance(NOW + 901) && !wide.is_free(NOW + 901));
        assert_eq!(wide.anchor(), Some(NOW));
        assert!(
            wide.confirm(NOW + 1000, &[NOW + 100; 9], None),
            "events that are earlier by the distance confirm the time"
        );
        assert_eq!(wide.anchor(), Some(NOW + 100));
        wide.widen(0);
        assert!(wide.distance().is_none() && wide.is_free(NOW + 160) && !wide.is_in_distance(NOW + 161));
        assert!(!wide.is_free(NOW + 161));
        let mut first = TimeConfirmation::new(60, 100);
        first.widen(u64::MAX);
        assert!(!first.is_in_distance(7) && !first.is_free(7), "the first time must be confirmed");
        assert!(first.confirm(NOW, &[1; 9], None));
    }

    #[test]
    fn what_is_borne_out_within_the_lateness_moves_the_anchor_no_further_than_that() {
        let mut late = borne();
        assert!(late.confirm(NOW + 90, &[NOW - 10; 20], None));
        assert!(late.is_free(NOW + 60) && !late.is_free(NOW + 61), "{late:?}");
        assert!(!late.confirm(NOW + 91, &[NOW - 10; 20], None));
        assert!(late.confirm(NOW + 170, &[NOW + 80; 20], None));
        assert!(late.is_free(NOW + 130) && !late.is_free(NOW + 131), "{late:?}");
    }

    #[test]
    fn the_present_counts_where_little_else_is_known() {
        let (far, old) = (NOW + 86_400, NOW + 1);
        for present in [far - 60, far, far + 60] {
            assert!(borne().confirm(far, &[], Some(present)) && borne().confirm(far, &[old; 8], Some(present)));
            assert!(!borne().confirm(far, &[old; 9], Some(present)), "nine events outweigh the time of day");
            assert!(borne().confirm(far, &[[far; 5].as_slice(), &[old; 13]].concat(), Some(present)));
        }
        assert!(!borne().confirm(far, &[old; 3], Some(far + 61)));
        // Without following events, a time after the time of day is not confirmed.
        assert!(borne().confirm(far, &[], Some(far - 60)) && !borne().confirm(far, &[], Some(far - 61)));
    }

    #[test]
    fn a_few_events_do_not_bear_out_what_is_after_now() {
        let far = NOW + 86_400;
        assert!(
            !is_confirmed_by(Some(NOW), &[])
                && !is_confirmed_by(Some(NOW), &[far; 127])
                && is_confirmed_by(Some(NOW), &[far; 128])
        );
        // A log with future times is accepted from its beginning, if its events agree with each other.
        for (ahead, is_confirmed) in
            [(&[][..], false), (&[far], true), (&[NOW], false), (&[far, NOW, NOW], false), (&[far, far, NOW], true)]
        {
            let outcome = TimeConfirmation::new(60, 100).confirm(far, ahead, Some(NOW));
            assert_eq!(outcome, is_confirmed, "{ahead:?}");
        }
    }

    #[test]
    fn what_a_clock_has_shown_is_no_anchor() {
        let mut led = borne();
        led.restore(NOW + 60);
        assert_eq!(led, borne(), "one unconfirmed event cannot advance the clock twice");
        let mut anew = TimeConfirmation::new(60, 100);
        anew.restore(NOW);
        assert!(anew.is_free(NOW - 40) && !anew.is_free(NOW - 39));
        TimeConfirmation::new(u64::MAX, u64::MAX).restore(u64::MAX);
    }

    #[test]
    fn the_first_time_must_be_borne_out_too() {
        let mut first = TimeConfirmation::new(60, 0);
        assert!(!first.is_free(0) && !first.confirm(NOW + 86_400, &[NOW; 9], None));
        assert!(first.confirm(NOW, &[NOW; 9], None) && first.is_free(NOW + 60));
        assert!(
            TimeConfirmation::new(60, 0).confirm(NOW, &[NOW - 9000, NOW - 9000, NOW], None),
            "the event itself and one other event are two of four"
        );
        assert!(!TimeConfirmation::new(60, 0).confirm(NOW, &[NOW - 9000, NOW - 9000], None));
        let mut extreme = TimeConfirmation::new(u64::MAX, u64::MAX);
        assert!(extreme.confirm(u64::MAX, &[0], None) && extreme.is_free(u64::MAX));
    }
}
