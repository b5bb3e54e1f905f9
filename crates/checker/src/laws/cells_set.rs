//! In the end the cells of every event that was called first-seen are set at every level, from the leaf of its site to
//! the root, but for those that were lost with a node; the cells of one that was claimed and confirmed are set at the root.

use super::Violation;
use crate::history::History;

const LAW: &str = "cells set: a level lacks cells of what was delivered below it";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    for unset in &history.unset {
        let calls = history.calls.get(unset.call).cloned().into_iter().collect();
        violations.push(Violation::of(LAW, calls));
    }
}
