//! Tracks whether a node has everything that was ever recorded in a slice group. All kinds of groups use this state
//! machine.
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
//! A group counts as whole on a node in three cases:
//!
//! - The cluster map says that it is complete.
//! - It was whole when the node's process ended, and according to the map it has missed nothing since.
//! - It was whole when the other nodes continued without this node, and according to the map it has missed nothing
//!   since.

use crate::map::Durability;

/// How much of what was ever recorded in the group is present on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completeness {
    /// Everything is present, and the cluster map says so.
    Complete,
    /// Everything is present, but the cluster map does not say so yet.
    Whole,
    /// Everything was present until other nodes continued without this node. The missed events may still be handed
    /// over.
    Interrupted,
    /// It is unknown what is missing.
    Lacking,
}

/// What the cluster map says about the group's completeness, combined with what this node knows itself.
#[derive(Debug)]
pub(crate) struct CompletenessTracker {
    is_complete: bool,
    /// Whether, according to the cluster map, events may have been recorded without this node.
    has_gap: bool,
    /// Whether the node still has everything that it had before its process ended, or before the other nodes gave it
    /// up.
    is_kept: bool,
    /// Whether the node had everything when the other nodes continued without it.
    was_complete: bool,
}

impl CompletenessTracker {
    pub(crate) fn new(is_complete: bool, has_gap: bool) -> Self {
        Self { is_complete, has_gap, is_kept: false, was_complete: false }
    }

    pub(crate) fn now(&self) -> Completeness {
        match () {
            () if self.is_complete => Completeness::Complete,
            () if self.is_kept && !self.has_gap => Completeness::Whole,
            () if self.is_kept || self.was_complete => Completeness::Interrupted,
            () => Completeness::Lacking,
        }
    }

    /// Returns whether the cluster map says that everything is present.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns whether everything is present, whether or not the cluster map says so.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.now(), Completeness::Complete | Completeness::Whole)
    }

    /// Returns whether replies to idempotency keys may be lost. A filter that syncs its journal at intervals loses its
    /// last records in a crash.
    pub(crate) fn has_lost(&self, durability: Durability) -> bool {
        !self.is_whole() || self.is_kept && durability != Durability::Durable
    }

    /// Takes over what a new cluster map says.
    pub(crate) fn follow(&mut self, is_complete: bool, has_gap: bool) {
        (self.is_complete, self.has_gap) = (is_complete, has_gap);
    }

    /// Notes that the process has read back what an earlier process kept.
    pub(crate) fn restore(&mut self, is_all: bool) {
        debug_assert!(!self.is_kept && !self.was_complete, "a process reads back once, before anything else: {self:?}");
        self.keep(is_all);
    }

    /// Sets whether the present contents count as everything (`is_all`), until other nodes record without this node.
    pub(crate) fn keep(&mut self, is_all: bool) {
        self.is_kept = is_all;
    }

    /// Forgets that the cluster map called the group complete, because that referred to an earlier start of the node.
    pub(crate) fn forget_reported_completeness(&mut self) {
        self.is_complete = false;
    }

    /// Notes that the other nodes continue without this node. From now on its contents stay as they are.
    pub(crate) fn interrupt(&mut self) {
        self.was_complete = self.is_whole();
    }

    /// Notes that the node no longer has any part of the group. It does not receive what is recorded from now on.
    pub(crate) fn leave(&mut self) {
        (self.is_kept, self.was_complete) = (false, false);
    }

    /// Puts the group into the state after a restart of the node, although its process continues. The slices still
    /// contain all events if two conditions hold. They contained all events when the other nodes marked this node down,
    /// and no other node can record events of this group (`has_others` is `false`). Otherwise they may lack events that
    /// other nodes recorded in the meantime.
    pub(crate) fn mark_restarted(&mut self, has_others: bool) {
        self.forget_reported_completeness();
        self.keep(self.was_complete && !has_others);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_whole_until_others_record_without_it() {
        let mut completeness = CompletenessTracker::new(false, false);
        assert_eq!(completeness.now(), Completeness::Lacking);
        completeness.restore(true);
        assert_eq!(completeness.now(), Completeness::Whole);
        assert!(!completeness.has_lost(Durability::Durable));
        completeness.follow(false, true);
        assert_eq!(completeness.now(), Completeness::Interrupted);
        completeness.follow(true, false);
        assert_eq!(completeness.now(), Completeness::Complete);
        assert!(completeness.has_lost(Durability::Interval { interval_ms: 1 }), "what came last is not on the disk");
    }

    #[test]
    fn who_is_given_up_had_everything_and_keeps_it_where_nobody_else_records() {
        for has_others in [true, false] {
            let mut completeness = CompletenessTracker::new(true, false);
            completeness.interrupt();
            completeness.mark_restarted(has_others);
            let then = if has_others { Completeness::Interrupted } else { Completeness::Whole };
            assert_eq!(completeness.now(), then);
            completeness.leave();
            assert_eq!(completeness.now(), Completeness::Lacking);
        }
    }
}
