//! Whether what a node has of a group is all that was ever recorded there; once for all groups.
//!
//! ```text
//!               the map says so                      the process ends and has kept everything,
//!   Lacking ----------------------> Complete         or the others have gone on without it
//!      ^  ^                          |    ^          |
//!      |  |  it has kept nothing     |    |          v
//!      |  +--------------------------+    +------- Whole ---- an event was recorded without it ----> Interrupted
//!      |                                  ^                                                            |   |
//!      |                                  +------ all of that was handed over, or has expired ---------+   |
//!      +----------------- it has left, or counts as started anew beside others ----------------------------+
//! ```
//!
//! Promises: the group is whole only if the map says so, or if it was whole when its process ended, or when the others
//! went on without it, and by the map has missed nothing since. Must not know: how the map learns that slices are
//! complete, what they lack.

use crate::map::Durability;

/// How much of what was ever recorded is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completeness {
    /// All of it, as the map says.
    Complete,
    /// All of it, and the map does not say so yet.
    Whole,
    /// All until others went on without it: what it has missed may be handed over.
    Interrupted,
    /// Nobody knows.
    Lacking,
}

/// What the map says, and what is known here beside that.
#[derive(Debug)]
pub(crate) struct Wholeness {
    is_complete: bool,
    /// By the map, events may have been recorded without what is here.
    has_gap: bool,
    /// It has all that it had before the process ended, or before the node was given up.
    is_kept: bool,
    /// It had everything when the others went on without it.
    was_whole: bool,
}

impl Wholeness {
    pub(crate) fn new(is_complete: bool, has_gap: bool) -> Self {
        Self { is_complete, has_gap, is_kept: false, was_whole: false }
    }

    pub(crate) fn now(&self) -> Completeness {
        match () {
            () if self.is_complete => Completeness::Complete,
            () if self.is_kept && !self.has_gap => Completeness::Whole,
            () if self.is_kept || self.was_whole => Completeness::Interrupted,
            () => Completeness::Lacking,
        }
    }

    /// Whether the map says that all is here.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether all is here, whatever the map says.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.now(), Completeness::Complete | Completeness::Whole)
    }

    /// Whether replies to names may be lost: a filter with an interval loses its last records in a crash.
    pub(crate) fn has_lost(&self, durability: Durability) -> bool {
        !self.is_whole() || self.is_kept && durability != Durability::Durable
    }

    /// The map says something new.
    pub(crate) fn follow(&mut self, is_complete: bool, has_gap: bool) {
        (self.is_complete, self.has_gap) = (is_complete, has_gap);
    }

    /// The process has read back what one before it has kept.
    pub(crate) fn restore(&mut self, is_all: bool) {
        debug_assert!(!self.is_kept && !self.was_whole, "a process reads back once, before anything else: {self:?}");
        self.keep(is_all);
    }

    /// What is here counts as all (`is_all`), or not as all, until others record without it.
    pub(crate) fn keep(&mut self, is_all: bool) {
        self.is_kept = is_all;
    }

    /// Forgets that the map called it complete: that was about an earlier start of the node.
    pub(crate) fn distrust(&mut self) {
        self.is_complete = false;
    }

    /// The others go on without it: what it has now is what it had.
    pub(crate) fn interrupt(&mut self) {
        self.was_whole = self.is_whole();
    }

    /// It has nothing of the group any more: what is recorded from now on, it does not have.
    pub(crate) fn leave(&mut self) {
        (self.is_kept, self.was_whole) = (false, false);
    }

    /// The node counts as started anew. If it had everything when it was given up, and there are no others, it still has everything.
    pub(crate) fn begin_anew(&mut self, has_others: bool) {
        self.distrust();
        self.keep(self.was_whole && !has_others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_whole_until_others_record_without_it() {
        let mut wholeness = Wholeness::new(false, false);
        assert_eq!(wholeness.now(), Completeness::Lacking);
        wholeness.restore(true);
        assert_eq!(wholeness.now(), Completeness::Whole);
        assert!(!wholeness.has_lost(Durability::Durable));
        wholeness.follow(false, true);
        assert_eq!(wholeness.now(), Completeness::Interrupted);
        wholeness.follow(true, false);
        assert_eq!(wholeness.now(), Completeness::Complete);
        assert!(wholeness.has_lost(Durability::Interval { interval_ms: 1 }), "what came last is not on the disk");
    }

    #[test]
    fn who_is_given_up_had_everything_and_keeps_it_where_nobody_else_records() {
        for has_others in [true, false] {
            let mut wholeness = Wholeness::new(true, false);
            wholeness.interrupt();
            wholeness.begin_anew(has_others);
            let then = if has_others { Completeness::Interrupted } else { Completeness::Whole };
            assert_eq!(wholeness.now(), then);
            wholeness.leave();
            assert_eq!(wholeness.now(), Completeness::Lacking);
        }
    }
}
