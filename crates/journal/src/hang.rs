//! Whether a disk answers: a write or sync that does not end returns no error, and its caller, which waits, cannot see
//! that.
//!
//! Promises: a disk hangs from the look on that sees a piece of work still under way which [`LOOKS`] looks in a row
//! have seen before, and answers again after twice as many looks in a row without such work; a disk that hangs again
//! soon after that is trusted again after twice as long as before; looking waits for no disk. Looks are counted, and
//! not time, so a process that stood still itself does not blame the disk. Must not know: clocks, what is written,
//! what follows.

use std::sync::atomic::{AtomicU64, Ordering};

/// The disk hangs at the look after so many that have seen the same work under way.
pub const LOOKS: u32 = 6;

/// A disk that has answered for so many times as long as it had to, to be trusted, is as one that has never hung.
const FORGIVEN_AFTER: u32 = 16;

/// How often the time is doubled that a disk must answer for, to be trusted again.
const DOUBLINGS_MAX: u32 = 4;

/// The work of a disk, as looks see it: one piece after the other.
///
/// ```
/// use firstseen_journal::{LOOKS, Looks, Steps};
/// let (steps, mut looks) = (Steps::default(), Looks::default());
/// let under_way = steps.begin();
/// let hangs: Vec<bool> = (0..=LOOKS).map(|_| looks.look(steps.under_way())).collect();
/// assert_eq!(hangs, [false, false, false, false, false, false, true]);
/// drop(under_way);
/// assert!(looks.look(steps.under_way()) && !looks.is_stuck(), "it has not answered for long enough yet");
/// ```
#[derive(Debug, Default)]
pub struct Steps {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Steps {
    /// The disk has work from now on, until the returned value is dropped.
    pub fn begin(&self) -> UnderWay<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// The number of the work under way, another for each piece; none where the disk has none.
    pub fn under_way(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::Relaxed);
        (self.begun.load(Ordering::Relaxed) > ended).then_some(ended)
    }
}

/// A piece of work of a disk.
#[derive(Debug)]
pub struct UnderWay<'a>(&'a Steps);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// The looks so far.
#[derive(Debug, Default)]
pub struct Looks {
    under_way: Option<u64>,
    /// Looks since then that have seen the same work.
    same: u32,
    /// Looks since work was last under way for too long.
    well: u32,
    hangs: bool,
    /// How often it has hung again soon after it was trusted; none where it has never hung.
    relapses: Option<u32>,
}

impl Looks {
    /// Whether the disk hangs, by a look that sees this work under way.
    pub fn look(&mut self, under_way: Option<u64>) -> bool {
        let is_same = under_way.is_some() && under_way == self.under_way;
        self.same = if is_same { self.same.saturating_add(1) } else { 0 };
        self.under_way = under_way;
        if self.same >= LOOKS {
            if !self.hangs {
                self.relapses = self.relapses.filter(|_| !self.is_forgiven()).map_or(Some(0), |times| Some(times + 1));
            }
            self.hangs = true;
            self.well = 0;
        } else {
            self.well = self.well.saturating_add(1);
            self.hangs &= self.well < self.well_looks();
        }
        self.hangs
    }

    /// Looks for which it must answer, to be trusted again.
    fn well_looks(&self) -> u32 {
        (2 * LOOKS) << self.relapses.unwrap_or(0).min(DOUBLINGS_MAX)
    }

    /// Whether it has answered for so long that it counts as one that has never hung.
    fn is_forgiven(&self) -> bool {
        self.well >= FORGIVEN_AFTER * self.well_looks()
    }

    /// Whether one piece of work has been under way for too long, and still is.
    pub fn is_stuck(&self) -> bool {
        self.same >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a disk with this work, one a look: whether it hangs, look by look.
    fn looked(under_way: impl IntoIterator<Item = Option<u64>>) -> Vec<bool> {
        let mut looks = Looks::default();
        under_way.into_iter().map(|number| looks.look(number)).collect()
    }

    #[test]
    fn what_does_not_end_hangs_until_the_disk_has_answered_for_a_while() {
        let hung = LOOKS as usize;
        let hangs = looked(std::iter::repeat_n(Some(1), hung + 5).chain((2..=60).map(Some)));
        assert!(hangs[..hung].iter().all(|hangs| !hangs), "{hangs:?}");
        assert!(hangs[hung..hung + 5 + 2 * hung - 1].iter().all(|hangs| *hangs), "{hangs:?}");
        assert!(hangs[hung + 5 + 2 * hung..].iter().all(|hangs| !hangs), "{hangs:?}");
    }

    #[test]
    fn a_disk_that_hangs_again_and_again_hangs_all_the_while() {
        let hangs = looked((0..10).flat_map(|sync| std::iter::repeat_n(Some(sync), LOOKS as usize + 1)));
        assert!(hangs[LOOKS as usize..].iter().all(|hangs| *hangs), "{hangs:?}");
    }

    #[test]
    fn a_disk_that_hangs_again_soon_is_trusted_later_each_time() {
        let mut looks = Looks::default();
        let mut hang_and_recover = || {
            (0..=LOOKS).for_each(|_| _ = looks.look(Some(0)));
            (1..).find(|_| !looks.look(None)).expect("it is trusted again")
        };
        let trusted_after: Vec<u32> = (0..7).map(|_| hang_and_recover()).collect();
        assert_eq!(trusted_after, [1, 2, 4, 8, 16, 16, 16].map(|times| times * 2 * LOOKS));
        // Fewer looks than that since it was trusted change nothing; all of them do.
        (0..FORGIVEN_AFTER * 16 * 2 * LOOKS).for_each(|_| _ = looks.look(None));
        (0..=LOOKS).for_each(|_| _ = looks.look(Some(0)));
        assert_eq!((1..).find(|_| !looks.look(None)), Some(2 * LOOKS));
    }

    #[test]
    fn a_busy_disk_does_not_hang_and_an_idle_one_neither() {
        assert!(looked((0..200).map(Some)).iter().all(|hangs| !hangs), "always another sync");
        assert!(looked(std::iter::repeat_n(None, 200)).iter().all(|hangs| !hangs), "none");
        let steps = Steps::default();
        assert_eq!(steps.under_way(), None);
        let under_way = steps.begin();
        assert_eq!(steps.under_way(), Some(0));
        let queued = steps.begin();
        drop(under_way);
        assert_eq!(steps.under_way(), Some(1), "the next");
        drop(queued);
        assert_eq!(steps.under_way(), None);
    }
}
