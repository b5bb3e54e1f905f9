//! Law: at the end of a run, the cells of every first-seen event are set at every level of its filter tree, from the
//! leaf of its site to the root. Cells that were lost with a node are exempt.
//!
//! For an event that was claimed and confirmed, only the root must have the cells, because the root answers claims and
//! confirmations.

use super::Violation;
use crate::history::History;

const LAW: &str = "cells set: a level lacks cells of an event that was first-seen below it";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    for unset in &history.unset {
        let calls = history.calls.get(unset.call).cloned().into_iter().collect();
        violations.push(Violation::of(LAW, calls));
    }
}
