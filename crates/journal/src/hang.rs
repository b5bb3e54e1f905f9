//! Detects a disk that does not respond. A write or sync that never ends returns no error, and the thread that called
//! it is blocked. Another thread therefore looks at regular intervals whether the same operation is still in progress.
//!
//! # Guarantees
//!
//! - A disk counts as hanging if [`LOOKS`] consecutive looks have seen the same operation in progress, and the next
//!   look still sees it.
//! - A disk that hangs is trusted again after twice as many consecutive looks without a hanging operation. If the disk
//!   hangs again soon after that, twice the former number of looks is required.
//! - A look never waits for the disk.
//! - The detection counts looks instead of measuring time. If the process itself is suspended, it does not mistake the
//!   pause for a fault of the disk.
//!
//! This module does not depend on clocks, on the data that is written, or on the reaction to a disk that hangs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Number of looks that must have seen the same operation in progress before the next look reports that the disk hangs.
pub const LOOKS: u32 = 6;

/// Number of recovery periods after which an earlier hang of the disk is forgotten. After a hang, the disk must respond
/// for one recovery period before it is trusted again, and each further hang doubles this period. If the disk has
/// responded for this number of recovery periods since its previous hang, the next hang counts as its first hang and
/// does not double the period.
const FORGIVEN_AFTER: u32 = 16;

/// Maximum number of times that the recovery period is doubled. A disk must respond during the whole recovery period to
/// be trusted again.
const DOUBLINGS_MAX: u32 = 4;

/// Operations of a disk, as the observer sees them. The disk executes one operation after the other.
///
/// ```
/// use firstseen_journal::{LOOKS, Looks, Steps};
/// let (steps, mut looks) = (Steps::default(), Looks::default());
/// let in_progress = steps.begin();
/// let hangs: Vec<bool> = (0..=LOOKS).map(|_| looks.look(steps.in_progress())).collect();
/// assert_eq!(hangs, [false, false, false, false, false, false, true]);
/// drop(in_progress);
/// assert!(looks.look(steps.in_progress()) && !looks.is_stuck(), "it has not answered for long enough yet");
/// ```
#[derive(Debug, Default)]
pub struct Steps {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl Steps {
    /// Notes the start of an operation, which is in progress until the returned value is dropped.
    pub fn begin(&self) -> InProgress<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        InProgress(self)
    }

    /// Returns the number of the operation in progress, or `None` if there is no operation. Each operation has a
    /// different number.
    pub fn in_progress(&self) -> Option<u64> {
        let ended = self.ended.load(Ordering::Relaxed);
        (self.begun.load(Ordering::Relaxed) > ended).then_some(ended)
    }
}

/// Operation of a disk that is in progress.
#[derive(Debug)]
pub struct InProgress<'a>(&'a Steps);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// Results of all looks so far.
#[derive(Debug, Default)]
pub struct Looks {
    in_progress: Option<u64>,
    /// Number of consecutive looks that have seen the operation `in_progress`.
    same: u32,
    /// Number of looks since an operation was last in progress for too long.
    well: u32,
    hangs: bool,
    /// Number of times that the disk hung again soon after it was trusted. `None` means that the disk has never hung.
    repeated_hangs: Option<u32>,
}

impl Looks {
    /// Takes a look that sees the operation `in_progress`, and returns whether the disk hangs.
    pub fn look(&mut self, in_progress: Option<u64>) -> bool {
        let is_same = in_progress.is_some() && in_progress == self.in_progress;
        self.same = if is_same { self.same.saturating_add(1) } else { 0 };
        self.in_progress = in_progress;
        if self.same >= LOOKS {
            if !self.hangs {
                self.repeated_hangs =
                    self.repeated_hangs.filter(|_| !self.is_forgiven()).map_or(Some(0), |times| Some(times + 1));
            }
            self.hangs = true;
            self.well = 0;
        } else {
            self.well = self.well.saturating_add(1);
            self.hangs &= self.well < self.trust_looks();
        }
        self.hangs
    }

    /// Returns the number of looks for which the disk must respond to be trusted again.
    fn trust_looks(&self) -> u32 {
        (2 * LOOKS) << self.repeated_hangs.unwrap_or(0).min(DOUBLINGS_MAX)
    }

    /// Returns whether the disk has responded for so long that it counts as a disk that has never hung.
    fn is_forgiven(&self) -> bool {
        self.well >= FORGIVEN_AFTER * self.trust_looks()
    }

    /// Returns whether an operation has been in progress for too long and still is.
    pub fn is_stuck(&self) -> bool {
        self.same >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes one look for each of these operations, and returns whether the disk hangs after each look.
    fn looked(in_progress: impl IntoIterator<Item = Option<u64>>) -> Vec<bool> {
        let mut looks = Looks::default();
        in_progress.into_iter().map(|number| looks.look(number)).collect()
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
            (1..).find(|_| !looks.look(None)).expect("the disk must be trusted again")
        };
        let trusted_after: Vec<u32> = (0..7).map(|_| hang_and_recover()).collect();
        assert_eq!(trusted_after, [1, 2, 4, 8, 16, 16, 16].map(|times| times * 2 * LOOKS));
        // The disk counts as healthy only after the full number of looks. Fewer looks have no effect.
        (0..FORGIVEN_AFTER * 16 * 2 * LOOKS).for_each(|_| _ = looks.look(None));
        (0..=LOOKS).for_each(|_| _ = looks.look(Some(0)));
        assert_eq!((1..).find(|_| !looks.look(None)), Some(2 * LOOKS));
    }

    #[test]
    fn a_busy_disk_does_not_hang_and_an_idle_one_neither() {
        assert!(looked((0..200).map(Some)).iter().all(|hangs| !hangs), "each look sees another sync");
        assert!(looked(std::iter::repeat_n(None, 200)).iter().all(|hangs| !hangs), "none");
        let steps = Steps::default();
        assert_eq!(steps.in_progress(), None);
        let in_progress = steps.begin();
        assert_eq!(steps.in_progress(), Some(0));
        let queued = steps.begin();
        drop(in_progress);
        assert_eq!(steps.in_progress(), Some(1), "the next");
        drop(queued);
        assert_eq!(steps.in_progress(), None);
    }
}
