//! Law: once there are no more failures, every copy of a slice gets the cells that another copy has.

use super::Violation;
use crate::history::History;

const LAW: &str = "copies catch up: a copy lacked cells at the end that another copy had";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    if !history.lagging.is_empty() {
        violations.push(Violation::of(LAW, Vec::new()));
    }
}
