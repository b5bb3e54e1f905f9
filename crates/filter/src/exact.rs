//! An exact model of a filter. It tells which events the filter delivered within the window, and how often the filter
//! was wrong.
//!
//! The model applies the window rule of the filter exactly, unit by unit. It does not decide which events should have
//! been delivered. It takes the deliveries of **this filter** as the truth, as Koloniari et al. 2011 do (Definition 4).
//! For example, if the filter drops a key as a false positive, the model treats the key as not delivered, so the next
//! event with this key is still new.
//!
//! The memory of the model is proportional to the number of keys in one window. The model holds at most twice that
//! number of keys, in slots of 33 bytes of which up to half are empty.
//!
//! This module does not depend on cells or on how the filter answers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::AddAssign;

use serde::Serialize;

use crate::definition::FilterDefinition;
use crate::unit_number::UnitNumber;
use crate::{Digest, Refresh, Stamp, Verdict, WindowRule};

/// Counts of a filter's answers, by comparison with the exact model. An event is *delivered* if the verdict of the
/// filter was `FirstSeen`. An event is *known* if its key was delivered before and that delivery is still in the
/// window.
///
/// An event is a **first test** if it is not known and all earlier events with its key have left the window, whether
/// they were delivered or not. False positives are counted only in first tests, because a false positive repeats
/// itself: the filter drops the same key at every further event until the cells expire. Such repeated errors count only
/// in [`Self::fpr_events`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// True positives: known events that were called duplicate.
    pub true_positives: u64,
    /// False positives: first tests that were called duplicate.
    pub false_positives: u64,
    /// True negatives: first tests that were called first-seen.
    pub true_negatives: u64,
    /// False negatives: known events that were called first-seen.
    pub false_negatives: u64,
    /// Events that are neither known nor a first test and were called duplicate.
    pub repeated_false_positives: u64,
    /// Events that are neither known nor a first test and were called first-seen.
    pub repeated_true_negatives: u64,
    /// First tests that were undecided because the filter was full. These events were neither lost nor recorded.
    pub undecided_first_tests: u64,
    /// Undecided events whose key was submitted before within the window. These are repeats that a full filter passes
    /// on.
    pub undecided_repeats: u64,
}

impl Tally {
    /// Returns the false-positive rate over all first tests: `fp / (fp + tn)`. A first test that got the verdict
    /// undecided counts as a negative. Returns 0 if there were no first tests.
    pub fn fpr(&self) -> f64 {
        let negatives = self.true_negatives + self.undecided_first_tests;
        part(self.false_positives, self.false_positives + negatives)
    }

    /// Returns the false-positive rate over events: the share of events called duplicate among all events that are not
    /// known.
    pub fn fpr_events(&self) -> f64 {
        let called_duplicate = self.false_positives + self.repeated_false_positives;
        let called_first_seen = self.true_negatives + self.repeated_true_negatives;
        let undecided = self.undecided_first_tests + self.undecided_repeats;
        part(called_duplicate, called_duplicate + called_first_seen + undecided)
    }

    /// Returns the number of events with a verdict that is neither a true or false positive nor a true or false
    /// negative: the events are not known, and no first test either, because an event with their key came within the
    /// window but was not delivered within it.
    pub fn not_compared(&self) -> u64 {
        self.repeated_false_positives + self.repeated_true_negatives
    }

    /// Returns the false-negative rate, `fn / (fn + tp)`. Returns 0 if no event was known.
    pub fn fnr(&self) -> f64 {
        part(self.false_negatives, self.false_negatives + self.true_positives)
    }

    /// Returns the F1 score, `2 tp / (2 tp + fp + fn)`, as in the slides on stable filters (S24). Returns 1 if there
    /// were no such events.
    pub fn f1(&self) -> f64 {
        let twice = 2 * self.true_positives;
        let all = twice + self.false_positives + self.false_negatives;
        if all == 0 { 1.0 } else { part(twice, all) }
    }
}

fn part(some: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { some as f64 / all as f64 }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.true_positives += other.true_positives;
        self.false_positives += other.false_positives;
        self.true_negatives += other.true_negatives;
        self.false_negatives += other.false_negatives;
        self.repeated_false_positives += other.repeated_false_positives;
        self.repeated_true_negatives += other.repeated_true_negatives;
        self.undecided_first_tests += other.undecided_first_tests;
        self.undecided_repeats += other.undecided_repeats;
    }
}

/// Units at which the occurrences of a key leave the window.
#[derive(Clone, Copy, Default)]
struct Expiries {
    /// Unit at which the latest delivery of the key leaves the window, or the first unit if the key was never
    /// delivered. Under the `refresh` rule, every occurrence of a known key restarts its window, so it counts as a
    /// delivery as well.
    delivered: UnitNumber,
    /// Unit at which the last occurrence of the key, delivered or not, leaves the window.
    sighted: UnitNumber,
}

