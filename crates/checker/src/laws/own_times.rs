//! Law: a key with its own time to live is never reported as late if the node stamps the key when it arrives. This
//! holds for every time to live, however short, and also if the filter has just replaced another filter.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::{Decision, Reason};

/// Maximum number of calls that a violation shows.
const SHOWN_MAX: usize = 3;

const LAW: &str = "own times: a key that a node stamped on arrival was reported as late";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let calls: Vec<Call> = history.calls.iter().filter(|call| is_late(call)).take(SHOWN_MAX).cloned().collect();
    if !calls.is_empty() {
        violations.push(Violation::of(LAW, calls));
    }
}

/// Returns whether a key with its own time to live was called late.
fn is_late(call: &Call) -> bool {
    call.ttl_ms.is_some() && call.verdict == Some(Decision::Undecided(Reason::Late))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether a call with this verdict breaks the law.
    fn is_broken(ttl_ms: Option<u64>, verdict: Decision) -> bool {
        let call = Call { ttl_ms, returned_us: Some(1_000), verdict: Some(verdict), ..Call::begun(0, 1, 0, 0) };
        let mut violations = Vec::new();
        check(&History { calls: vec![call], ..History::default() }, &mut violations);
        !violations.is_empty()
    }

    #[test]
    fn a_late_key_with_a_time_of_its_own_breaks_it() {
        let late = Decision::Undecided(Reason::Late);
        assert!(is_broken(Some(1_000), late));
        assert!(!is_broken(None, late), "its time may be the producer's");
        assert!(!is_broken(Some(1_000), Decision::FirstSeen));
    }
}
