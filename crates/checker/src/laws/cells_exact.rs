//! Every complete copy has the cells of the events that were called first-seen and have not expired, and no others than
//! those of events that were submitted.

use super::Violation;
use crate::history::History;

const LAW: &str = "cells exact: a copy that counts as complete has other cells than what was asked has set";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    violations.extend(history.cells.wrong.iter().map(|what| Violation::found(LAW, what.clone())));
}
