//! Which times may move a clock (elsewhere: advance the watermark): a broken record or machine must not end everybody's
//! window.
//!
//! A clock has an anchor, the greatest time that was *borne out*. An event moves the clock by its own word up to one
//! step ahead of the anchor, and no further, however many such events come: small steps add up to nothing. A time that
//! is further ahead must be borne out, by the events that come after it, or by the time of day; then the anchor moves
//! there, however far that is. The look at other events costs next to nothing: it is due once in a step of the stream's
//! own time.
//!
//! How that bounds the harm: the tolerance is the step, or the lateness where that is more. At a look, at least half of
//! the next events are at most one tolerance behind the new time. If fewer than half are broken, one of these is right.
//! So the clock is at most one tolerance ahead of the events that are right, and with a lateness of at least the step
//! they are judged at their own times all the same.
//!
//! If the clocks of producers are far apart, fewer than half of the next events may be near an event that is on time.
//! One quarter of them is enough if these are spread over all events that are looked at: events from one broken clock
//! are not, and neither are a hundred broken events in a row. Disorder that is measured over more events widens step
//! and tolerance (`disorder.rs`).
//!
//! Promises: pure; the anchor moves only to times that were borne out, whatever comes. Must not know: what a time
//! counts, milliseconds or units of a window; where the present comes from.

use super::spread::{SPREAD_PART, Spread};

/// The check looks at so many events behind the one in question.
pub const AHEAD_EVENTS_MAX: usize = 256;

/// The time of day counts as so many events of its time, and not as proof: a record of now in a log of last year is as
/// wrong as any other.
const PRESENT_EVENTS: usize = 8;

/// Fewer events than this are too few to show that those that agree are spread.
const SPREAD_EVENTS_MIN: usize = 32;

/// The anchor of a clock, in the clock's own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Borne {
    step: u64,
    tolerance: u64,
    /// How far apart times may be; 0 where the stream has not shown that.
    distance: u64,
    /// Whether the time that was borne out last is far ahead of most events, of producers that are behind.
    is_apart: bool,
    /// The greatest time that was borne out; `None` before the first.
    anchor: Option<u64>,
    /// An event of this time or an earlier one needs no look at others.
    free_to: Option<u64>,
}

impl Borne {
    /// An anchor before any time was borne out. An event takes the clock `step` ahead by its own word; events that are
    /// at most `lateness` older bear it out.
    pub(super) fn new(step: u64, lateness: u64) -> Self {
        let tolerance = step.max(lateness);
        Self { step, tolerance, distance: 0, is_apart: false, anchor: None, free_to: None }
    }

    /// Sets how far apart times of this stream may be without being a sign of a broken clock, until the next call; 0 is
    /// the default. An event that is up to `distance` ahead confirms others that are as far ahead, and the clock may
    /// advance that far.
    pub(super) fn widen(&mut self, distance: u64) {
        self.distance = distance;
        self.free_to = self.anchor.map(|anchor| anchor.saturating_add(self.step));
    }

    /// How far apart times may be, where the stream has shown that.
    pub(super) fn distance(&self) -> Option<u64> {
        Some(self.distance).filter(|distance| *distance > 0)
    }

    /// Returns whether `time`, which no other event has confirmed, is ahead of the anchor by at most the distance that
    /// is usual in this stream. The clock may then advance to `time`. A comparison with other events stays due once a
    /// step, so that the anchor keeps up.
    pub(super) fn is_in_distance(&mut self, time: u64) -> bool {
        let Some(anchor) = self.anchor else { return false };
        let last = anchor.saturating_add(self.distance);
        if time <= last {
            self.free_to = self.free_to.max(Some(time.saturating_add(self.step).min(last)));
        }
        time <= last
    }

    /// Whether an event of `time` moves the clock by its own word.
    #[inline]
    pub(super) fn is_free(&self, time: u64) -> bool {
        self.is_free_after(0, time)
    }

    /// The same where so much time has passed since the anchor was there: events that come steadily have moved on by as much,
    /// however late they come.
    #[inline]
    pub(super) fn is_free_after(&self, passed: u64, time: u64) -> bool {
        self.free_to.is_some_and(|free_to| time <= free_to.saturating_add(passed))
    }

