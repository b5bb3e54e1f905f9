//! Measures the real error rates of a filter, by comparing its verdicts on a sample of keys with an exact list of these
//! keys.
//!
//! - The audit uses bounded memory.
//! - An event is not counted if its outcome is unknown, for example because a reply was lost.
//! - The number of false negatives is exact.
//! - The audit does not see events of other producers. If producers share keys, a true duplicate of another producer's
//!   event is counted as a false positive.
//!
//! This module does not depend on how verdicts come about.

mod report;
mod text;

use std::collections::HashSet;

use firstseen_filter::{Digest, ExactWindow, FilterDefinition, Placed, Tally, Unit, Verdict, WindowClock, WindowRule};
use firstseen_routing::{Decision, Reason, Tick};

use report::Promised;
pub use report::{AuditReport, ErrorRate};

/// Exact list of the sampled keys, with the counts of the audit.
pub(crate) struct Auditor {
    /// Exact window over the sampled keys. `None` means that the filter cannot be audited.
    exact: Option<ExactWindow>,
    rule: WindowRule,
    promised: Promised,
    /// Clock that follows the owners' clocks as reported in their answers. Only filters whose nodes stamp events have
    /// this clock.
    owner_clock: Option<WindowClock>,
    unknown: HashSet<Digest>,
    sample_rate: f64,
    keys_max: usize,
    has_ended: bool,
    /// Counts that have already been sent to nodes.
    sent: Audited,
}

/// Number of first lookups of sampled keys, and how many of them the filter called duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Audited {
    pub(crate) tests: u64,
    pub(crate) false_positives: u64,
}

impl Auditor {
    pub(crate) fn new(group: &FilterDefinition, has_clock: bool, sample_rate: f64, keys_max: usize) -> Self {
        let follows = group.unit.needs_time() && !has_clock;
        let is_possible = !matches!(group.unit, Unit::Events(_));
        Self {
            exact: is_possible.then(|| ExactWindow::of(group)),
            rule: group.rule,
            promised: Promised::by(group),
            owner_clock: follows.then(|| WindowClock::new(group.unit.clone(), group.rule, u64::MAX)),
            unknown: HashSet::new(),
            sample_rate,
            keys_max,
            has_ended: false,
            sent: Audited::default(),
        }
    }

    /// Returns whether the audit tracks the key with this digest. Digests are uniformly distributed, so comparing the
    /// digest with a threshold selects the configured share of all keys.
    #[inline]
    pub(crate) fn samples(digest: Digest, sample_rate: f64) -> bool {
        (digest.hi as f64) < sample_rate * 2f64.powi(64)
    }

    /// Audits one event with its verdict. `clock_ms` is the reading of the owner's clock, if the answer carried one.
    pub(crate) fn observe(&mut self, digest: Digest, tick: Tick, clock_ms: Option<u64>, decision: Decision) {
        let Some(exact) = self.exact.as_mut().filter(|_| !self.has_ended) else { return };
        let stamp = match &mut self.owner_clock {
            None => self.rule.stamp(tick.unit, tick.clock_unit),
            // Without a clock reading in the answer, the event was refused or was decided in this process.
            Some(clock) => match clock_ms.map(|clock_ms| clock.place(Some(clock_ms))) {
                Some(Placed::At(stamp)) => Some(stamp),
                Some(Placed::Late | Placed::Refused) | None => None,
            },
        };
        if decision == Decision::Undecided(Reason::Unknown) {
            self.unknown.insert(digest);
        }
        self.has_ended = exact.keys() + self.unknown.len() > self.keys_max;
        let verdict = match decision {
            Decision::FirstSeen => Verdict::FirstSeen,
            Decision::Duplicate => Verdict::Duplicate,
            Decision::Undecided(_) => return,
        };
        if let Some(stamp) = stamp
            && !self.unknown.contains(&digest)
        {
            exact.observe(digest, stamp, verdict);
        }
    }

