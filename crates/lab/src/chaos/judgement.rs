//! Decides whether the run of a scenario was correct. The decision is based on the replies that the producers have
//! received. The replies must satisfy the invariants that the simulation also checks, for example that an event is not
//! reported as first-seen a second time. In addition, the run must keep the promises that the scenario file states.

use std::collections::BTreeSet;
use std::time::Duration;

use firstseen_checker::history::{Call, History, Promises};
use firstseen_checker::laws::check;
use firstseen_routing::Decision;
use serde::Serialize;

use super::producer::CallLine;
use super::scenario::Scenario;

/// Maximum number of violations that are printed.
const VIOLATIONS_PRINTED_MAX: usize = 5;

/// Result of a run.
#[derive(Debug, Serialize)]
pub(super) struct Judgement {
    pub(super) calls: usize,
    pub(super) first_seen: usize,
    pub(super) duplicates: usize,
    pub(super) undecided: usize,
    /// Number of calls by callers with a wrong clock. These calls are not included in the other numbers.
    pub(super) broken_clock_calls: usize,
    /// Number of seconds in which an event was undecided.
    pub(super) undecided_seconds: u64,
    /// Time from the end of the run until all slices were complete. `None` means that this took longer than promised.
    pub(super) complete_after_s: Option<f64>,
    /// Descriptions of the promises that the run has broken.
    pub(super) broken: Vec<String>,
}

impl Judgement {
    /// Returns whether every promise was kept.
    pub(super) fn holds(&self) -> bool {
        self.broken.is_empty()
    }
}

/// Judges a run, which must be shorter than the windows of its filter.
pub(super) fn judge(scenario: &Scenario, lines: &[CallLine], complete_after: Option<Duration>) -> Judgement {
    let mut history = History { promises: Promises::within_one_window(), ..History::default() };
    let all_calls = lines.len();
    let mut lines: Vec<&CallLine> = lines.iter().filter(|line| !line.has_broken_clock).collect();
    lines.sort_by_key(|line| line.began_us);
    lines.iter().for_each(|line| _ = history.begin(call(line)));
    let undecided = lines.iter().filter(|line| matches!(line.verdict, Decision::Undecided(_)));
    let seconds: BTreeSet<u64> = undecided.clone().map(|line| line.returned_us / 1_000_000).collect();
    let mut broken = Vec::new();
    if !scenario.promises.may_forget {
        let violations = check(&history);
        broken.extend(violations.iter().take(VIOLATIONS_PRINTED_MAX).map(ToString::to_string));
        if violations.len() > VIOLATIONS_PRINTED_MAX {
            broken.push(format!("{} more violations", violations.len() - VIOLATIONS_PRINTED_MAX));
        }
    }
    let undecided_seconds = seconds.len() as u64;
    let most = scenario.promises.undecided_seconds_max;
    if undecided_seconds > most {
        broken.push(format!("events were undecided in {undecided_seconds} seconds, but {most} are allowed"));
    }
    if complete_after.is_none() {
        let within_s = scenario.promises.complete_within_s;
        broken.push(format!("slices are not complete {within_s} s after the end of the run"));
    }
    if lines.is_empty() {
        broken.push("nothing was asked".to_owned());
    }
    Judgement {
        calls: lines.len(),
        first_seen: lines.iter().filter(|line| line.verdict == Decision::FirstSeen).count(),
        duplicates: lines.iter().filter(|line| line.verdict == Decision::Duplicate).count(),
        undecided: undecided.count(),
        broken_clock_calls: all_calls - lines.len(),
        undecided_seconds,
        complete_after_s: complete_after.map(|after| after.as_secs_f64()),
        broken,
    }
}

fn call(line: &CallLine) -> Call {
    Call {
        is_lookup: line.is_lookup,
        returned_us: Some(line.returned_us),
        verdict: Some(line.verdict),
        ..Call::begun(line.caller, line.event, line.time_ms, line.began_us)
    }
}

#[cfg(test)]
mod tests {
    use firstseen_routing::Reason;

    use super::*;
    use crate::chaos::scenario::Promises;

    fn scenario() -> Scenario {
        Scenario {
            about: String::new(),
            filter: String::new(),
            seconds: 10,
            needs_containers: false,
            needs_older: false,
            compose: None,
            broken_clocks: Vec::new(),
            promises: Promises { undecided_seconds_max: 1, complete_within_s: 1, may_forget: false },
            steps: Vec::new(),
        }
    }

    fn returned(event: u64, began_us: u64, verdict: Decision) -> CallLine {
        let (caller, is_lookup, time_ms) = (1, false, began_us / 1000);
        let (has_broken_clock, returned_us) = (false, began_us + 500);
        CallLine { caller, has_broken_clock, event, is_lookup, time_ms, began_us, returned_us, verdict }
    }

    #[test]
    fn callers_whose_clocks_are_off_are_promised_nothing() {
        let is_off = |line: CallLine| CallLine { has_broken_clock: true, ..line };
        let twice = [1_000, 2_000].map(|began_us| is_off(returned(9, began_us, Decision::FirstSeen)));
        let calls = [&[returned(1, 0, Decision::FirstSeen)], &twice[..]].concat();
        let judgement = judge(&scenario(), &calls, Some(Duration::ZERO));
        assert!(judgement.holds() && judgement.calls == 1 && judgement.broken_clock_calls == 2, "{judgement:?}");
    }

    #[test]
    fn every_promise_can_be_broken() {
        let complete = Some(Duration::ZERO);
        let good = [returned(1, 0, Decision::FirstSeen), returned(1, 1_000, Decision::Duplicate)];
        assert!(judge(&scenario(), &good, complete).holds());
        let twice = [returned(1, 0, Decision::FirstSeen), returned(1, 1_000, Decision::FirstSeen)];
        assert!(judge(&scenario(), &twice, complete).broken[0].starts_with("one winner"));
        let alone = [returned(1, 0, Decision::Duplicate)];
        assert!(judge(&scenario(), &alone, complete).broken[0].starts_with("no duplicate of itself"));
        assert!(judge(&scenario(), &good, None).broken[0].contains("not complete"));
        assert!(judge(&scenario(), &[], complete).broken[0].contains("nothing was asked"));
        let undecided = |second: u64| returned(second, second * 1_000_000, Decision::Undecided(Reason::SlicesDown));
        assert!(judge(&scenario(), &[undecided(1)], complete).holds());
        assert!(judge(&scenario(), &[undecided(1), undecided(2)], complete).broken[0].contains("in 2 seconds"));
    }
}
