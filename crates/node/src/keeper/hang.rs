//! Whether the disk of the journal answers: a write or a sync that does not end is no error, and whoever waits for it cannot
//! see it.
//!
//! Promises: a disk hangs from the moment at which one write or sync is under way for [`PERIODS`] times as long as a node may
//! be out of reach, and answers again when none has been for twice as long; looking waits for no disk. A node that stood
//! still itself blames nobody for it, as looks are counted, and not time. Must not know: what is written, what follows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Keeper;

/// One write or sync may take so many times as long as a node may be out of reach (`unreachable_after_ms`).
const PERIODS: u32 = 3;

/// A disk has so long at least: disks pause for longer than networks do.
const PATIENCE_MIN: Duration = Duration::from_secs(3);

/// Looks in which the same write or sync is seen to be under way, until it is one too many.
const LOOKS: u32 = 6;

/// What the disk does, as whoever looks sees it.
#[derive(Default)]
pub(super) struct Steps(AtomicU64);

impl Steps {
    /// The disk has something to do from now on, until what this returns is dropped.
    pub(super) fn begin(&self) -> UnderWay<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self)
    }

    /// Odd while something is under way, and another number for each.
    fn number(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Something that the disk has to do.
pub(super) struct UnderWay<'a>(&'a Steps);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What was seen so far.
#[derive(Default)]
struct Seen {
    number: u64,
    /// Looks since then that have seen the same.
    looks_same: u32,
    /// Looks since the disk has kept anybody waiting for too long.
    looks_well: u32,
    hangs: bool,
}

impl Seen {
    /// Whether the disk hangs, now that it is at step `number`.
    fn look(&mut self, number: u64) -> bool {
        let is_same = number % 2 == 1 && number == self.number;
        self.looks_same = if is_same { self.looks_same.saturating_add(1) } else { 0 };
        self.looks_well = if self.looks_same >= LOOKS { 0 } else { self.looks_well.saturating_add(1) };
        self.number = number;
        self.hangs = self.looks_same >= LOOKS || self.hangs && self.looks_well < 2 * LOOKS;
        self.hangs
    }
}

/// Looks after the disk of `keeper`, in a node that calls others unreachable after `unreachable_after`.
pub(crate) async fn look_after(keeper: Arc<Keeper>, unreachable_after: Duration) {
    let patience = (unreachable_after * PERIODS).max(PATIENCE_MIN);
    let mut seen = Seen::default();
    loop {
        tokio::time::sleep(patience / LOOKS).await;
        let hangs = seen.look(keeper.steps.number());
        if keeper.hangs() != hangs {
            tell(hangs, patience);
            keeper.hangs.send(hangs);
        }
    }
}

fn tell(hangs: bool, patience: Duration) {
    match hangs {
        true => tracing::error!(
            ?patience,
            "the disk of the journal hangs: a write or sync does not end. What the node keeps there is given up, and the \
             others go on without it"
        ),
        false => tracing::warn!("the disk of the journal answers again: the node counts as started anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at a disk that does this: whether it hangs, look by look.
    fn looked(numbers: impl IntoIterator<Item = u64>) -> Vec<bool> {
        let mut seen = Seen::default();
        numbers.into_iter().map(|number| seen.look(number)).collect()
    }

    #[test]
    fn what_does_not_end_hangs_until_the_disk_has_answered_for_a_while() {
        let hung = LOOKS as usize;
        let told = looked(std::iter::repeat_n(1, hung + 5).chain(2..=60));
        assert!(told[..hung].iter().all(|hangs| !hangs), "{told:?}");
        assert!(told[hung..hung + 5 + 2 * hung - 1].iter().all(|hangs| *hangs), "{told:?}");
        assert!(told[hung + 5 + 2 * hung..].iter().all(|hangs| !hangs), "{told:?}");
    }

    #[test]
    fn a_disk_that_hangs_again_and_again_hangs_all_the_while() {
        let told = looked((0..10).flat_map(|sync| std::iter::repeat_n(2 * sync + 1, LOOKS as usize + 1)));
        assert!(told[LOOKS as usize..].iter().all(|hangs| *hangs), "{told:?}");
    }

    #[test]
    fn a_busy_disk_does_not_hang_and_an_idle_one_neither() {
        assert!(looked((0..200).map(|look| 2 * look + 1)).iter().all(|hangs| !hangs), "always another sync");
        assert!(looked(std::iter::repeat_n(8, 200)).iter().all(|hangs| !hangs), "none");
        let steps = Steps::default();
        let under_way = steps.begin();
        assert_eq!(steps.number(), 1);
        drop(under_way);
        assert_eq!(steps.number(), 2);
    }
}
