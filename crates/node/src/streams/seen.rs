//! At which level events of a tree were found, as far as their sender is to know.
//!
//! Promises: a producer learns how many duplicates each level has found, another level learns the verdict on each
//! event. Must not know: trees.

use firstseen_routing::{Decision, GroupReply, Seen, TREE_LEVELS_MAX};
use firstseen_wire::reply::Answers;

/// Adds where events were found, from a `reply` whose decisions are in `answers` already.
pub(super) fn note(answers: &mut Answers, reply: &GroupReply, wants_seen: bool) {
    if reply.seen.is_empty() {
        return;
    }
    answers.level_hits.resize(TREE_LEVELS_MAX, 0);
    for (decision, seen) in reply.decisions.iter().zip(&reply.seen) {
        if let (Decision::Duplicate, Some(hits)) = (decision, answers.level_hits.get_mut(usize::from(seen.level))) {
            *hits += 1;
        }
    }
    if wants_seen {
        // Earlier runs without it were refused.
        let before = answers.decisions.len() - reply.decisions.len();
        answers.seen.resize(before, Seen::default());
        answers.seen.extend_from_slice(&reply.seen);
    }
}
