//! Law: every complete copy of a slice has exactly the right cells. It must have the cells of each event that was
//! called first-seen and has not expired. It must not have a cell that belongs to no submitted event.

use super::Violation;
use crate::history::History;

const LAW: &str = "cells exact: the cells of a complete copy differ from those of the submitted events";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    violations.extend(history.cells.wrong.iter().map(|what| Violation::found(LAW, what.clone())));
}