/// Hasher for digests, which are uniform already and need no further hashing.
#[derive(Clone, Copy, Default)]
struct DigestHasher(u64);

impl Hasher for DigestHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 ^= word;
    }
}

/// Exact model of one filter.
///
/// ```
/// use firstseen_filter::{Digest, ExactWindow, Refresh, Stamp, UnitNumber, Verdict, WindowRule};
/// let rule = WindowRule { span_units: 10, lateness_units: 0 };
/// let mut exact = ExactWindow::new(rule, Refresh::Fixed);
/// let (click, at) = (Digest { lo: 1, hi: 2 }, |unit| Stamp::on_time(UnitNumber(unit)));
/// assert!(!exact.observe(click, at(100), Verdict::FirstSeen));
/// assert!(exact.observe(click, at(109), Verdict::Duplicate));
/// // No longer known, but no first test either: its last sighting was one unit ago.
/// assert!(!exact.observe(click, at(110), Verdict::Duplicate));
/// let tally = exact.tally();
/// assert_eq!((tally.true_positives, tally.false_positives, tally.true_negatives), (1, 0, 1));
/// assert_eq!((tally.fpr(), tally.fpr_events()), (0.0, 0.5));
/// ```
pub struct ExactWindow {
    rule: WindowRule,
    refresh: Refresh,
    keys: HashMap<Digest, Expiries, BuildHasherDefault<DigestHasher>>,
    /// Greatest unit so far. No event is judged at a unit earlier than this one minus the lateness.
    now: UnitNumber,
    /// Number of keys at which keys outside the window are removed.
    purged_from: usize,
    tally: Tally,
}

const PURGED_FROM_MIN: usize = 1024;

impl ExactWindow {
    /// Creates the model of a filter that has delivered nothing.
    pub fn new(rule: WindowRule, refresh: Refresh) -> Self {
        Self {
            rule,
            refresh,
            keys: HashMap::default(),
            now: UnitNumber::FIRST,
            purged_from: PURGED_FROM_MIN,
            tally: Tally::default(),
        }
    }

    /// Creates the model of a filter with this definition.
    pub fn of(definition: &FilterDefinition) -> Self {
        Self::new(definition.rule, definition.cells.refresh())
    }

    /// Adds one event with the verdict of the filter. Call this method in the order in which the filter processed the
    /// events. Returns `true` if the key of the event was known, in which case `Duplicate` was the correct verdict.
    pub fn observe(&mut self, digest: Digest, stamp: Stamp, verdict: Verdict) -> bool {
        self.now = self.now.max(stamp.unit).max(stamp.judged);
        let found = self.keys.get(&digest).copied().unwrap_or_default();
        let known = found.delivered > stamp.judged;
        self.count(known, found.sighted <= stamp.judged, verdict);
        let expiry = self.rule.expiry(stamp.unit);
        let refreshes = verdict == Verdict::Duplicate && known && self.refresh == Refresh::Refresh;
        let starts = verdict == Verdict::FirstSeen || refreshes;
        let delivered = if starts { found.delivered.max(expiry) } else { found.delivered };
        self.make_room();
        self.keys.insert(digest, Expiries { delivered, sighted: found.sighted.max(expiry) });
        known
    }

    /// Returns whether the key was delivered and the delivery is still in the window for an event with stamp `stamp`.
    /// The call changes nothing.
    pub fn knows(&self, digest: Digest, stamp: Stamp) -> bool {
        self.keys.get(&digest).is_some_and(|expiries| expiries.delivered > stamp.judged)
    }

    fn count(&mut self, known: bool, first_test: bool, verdict: Verdict) {
        let tally = &mut self.tally;
        let counter = match (verdict, known, first_test) {
            (Verdict::Undecided, _, true) => &mut tally.undecided_first_tests,
            (Verdict::Undecided, _, false) => &mut tally.undecided_repeats,
            (Verdict::Duplicate, true, _) => &mut tally.true_positives,
            (Verdict::FirstSeen, true, _) => &mut tally.false_negatives,
            (Verdict::Duplicate, false, true) => &mut tally.false_positives,
            (Verdict::FirstSeen, false, true) => &mut tally.true_negatives,
            (Verdict::Duplicate, false, false) => &mut tally.repeated_false_positives,
            (Verdict::FirstSeen, false, false) => &mut tally.repeated_true_negatives,
        };
        *counter += 1;
    }

    /// Removes keys that have left the window. Most calls do nothing: the method walks over all keys only when their
    /// number has doubled since the last removal. The mean cost per added key is therefore constant.
    fn make_room(&mut self) {
        if self.keys.len() < self.purged_from {
            return;
        }
        let edge = self.now.before(self.rule.lateness_units);
        self.keys.retain(|_, expiries| expiries.sighted > edge);
        self.purged_from = (2 * self.keys.len()).max(PURGED_FROM_MIN);
    }

