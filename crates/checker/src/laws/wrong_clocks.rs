//! Law: an event is undecided because of a wrong clock only while the clock of some node is wrong, or shortly
//! afterwards. When all clocks have been right for a while, no call gets such a reply any more.

use super::Violation;
use crate::history::{Call, History};
use firstseen_routing::{Decision, Reason};

/// Period after a node's clock was set right, in microseconds, during which calls may still be undecided because of a
/// wrong clock. In this period, the node compares its clock with the clocks of other nodes, and the calls that began
/// earlier return.
const MEASURED_US: u64 = 3_000_000;

/// Maximum number of calls that a violation shows.
const SHOWN_MAX: usize = 3;

const LAW: &str = "right clock: an event was undecided because of a wrong clock, but no clock was wrong";

pub(super) fn check(history: &History, violations: &mut Vec<Violation>) {
    let for_clock = Some(Decision::Undecided(Reason::ClockSkew));
    let undecided = history.calls.iter().filter(|call| call.verdict == for_clock);
    let in_vain = undecided.filter(|call| !may_meet_wrong_clock(history, call));
    let calls: Vec<Call> = in_vain.take(SHOWN_MAX).cloned().collect();
    if !calls.is_empty() {
        violations.push(Violation::of(LAW, calls));
    }
}

/// Returns whether a clock may have been wrong, or not compared yet, while a call was answered.
fn may_meet_wrong_clock(history: &History, call: &Call) -> bool {
    let mut wrong = history.periods.wrong_clocks.iter();
    wrong.any(|(from_us, until_us)| call.began_us <= measured_us(history, *until_us) && call.ended_us() >= *from_us)
}

/// Returns the time until which calls may still be undecided because of a clock that was set right at `right_us`. Until
/// then, the node compares its clock with the clocks of most other nodes. An outage delays the comparison, because some
/// of the other nodes may be unreachable until the outage ends.
fn measured_us(history: &History, right_us: u64) -> u64 {
    history.outages.iter().fold(right_us.saturating_add(MEASURED_US), |measured_us, outage| {
        let holds_up = outage.from_us <= measured_us && outage.until_us >= right_us;
        if holds_up { measured_us.max(outage.until_us.saturating_add(MEASURED_US)) } else { measured_us }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault_periods::FaultPeriods;
    use crate::history::Outage;

    #[test]
    fn a_clock_that_has_been_right_for_a_while_breaks_it() {
        let broken = |began_us: u64, outages: &[Outage]| {
            let call = Call {
                returned_us: Some(began_us + 1_000),
                verdict: Some(Decision::Undecided(Reason::ClockSkew)),
                ..Call::begun(0, 1, 0, began_us)
            };
            let mut violations = Vec::new();
            let periods = FaultPeriods { wrong_clocks: vec![(10_000_000, 20_000_000)], ..FaultPeriods::default() };
            let outages = outages.to_vec();
            check(&History { calls: vec![call], periods, outages, ..History::default() }, &mut violations);
            !violations.is_empty()
        };
        assert!(broken(9_000_000, &[]) && broken(23_500_000, &[]), "no clock was wrong");
        assert!(!broken(15_000_000, &[]) && !broken(21_000_000, &[]), "one was, or its node has not compared it yet");
        let cut_off = |from_us: u64, until_us: u64| [Outage { site: 1, from_us, until_us, is_silent: true }];
        assert!(!broken(26_000_000, &cut_off(19_000_000, 25_000_000)), "its node could not compare it before");
        assert!(broken(26_000_000, &cut_off(24_000_000, 25_000_000)), "it has compared it by then");
    }
}
