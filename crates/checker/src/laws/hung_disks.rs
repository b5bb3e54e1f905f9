//! Law: while the disk of one node hangs, events with a complete copy on another node get a verdict soon after the hang
//! began.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::{Decision, Reason};

/// Period after the start of a hang, in microseconds, during which calls may still get no verdict. A node stops using
/// the slices on a hung disk within three and a half seconds. The cluster needs up to the same time again to agree on
/// this and to inform every node. Calls that began earlier return within the same period.
const NOTICED_US: u64 = 7_000_000;

/// Maximum number of calls that a violation shows.
const SHOWN_MAX: usize = 3;

const LAW: &str = "hung disk: a call got no verdict although another complete copy could answer";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let calls: Vec<Call> = judged(history).filter(|call| is_open(call)).take(SHOWN_MAX).cloned().collect();
    if !calls.is_empty() {
        violations.push(Violation::of(LAW, calls));
    }
}

/// Returns the calls to which this law applies. These calls were made while a disk hung, and after the cluster had
/// noticed the hang. Calls of a producer whose right was ever revoked are left out, because they may be rejected for
/// that reason.
pub fn judged(history: &History) -> impl Iterator<Item = &Call> {
    // A producer whose right was revoked is rejected regardless of disks.
    let calls = history.calls.iter().filter(|call| !history.rights.revoked.contains(&call.producer));
    calls.filter(|call| {
        let mut hangs = history.periods.hangs.iter();
        hangs.any(|(from_us, until_us)| call.began_us > from_us + NOTICED_US && call.had_returned(*until_us))
    })
}

fn is_open(call: &Call) -> bool {
    match call.verdict {
        None => true,
        // An event that a client holds is correctly undecided.
        Some(Decision::Undecided(reason)) => !matches!(reason, Reason::Claimed | Reason::ClaimsUnknown),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_periods::FaultPeriods;

    #[test]
    fn an_event_that_is_undecided_until_the_hang_ends_breaks_it() {
        let call = |began_us, verdict| Call {
            returned_us: Some(began_us + 1_000_000),
            verdict: Some(verdict),
            ..Call::begun(0, 1, 0, began_us)
        };
        let broken = |call: Call| {
            let mut violations = Vec::new();
            let periods = FaultPeriods { hangs: vec![(1_000_000, 30_000_000)], ..FaultPeriods::default() };
            let history = History { calls: vec![call], periods, ..History::default() };
            check(&history, &mut violations);
            violations.len()
        };
        let unknown = Decision::Undecided(Reason::Unknown);
        assert_eq!(broken(call(20_000_000, unknown)), 1);
        assert_eq!(broken(call(20_000_000, Decision::FirstSeen)), 0);
        assert_eq!(broken(call(5_000_000, unknown)), 0, "the cluster has not noticed the hang yet");
        assert_eq!(broken(call(29_500_000, unknown)), 0, "the hang is over");
    }
}