    /// Events that are right may be so much earlier than others.
    pub(super) fn tolerance(&self) -> u64 {
        self.tolerance
    }

    /// The anchor; none before the first time.
    pub(super) fn anchor(&self) -> Option<u64> {
        self.anchor
    }

    /// A time that has certainly been: the anchor is there at least.
    #[inline]
    pub(super) fn trust(&mut self, time: u64) {
        self.anchor = self.anchor.max(Some(time));
        self.free_to = self.free_to.max(Some(time.saturating_add(self.step)));
    }

    /// A clock has shown `time`: by the word of one event perhaps, so the anchor is taken to be as far before it as it
    /// can be.
    #[inline]
    pub(super) fn restore(&mut self, time: u64) {
        self.trust(time.saturating_sub(self.tolerance));
    }

    /// Whether `time` is before `present` by no more than events that are right are.
    pub(super) fn is_no_earlier(&self, time: u64, present: u64) -> bool {
        time >= present.saturating_sub(self.tolerance)
    }

    /// Whether the present bears `time` out.
    fn is_near(&self, time: u64, present: u64) -> bool {
        present.abs_diff(time) <= self.step
    }

    /// Whether `time` is borne out by the times of the events that come next, as far as these are known, and by the present
    /// where that is known; the anchor follows then.
    ///
    /// Where the next events are not known, only the present can contradict: a time more than a step after the present
    /// must then be borne out by as many events as if all that the check looks at were known.
    pub(super) fn bear_out(&mut self, time: u64, ahead: &[u64], present: Option<u64>) -> bool {
        let ahead = &ahead[..ahead.len().min(AHEAD_EVENTS_MAX)];
        let is_now = present.is_some_and(|present| self.is_near(time, present));
        let is_after_now = present.is_some_and(|present| self.is_after(time, present));
        // Where nothing was borne out yet, the event itself counts among those that show where the stream is.
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
            return self.bears_out_by_most(time, ahead.len());
        }
        let at_edge = agree(ahead, edge);
        if own + at_edge >= needed {
            return self.bears_out_by_most(edge, ahead.len());
        }
        self.is_apart = !is_after_now
            && [(time, at_time), (edge, at_edge)].into_iter().any(|(from, agree)| self.is_spread(ahead, from, agree));
        self.is_apart
    }

    /// Most of the `known` events that are looked at have come to `from`.
    fn bears_out_by_most(&mut self, from: u64, known: usize) -> bool {
        self.is_apart &= known < SPREAD_EVENTS_MIN;
        self.trust(from);
        true
    }

    /// Whether those that agree, events of `from` or later, are spread over all of `ahead`; the anchor follows then.
    fn is_spread(&mut self, ahead: &[u64], from: u64, agree: usize) -> bool {
        // What more events have shown holds for the last ones of an input, too.
        let is_spread = SPREAD_PART * agree >= ahead.len()
            && if ahead.len() < SPREAD_EVENTS_MIN { self.is_apart } else { are_spread(ahead, from) };
        if is_spread {
            self.trust(from);
        }
        is_spread
    }

    /// The earliest time that bears `time` out.
    fn edge(&self, time: u64) -> u64 {
        time.saturating_sub(self.tolerance.max(self.distance))
    }

    /// Whether `time` is after `present` by more than a step.
    pub(super) fn is_after(&self, time: u64, present: u64) -> bool {
        time > present && !self.is_near(time, present)
    }

    /// Whether `time` is borne out by others, where `is_said_from` says whether enough of them are of a time or later;
    /// the anchor then follows, as far as they go.
    pub(super) fn follow(&mut self, time: u64, is_said_from: impl Fn(u64) -> bool) -> bool {
        let anchor = [time, self.edge(time)].into_iter().find(|from| is_said_from(*from));
        anchor.into_iter().for_each(|anchor| self.trust(anchor));
        anchor.is_some()
    }
}

/// How many events of `ahead` are of `from` or later.
fn agree(ahead: &[u64], from: u64) -> usize {
    ahead.iter().filter(|time| **time >= from).count()
}