    /// Returns the counts that were added since the last call.
    pub(crate) fn take_new_counts(&mut self) -> Audited {
        let tally = self.exact.as_ref().map_or(Tally::default(), ExactWindow::tally);
        let false_positives = tally.false_positives;
        let now = Audited { tests: false_positives + tally.true_negatives, false_positives };
        let sent = std::mem::replace(&mut self.sent, now);
        Audited { tests: now.tests - sent.tests, false_positives: now.false_positives - sent.false_positives }
    }

    pub(crate) fn report(&self) -> AuditReport {
        let tally = self.exact.as_ref().map_or(Tally::default(), ExactWindow::tally);
        AuditReport {
            sample_rate: self.sample_rate,
            keys: self.exact.as_ref().map_or(0, ExactWindow::keys),
            false_positives: ErrorRate::of(tally.false_positives, tally.true_negatives),
            promised_false_positives: self.promised.false_positives,
            false_negatives: ErrorRate::of(tally.false_negatives, tally.true_positives),
            promised_false_negatives: self.promised.false_negatives,
            unknown_keys: self.unknown.len(),
            has_ended: self.has_ended,
            is_impossible: self.exact.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind, UnitNumber};
    use firstseen_routing::SlicedDefinition;

    use super::*;

    fn auditor(window: &str, keys_max: usize) -> Auditor {
        let spec = FilterSpec {
            capacity_events: Some(1000),
            ..FilterSpec::new(Kind::Timing, window.parse().expect("a window"))
        };
        let definition = SlicedDefinition::new(&spec, firstseen_routing::Slicing::NONE).expect("a definition");
        Auditor::new(&definition.group, true, 1.0, keys_max)
    }

    fn key(key: u64) -> Digest {
        Digest { lo: key, hi: key.wrapping_mul(0x9E37_79B9_7F4A_7C15) }
    }

    #[test]
    fn errors_are_counted_and_lost_answers_are_not() {
        let (mut auditor, tick) = (auditor("1h", 100), Tick { clock_unit: UnitNumber(1000), unit: UnitNumber(1000) });
        let verdicts = [
            (1, Decision::FirstSeen),
            (1, Decision::Duplicate),
            (1, Decision::FirstSeen),
            (2, Decision::Duplicate),
            (3, Decision::Undecided(Reason::Unknown)),
            (3, Decision::Duplicate),
            (4, Decision::Undecided(Reason::Overloaded)),
            (4, Decision::FirstSeen),
        ];
        verdicts.iter().for_each(|(number, decision)| auditor.observe(key(*number), tick, None, *decision));
        let report = auditor.report();
        assert_eq!(report.false_positives, ErrorRate { errors: 1, cases: 3 });
        assert_eq!(report.false_negatives, ErrorRate { errors: 1, cases: 2 });
        assert_eq!((report.unknown_keys, report.has_ended), (1, false));
        assert_eq!(auditor.take_new_counts(), Audited { tests: 3, false_positives: 1 });
        auditor.observe(key(5), tick, None, Decision::FirstSeen);
        assert_eq!(auditor.take_new_counts(), Audited { tests: 1, false_positives: 0 });
    }

    #[test]
    fn an_audit_that_needs_too_many_keys_ends_and_says_so() {
        let (mut auditor, tick) = (auditor("1h", 100), Tick { clock_unit: UnitNumber(1000), unit: UnitNumber(1000) });
        (0..1000).for_each(|number| auditor.observe(key(number), tick, None, Decision::FirstSeen));
        let report = auditor.report();
        assert!(report.has_ended && report.keys <= 102, "{report:?}");
        assert_eq!(report.false_positives.errors, 0);
    }

    #[test]
    fn the_sample_is_the_share_that_was_asked_for() {
        let sampled = (0..100_000).filter(|number| Auditor::samples(key(*number), 1.0 / 64.0)).count();
        assert!((1400..1725).contains(&sampled), "{sampled} of 100,000");
        assert!(!Auditor::samples(key(1), 0.0));
    }
}
