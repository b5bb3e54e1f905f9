//! A record of submissions and their decisions, and the search for wrong decisions.

use std::collections::BTreeMap;

use firstseen_filter::{Stamp, UnitNumber, WindowRule};
use firstseen_routing::Decision;

/// One try of a submission. Times are steps of the case.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    pub(crate) began: u64,
    /// Step at which the try ended. `None` while it is in flight, and [`u64::MAX`] if its leaf was lost before it
    /// replied.
    pub(crate) ended: Option<u64>,
    pub(crate) decision: Option<Decision>,
    pub(crate) degraded: bool,
    /// The greatest clock reading of any producer when the reply arrived.
    pub(crate) clock_unit: UnitNumber,
}

/// A submission or a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    pub(crate) key: u64,
    pub(crate) stamp: Stamp,
    pub(crate) records: bool,
    pub(crate) attempts: Vec<Attempt>,
}

impl Submitted {
    fn began(&self) -> u64 {
        self.attempts.iter().map(|attempt| attempt.began).min().unwrap_or(0)
    }

    fn with_decision(&self, decision: Decision) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(move |attempt| attempt.decision == Some(decision))
    }

    /// Returns whether the submission got first-seen with the mark that slices are incomplete. A repeated reply has no
    /// mark.
    fn is_degraded(&self) -> bool {
        self.with_decision(Decision::FirstSeen).any(|attempt| attempt.degraded)
    }

    /// Returns whether the event may be recorded because of this submission.
    fn may_have_recorded(&self) -> bool {
        let may = |attempt: &Attempt| match attempt.decision {
            None | Some(Decision::FirstSeen) => true,
            Some(Decision::Undecided(reason)) => reason.may_have_recorded(),
            Some(Decision::Duplicate) => false,
        };
        self.records && self.attempts.iter().any(may)
    }
}

/// The record of a case.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Submissions by number.
    pub(crate) submitted: BTreeMap<u64, Submitted>,
    /// Steps at which the root lost all of its cells.
    pub(crate) root_losses: Vec<u64>,
    /// Whether every decision that depends on incomplete slices is marked. A decision that is repeated because its
    /// reply was lost has no mark.
    pub(crate) has_all_marks: bool,
    /// The greatest clock reading of any producer so far.
    pub(crate) clock_unit: UnitNumber,
}

impl Record {
    /// Notes a reply. It ends all tries in flight, because the newest try replaces the others.
    pub(crate) fn note(&mut self, number: u64, step: u64, decision: Decision, degraded: bool) {
        let Some(submitted) = self.submitted.get_mut(&number) else { return };
        for attempt in submitted.attempts.iter_mut().filter(|attempt| attempt.ended.is_none()) {
            *attempt = Attempt {
                ended: Some(step),
                decision: Some(decision),
                degraded,
                clock_unit: self.clock_unit,
                ..*attempt
            };
        }
    }

    /// Notes that a try in flight will not be answered.
    pub(crate) fn lose(&mut self, number: u64) {
        let Some(submitted) = self.submitted.get_mut(&number) else { return };
        for attempt in submitted.attempts.iter_mut().filter(|attempt| attempt.ended.is_none()) {
            attempt.ended = Some(u64::MAX);
        }
    }

    pub(crate) fn all_decisions(&self) -> impl Iterator<Item = Decision> {
        self.submitted.values().flat_map(|submitted| &submitted.attempts).filter_map(|attempt| attempt.decision)
    }

    /// Returns a description of a decision that must not have been made, if there is one.
    pub(crate) fn fault(&self, rule: &WindowRule) -> Option<String> {
        self.unanswered()
            .or_else(|| self.submitted.iter().find_map(|(number, asked)| self.fault_of(*number, asked, rule)))
    }

    fn unanswered(&self) -> Option<String> {
        let is_open = |asked: &&Submitted| asked.attempts.iter().any(|attempt| attempt.ended.is_none());
        self.submitted.values().find(is_open).map(|asked| format!("never answered: {asked:?}"))
    }

    fn fault_of(&self, number: u64, asked: &Submitted, rule: &WindowRule) -> Option<String> {
        let others = || self.submitted.iter().filter(|(other, with)| **other != number && with.key == asked.key);
        let report = |what: &str, of: &dyn std::fmt::Debug| Some(format!("{what}: {asked:?}, {of:?}"));
        for attempt in asked.with_decision(Decision::FirstSeen) {
            let told_again = others().filter(|(_, other)| other.records).find_map(|(_, other)| {
                let mut firsts = other.with_decision(Decision::FirstSeen);
                firsts.find(|first| self.clash(rule, (other, first), (asked, attempt))).map(|_| other)
            });
            if let Some(other) = told_again {
                return report("first-seen twice within a window", other);
            }
            // If no other submission got first-seen after that, the submission is a duplicate of itself. The event that
            // it was a duplicate of before may have expired.
            let is_later = |again: &Attempt| again.ended > attempt.ended;
            let is_new_again =
                others().any(|(_, other)| other.records && other.with_decision(Decision::FirstSeen).next().is_some());
            let is_its_own = asked.with_decision(Decision::Duplicate).any(is_later) && !is_new_again;
            if is_its_own && !self.has_lost_root(asked.began(), u64::MAX) {
                return report("first-seen, then duplicate", &number);
            }
        }
        // The decision is a duplicate of another submission that had begun and whose window had not ended.
        for attempt in asked.with_decision(Decision::Duplicate) {
            let explains = |other: &Submitted| {
                other.may_have_recorded()
                    && attempt.ended.is_some_and(|ended| other.began() <= ended)
                    && rule.expiry(other.stamp.unit) > asked.stamp.judged
            };
            if !others().any(|(_, other)| explains(other)) {
                return report("a duplicate of nothing else", &others().collect::<Vec<_>>());
            }
        }
        None
    }

    /// Returns whether a first-seen event and a later or simultaneous first-seen event contradict each other.
    fn clash(
        &self,
        rule: &WindowRule,
        (one, first): (&Submitted, &Attempt),
        (other, second): (&Submitted, &Attempt),
    ) -> bool {
        let ended = |attempt: &Attempt| attempt.ended.unwrap_or(u64::MAX);
        // A lookup that runs at the same time as the recording may have come first.
        if !other.records && ended(first) >= second.began {
            return false;
        }
        // The level that decided may have judged by any clock reading that was shown by then.
        let clock_unit = first.clock_unit.max(second.clock_unit);
        // A lookup ahead of all clocks is answered by what would be left at its time.
        let clock_unit = if other.records { clock_unit } else { clock_unit.max(other.stamp.judged) };
        let units = [one.stamp.unit, other.stamp.unit];
        let alive = if other.records {
            units.iter().all(|unit| rule.expiry(*unit) > clock_unit)
        } else {
            rule.expiry(one.stamp.unit) > clock_unit
        };
        let has_lost = self.has_lost_root(one.began().min(other.began()), ended(first).max(ended(second)));
        alive && !(has_lost && (one.is_degraded() || other.is_degraded() || !self.has_all_marks))
    }

    fn has_lost_root(&self, from: u64, until: u64) -> bool {
        self.root_losses.iter().any(|step| (from..=until).contains(step))
    }
}