/// Whether events of `from` or later are spread over all of `ahead`.
fn are_spread(ahead: &[u64], from: u64) -> bool {
    // Found sooner: in descending times, and after a burst, the last events disagree.
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

    fn borne() -> Borne {
        let mut borne = Borne::new(60, 100);
        borne.trust(NOW);
        borne
    }

    #[test]
    fn steps_do_not_add_up() {
        let borne = borne();
        assert!(borne.is_free(NOW + 60) && !borne.is_free(NOW + 61));
        // However often the check is made, only times that are borne out move the anchor.
        let mut asked = borne;
        assert!(!asked.bear_out(NOW + 200, &[NOW; 9], None));
        assert_eq!(asked, borne);
    }

    #[test]
    fn time_that_has_passed_moves_events_on() {
        assert!(borne().is_free_after(40, NOW + 100) && !borne().is_free_after(40, NOW + 101));
        assert!(borne().is_free_after(u64::MAX, u64::MAX) && !Borne::new(60, 100).is_free_after(u64::MAX, 0));
        assert_eq!((borne().anchor(), Borne::new(60, 100).anchor()), (Some(NOW), None));
    }

    #[test]
    fn half_of_the_events_that_come_next_bear_a_time_out() {
        let (far, old) = (NOW + 86_400, NOW + 1);
        let outcome = |ahead: &[u64]| borne().bear_out(far, ahead, None);
        assert!(outcome(&[]), "nothing contradicts it");
        assert!(outcome(&[far]) && outcome(&[far, old]) && outcome(&[far + 5000, old]));
        assert!(!outcome(&[old]) && !outcome(&[far, old, old]));
        // A burst of a hundred, and what is beyond the look.
        let burst = |broken: usize| [vec![far; broken], vec![old; 400]].concat();
        assert!(!outcome(&burst(100)) && !outcome(&burst(127)) && outcome(&burst(128)));
        assert!(outcome(&[vec![far; 128], vec![old; 128], vec![far; 900]].concat()));
    }

    #[test]
    fn a_spread_quarter_of_all_that_is_known_bears_a_time_out() {
        let (far, old) = (NOW + 86_400, NOW + 1);
        let outcome = |ahead: &[u64]| borne().bear_out(far, ahead, None);
        let every = |nth: usize, events: usize| -> Vec<u64> {
            (0..events).map(|event| if event % nth == 0 { far } else { old }).collect()
        };
        assert!(outcome(&every(3, 256)) && outcome(&every(4, 256)) && !outcome(&every(5, 256)));
        assert!(outcome(&every(3, 32)) && !outcome(&every(3, 31)), "too few are known");
        assert!(!borne().bear_out(far, &every(3, 256), Some(NOW)), "after now more is needed");
        // The same number at one place, and at two.
        let at = |starts: &[usize], length: usize| -> Vec<u64> {
            let is_far = |event: usize| starts.iter().any(|start| (*start..start + length).contains(&event));
            (0..256).map(|event| if is_far(event) { far } else { old }).collect()
        };
        for start in 0..156 {
            assert!(!outcome(&at(&[start], 100)), "a hundred in a row, from {start} on");
        }
        assert!(!outcome(&at(&[0, 200], 50)) && outcome(&at(&[0, 64, 128, 192], 40)));
    }

    #[test]
    fn what_many_events_have_shown_holds_for_the_last_ones_of_an_input() {
        let third = |from: u64, events: u64| -> Vec<u64> {
            (0..events).map(|event| if event % 3 == 0 { from + event } else { NOW + 1 }).collect()
        };
        let mut apart = borne();
        assert!(apart.bear_out(NOW + 5_000, &third(NOW + 5_000, 100), None));
        assert!(apart.bear_out(NOW + 6_000, &third(NOW + 6_000, 20), None), "a third of the last twenty");
        assert!(!borne().bear_out(NOW + 6_000, &third(NOW + 6_000, 20), None), "nothing has shown it");
        assert!(apart.bear_out(NOW + 7_000, &[NOW + 7_000; 100], None));
        assert!(!apart.bear_out(NOW + 8_000, &third(NOW + 8_000, 20), None), "now most events are there");
    }

    #[test]
    fn a_distance_that_a_stream_has_shown_is_no_sign_of_a_broken_clock() {
        let mut wide = borne();
        wide.widen(900);
        assert!(wide.distance() == Some(900) && !wide.is_free(NOW + 61), "a look at others is due as before");
        assert!(wide.is_in_distance(NOW + 500) && wide.is_free(NOW + 560) && !wide.is_free(NOW + 561));
        assert!(wide.is_in_distance(NOW + 900) && !wide.is_in_distance(NOW + 901) && !wide.is_free(NOW + 901));
        assert_eq!(wide.anchor(), Some(NOW));
        assert!(wide.bear_out(NOW + 1000, &[NOW + 100; 9], None), "events that are so much earlier agree");
        assert_eq!(wide.anchor(), Some(NOW + 100));
        wide.widen(0);
        assert!(wide.distance().is_none() && wide.is_free(NOW + 160) && !wide.is_in_distance(NOW + 161));
        assert!(!wide.is_free(NOW + 161));
        let mut first = Borne::new(60, 100);
        first.widen(u64::MAX);
        assert!(!first.is_in_distance(7) && !first.is_free(7), "the first time must be borne out");
        assert!(first.bear_out(NOW, &[1; 9], None));
    }

    #[test]
    fn what_is_borne_out_within_the_lateness_moves_the_anchor_no_further_than_that() {
        let mut late = borne();
        assert!(late.bear_out(NOW + 90, &[NOW - 10; 20], None));
        assert!(late.is_free(NOW + 60) && !late.is_free(NOW + 61), "{late:?}");
        assert!(!late.bear_out(NOW + 91, &[NOW - 10; 20], None));
        assert!(late.bear_out(NOW + 170, &[NOW + 80; 20], None));
        assert!(late.is_free(NOW + 130) && !late.is_free(NOW + 131), "{late:?}");
    }

    #[test]
    fn the_present_counts_where_little_else_is_known() {
        let (far, old) = (NOW + 86_400, NOW + 1);
        for present in [far - 60, far, far + 60] {
            assert!(borne().bear_out(far, &[], Some(present)) && borne().bear_out(far, &[old; 8], Some(present)));
            assert!(!borne().bear_out(far, &[old; 9], Some(present)), "a whole log says otherwise");
            assert!(borne().bear_out(far, &[[far; 5].as_slice(), &[old; 13]].concat(), Some(present)));
        }
        assert!(!borne().bear_out(far, &[old; 3], Some(far + 61)));
        // Alone, and after now.
        assert!(borne().bear_out(far, &[], Some(far - 60)) && !borne().bear_out(far, &[], Some(far - 61)));
    }

    #[test]
    fn a_few_events_do_not_bear_out_what_is_after_now() {
        let far = NOW + 86_400;
        let outcome = |ahead: &[u64]| borne().bear_out(far, ahead, Some(NOW));
        assert!(!outcome(&[]) && !outcome(&[far; 127]) && outcome(&[far; 128]));
        // A log of the future is as good as any, from its beginning on.
        let first = |ahead: &[u64]| Borne::new(60, 100).bear_out(far, ahead, Some(NOW));
        assert!(!first(&[]) && first(&[far]) && !first(&[NOW]) && !first(&[far, NOW, NOW]) && first(&[far, far, NOW]));
    }

    #[test]
    fn what_a_clock_has_shown_is_no_anchor() {
        let mut led = borne();
        led.restore(NOW + 60);
        assert_eq!(led, borne(), "a step that was taken by one event's word is not taken again");
        let mut anew = Borne::new(60, 100);
        anew.restore(NOW);
        assert!(anew.is_free(NOW - 40) && !anew.is_free(NOW - 39));
        Borne::new(u64::MAX, u64::MAX).restore(u64::MAX);
    }

    #[test]
    fn the_first_time_must_be_borne_out_too() {
        let mut first = Borne::new(60, 0);
        assert!(!first.is_free(0) && !first.bear_out(NOW + 86_400, &[NOW; 9], None));
        assert!(first.bear_out(NOW, &[NOW; 9], None) && first.is_free(NOW + 60));
        assert!(Borne::new(60, 0).bear_out(NOW, &[NOW - 9000, NOW - 9000, NOW], None), "two of four");
        assert!(!Borne::new(60, 0).bear_out(NOW, &[NOW - 9000, NOW - 9000], None));
        let mut extreme = Borne::new(u64::MAX, u64::MAX);
        assert!(extreme.bear_out(u64::MAX, &[0], None) && extreme.is_free(u64::MAX));
    }
}