    /// Returns the counts of the filter's answers so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Returns the number of keys in memory. Some of them may have left the window.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Returns the approximate size of the keys in bytes.
    pub fn bytes(&self) -> u64 {
        // At most seven of eight slots are used. A slot takes the entry and one byte.
        (self.keys.capacity() / 7 * 8 * (size_of::<(Digest, Expiries)>() + 1)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict::{Duplicate, FirstSeen, Undecided};

    const RULE: WindowRule = WindowRule { span_units: 10, lateness_units: 3 };

    fn key(key: u64) -> Digest {
        Digest { lo: key.wrapping_mul(0x9E37_79B9_7F4A_7C15), hi: key }
    }

    fn tallied(refresh: Refresh, verdicts: &[(u64, Verdict)]) -> ExactWindow {
        let mut exact = ExactWindow::new(RULE, refresh);
        for (unit, verdict) in verdicts {
            exact.observe(key(1), Stamp::on_time(UnitNumber(*unit)), *verdict);
        }
        exact
    }

    #[test]
    fn every_answer_counts_once_in_its_place() {
        let verdicts = [
            (0, Duplicate),  // A first test: fp.
            (5, Duplicate),  // Never delivered, but submitted 5 units ago.
            (14, FirstSeen), // Submitted 9 units ago, and delivered now.
            (23, Duplicate), // Known: tp.
            (24, FirstSeen), // Its window has ended, but it was submitted 1 unit ago.
            (25, FirstSeen), // Known: fn.
            (26, Undecided), // Submitted 1 unit ago.
            (36, FirstSeen), // Its window and that of its last submission at 26 have ended: tn.
        ];
        let expected = Tally {
            true_positives: 1,
            false_positives: 1,
            true_negatives: 1,
            false_negatives: 1,
            repeated_false_positives: 1,
            repeated_true_negatives: 2,
            undecided_first_tests: 0,
            undecided_repeats: 1,
        };
        let tally = tallied(Refresh::Fixed, &verdicts).tally();
        assert_eq!(tally, expected);
        assert_eq!((tally.fpr(), tally.fpr_events(), tally.fnr(), tally.f1()), (0.5, 2.0 / 6.0, 0.5, 0.5));
        assert_eq!(tally.not_compared(), 3);
        let mut twice = tally;
        twice += tally;
        assert_eq!((twice.undecided_repeats, twice.repeated_true_negatives, twice.fpr()), (2, 4, 0.5));
        assert_eq!((Tally::default().fpr(), Tally::default().f1()), (0.0, 1.0));
    }

    #[test]
    fn refreshes_extend_only_what_is_known() {
        let verdicts = [(0, FirstSeen), (9, Duplicate), (18, Duplicate), (27, Duplicate)];
        assert_eq!(tallied(Refresh::Refresh, &verdicts).tally().true_positives, 3);
        assert_eq!(tallied(Refresh::Fixed, &verdicts).tally().true_positives, 1);
        // A false positive is not a delivery, and therefore refreshes nothing.
        let verdicts = [(0, Duplicate), (5, Duplicate)];
        assert!(!tallied(Refresh::Refresh, &verdicts).knows(key(1), Stamp::on_time(UnitNumber(6))));
    }

    #[test]
    fn late_events_are_judged_where_their_stamp_says_and_shorten_nothing() {
        let mut exact = ExactWindow::new(RULE, Refresh::Fixed);
        exact.observe(key(1), Stamp::on_time(UnitNumber(20)), FirstSeen);
        exact.observe(key(2), Stamp { unit: UnitNumber(15), judged: UnitNumber(17) }, FirstSeen);
        assert!(
            exact.knows(key(2), Stamp { unit: UnitNumber::FIRST, judged: UnitNumber(24) })
                && !exact.knows(key(2), Stamp::on_time(UnitNumber(25)))
        );
        assert!(exact.observe(key(1), Stamp::on_time(UnitNumber(18)), FirstSeen));
        assert!(exact.knows(key(1), Stamp::on_time(UnitNumber(29))));
    }

    #[test]
    fn memory_follows_one_window_and_forgets_nothing_in_it() {
        let mut exact = ExactWindow::new(RULE, Refresh::Fixed);
        for event in 0..200_000 {
            let unit = event / 100;
            assert!(!exact.observe(key(event), Stamp::on_time(UnitNumber(unit)), FirstSeen));
            let oldest = unit.saturating_sub(9) * 100;
            assert!(exact.knows(key(oldest), Stamp::on_time(UnitNumber(unit))));
        }
        // Keys live for 10 units, and for 3 more units to allow for late events.
        assert!(exact.keys() <= 2 * 1301, "{} keys", exact.keys());
        assert!(exact.bytes() <= 4 * 1301 * 40, "{} bytes", exact.bytes());
    }
}
