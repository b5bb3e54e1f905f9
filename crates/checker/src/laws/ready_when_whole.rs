//! Law: if a node reports that it is ready, it has all events that other copies of its slices have. Operators rely on
//! such reports when they restart nodes one after another. An operator who waits for the report of one node can stop
//! the next node without losing events.

use super::Violation;
use crate::history::History;

const LAW: &str = "ready when whole: a node reported that it is ready before it had fetched what it lacks";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    if let Some((time_us, node, slice)) = history.ready_without.first() {
        let what = format!("node {node} at {time_us} us lacks something of slice {slice}, and another copy has it");
        violations.push(Violation::found(LAW, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_ready_too_early_breaks_it() {
        let mut violations = Vec::new();
        check(&History::default(), &mut violations);
        assert_eq!(violations, []);
        check(&History { ready_without: vec![(5, 1, 3), (7, 2, 4)], ..History::default() }, &mut violations);
        assert!(violations.len() == 1 && violations[0].to_string().contains("node 1 at 5 us"), "{violations:?}");
    }
}
