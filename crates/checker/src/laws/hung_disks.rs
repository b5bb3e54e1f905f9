//! While the disk of one node hangs, what has a complete copy on another node is answered there, soon after it began to.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::Decision;

/// What a node keeps on a disk that hangs it gives up within three and a half seconds; and within as many more the cluster has
/// agreed on it, everybody knows, and what was asked before is answered.
const NOTICED_US: u64 = 7_000_000;

/// A few calls tell as much as all.
const SHOWN_MAX: usize = 3;

const LAW: &str = "hung disk: nothing is known of events that another complete copy could answer for";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let is_open = |call: &&Call| matches!(call.told, None | Some(Decision::Undecided(_)));
    let calls: Vec<Call> = judged(history).filter(is_open).take(SHOWN_MAX).cloned().collect();
    if !calls.is_empty() {
        violations.push(Violation::of(LAW, calls));
    }
}

/// The calls that this law looks at: those made while a disk hung, once that is noticed.
pub fn judged(history: &History) -> impl Iterator<Item = &Call> {
    let is_during = |call: &Call| {
        let is_in = |hang: &(u64, u64)| {
            call.began_us > hang.0 + NOTICED_US && call.returned_us.is_some_and(|returned_us| returned_us < hang.1)
        };
        history.hangs.iter().any(is_in)
    };
    history.calls.iter().filter(move |call| is_during(call))
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstseen_routing::Reason;

    #[test]
    fn what_is_unknown_for_as_long_as_the_disk_hangs_breaks_it() {
        let call = |began_us, told| Call {
            id: 0,
            producer: 0,
            site: None,
            event: 1,
            time_ms: 0,
            is_lookup: false,
            name: None,
            began_us,
            returned_us: Some(began_us + 1_000_000),
            told: Some(told),
            degraded: false,
        };
        let broken = |call: Call| {
            let mut violations = Vec::new();
            let history = History { calls: vec![call], hangs: vec![(1_000_000, 30_000_000)], ..History::default() };
            check(&history, &mut violations);
            violations.len()
        };
        let unknown = Decision::Undecided(Reason::Unknown);
        assert_eq!(broken(call(20_000_000, unknown)), 1);
        assert_eq!(broken(call(20_000_000, Decision::FirstSeen)), 0);
        assert_eq!(broken(call(5_000_000, unknown)), 0, "nobody knows of it yet");
        assert_eq!(broken(call(29_500_000, unknown)), 0, "it is over");
    }
}
