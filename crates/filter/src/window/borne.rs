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
//! Promises: pure; the anchor moves only to times that were borne out, whatever comes. Must not know: what a time
//! counts, milliseconds or units of a window; where the present comes from.

/// The check looks at so many events behind the one in question.
pub const AHEAD_EVENTS_MAX: usize = 256;

/// The time of day counts as so many events of its time, and not as proof: a record of now in a log of last year is as
/// wrong as any other.
const PRESENT_EVENTS: usize = 8;

/// The anchor of a clock, in the clock's own count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Borne {
    step: u64,
    tolerance: u64,
    /// The anchor and the step together; none before the first time.
    free_to: Option<u64>,
}

impl Borne {
    /// An anchor before any time was borne out. An event takes the clock `step` ahead by its own word; events that are
    /// at most `lateness` older bear it out.
    pub(super) fn new(step: u64, lateness: u64) -> Self {
        Self { step, tolerance: step.max(lateness), free_to: None }
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
        self.free_to.map(|free_to| free_to.saturating_sub(self.step))
    }

    /// A time that has certainly been: the anchor is there at least.
    #[inline]
    pub(super) fn trust(&mut self, time: u64) {
        self.free_to = self.free_to.max(Some(time.saturating_add(self.step)));
    }

    /// A clock has shown `time`: by the word of one event perhaps, so the anchor is taken to be as far before it as it
    /// can be.
    #[inline]
    pub(super) fn restore(&mut self, time: u64) {
        let anchor_min = time.saturating_sub(self.tolerance);
        self.free_to = self.free_to.max(Some(anchor_min.saturating_add(self.step)));
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
        let is_after_now = present.is_some_and(|present| time > present) && !is_now;
        // Where nothing was borne out yet, the event itself counts among those that show where the stream is.
        let own = usize::from(self.free_to.is_none()) + if is_now { PRESENT_EVENTS } else { 0 };
        let known = own + ahead.len();
        let needed = match (is_after_now, self.free_to) {
            (false, _) => known.div_ceil(2),
            (true, None) => (known / 2 + 1).max(2),
            (true, Some(_)) => AHEAD_EVENTS_MAX.div_ceil(2),
        };
        self.follow(time, |from| own + ahead.iter().filter(|other| **other >= from).count() >= needed)
    }

    /// Whether `time` is borne out by others, where `is_said_from` says whether enough of them are of a time or later;
    /// the anchor then follows, as far as they go.
    pub(super) fn follow(&mut self, time: u64, is_said_from: impl Fn(u64) -> bool) -> bool {
        let edge = time.saturating_sub(self.tolerance);
        let anchor = [time, edge].into_iter().find(|from| is_said_from(*from));
        anchor.into_iter().for_each(|anchor| self.trust(anchor));
        anchor.is_some()
    }
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
