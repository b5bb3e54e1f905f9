//! Answers to the events of a batch, which the state machine of a slice group returns for the client. An [`Answers`]
//! value contains several lists, such as verdicts and frequency estimates. A list has one entry for every event of the
//! batch, in the order of the events. If a kind of information does not apply to the batch, its list is empty.

use super::hold::Hold;
use crate::map::TREE_LEVELS_MAX;
use crate::verdict::{Decision, Reason, Seen, make_unknown};

/// Answers to the events of a batch, or of a run (the events of a batch that belong to one slice group), in the order
/// of the events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    decisions: Vec<Decision>,
    estimates: Vec<f32>,
    seen: Vec<Seen>,
    holds: Vec<Hold>,
    level_hits: Vec<u32>,
    clock_ms: Option<u64>,
    is_degraded: bool,
    /// Indexes of the degraded events in ascending order. Empty although `is_degraded` is set if the answers are
    /// degraded as a whole.
    degraded_events: Vec<u32>,
    expected_rate: f32,
}

impl Answers {
    /// Creates answers with these verdicts and no further information.
    pub fn new(decisions: Vec<Decision>) -> Self {
        Self { decisions, ..Self::default() }
    }

    /// Creates answers for `events` events that are all undecided for the same reason.
    pub fn undecided(events: usize, reason: Reason) -> Self {
        Self::new(vec![Decision::Undecided(reason); events])
    }

    /// Adds the estimated frequency of each event. An empty list means that no frequencies were requested.
    pub fn with_estimates(mut self, estimates: Vec<f32>) -> Self {
        self.check_length(estimates.len());
        self.estimates = estimates;
        self
    }

    /// Adds the level of a filter tree at which each event was found. An empty list means that the filter is not part
    /// of a tree.
    pub fn with_seen(mut self, seen: Vec<Seen>) -> Self {
        self.check_length(seen.len());
        self.seen = seen;
        self
    }

    /// Adds which consumer holds each event. An empty list means that the events are not claimed.
    pub fn with_holds(mut self, holds: Vec<Hold>) -> Self {
        self.check_length(holds.len());
        self.holds = holds;
        self
    }

    /// Adds how many duplicates each level of a filter tree has found, starting with the root.
    pub fn with_level_hits(mut self, level_hits: Vec<u32>) -> Self {
        self.level_hits = level_hits;
        self
    }

    /// Adds the owner's clock in milliseconds since 1970. `None` means that the clock shows no time.
    pub fn with_clock(mut self, clock_ms: Option<u64>) -> Self {
        self.clock_ms = clock_ms;
        self
    }

    /// Adds information about the quality of the verdicts to the answers. `is_degraded` tells whether fewer positions
    /// than usual were tested, for example because slices are down, or whether tested slices have lost events.
    ///
    /// `expected_rate` is the mean probability that a new event is reported as a duplicate. This probability rises when
    /// fewer positions are tested. The value is 0 if all positions were tested.
    pub fn with_quality(mut self, is_degraded: bool, expected_rate: f32) -> Self {
        self.is_degraded = is_degraded;
        self.expected_rate = expected_rate;
        self
    }

    /// Adds which events are degraded, as indexes in ascending order. With an empty list, [`Self::with_quality`]
    /// applies to all events.
    pub fn with_degraded_events(mut self, events: Vec<u32>) -> Self {
        debug_assert!(events.is_sorted() && events.last().is_none_or(|last| (*last as usize) < self.len()));
        self.is_degraded |= !events.is_empty();
        self.degraded_events = events;
        self
    }

    fn check_length(&self, length: usize) {
        debug_assert!(length == 0 || length == self.len(), "{length} entries for {} events", self.len());
    }

    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Returns the verdicts, one for each event.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the estimated frequency of an event, or 0 if no frequencies were requested.
    pub fn estimate(&self, event: usize) -> f32 {
        self.estimates.get(event).copied().unwrap_or(0.0)
    }

    /// Returns the estimated frequency of each event. The list is empty if no frequencies were requested.
    pub fn estimates(&self) -> &[f32] {
        &self.estimates
    }

    /// Returns the level of a filter tree at which each event was found. The list is empty if the filter does not
    /// belong to a tree, or if the sender of the batch did not request this information.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Returns which consumer holds each event. The list is empty unless events are claimed.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Returns the number of duplicates that each level of a filter tree found, starting with the root. The list is
    /// empty outside of trees.
    pub fn level_hits(&self) -> &[u32] {
        &self.level_hits
    }

    /// Returns the owner's clock in milliseconds since 1970. `None` means that the clock shows no time.
    pub fn clock_ms(&self) -> Option<u64> {
        self.clock_ms
    }

    /// Returns whether verdicts rest on fewer positions than usual, or on slices that have lost events.
    pub fn is_degraded(&self) -> bool {
        self.is_degraded
    }

    /// Returns the indexes of the degraded events in ascending order. The list is empty if no event is degraded, or if
    /// it is not known which events are.
    pub fn degraded_events(&self) -> &[u32] {
        &self.degraded_events
    }

    /// Returns whether the verdict on one event is degraded. If it is not known which events are degraded, all of them
    /// count as degraded.
    pub fn is_event_degraded(&self, event: usize) -> bool {
        let is_listed = self.degraded_events.is_empty() || self.degraded_events.binary_search(&(event as u32)).is_ok();
        self.is_degraded && is_listed
    }

    /// Returns the number of degraded events.
    pub fn degraded_count(&self) -> usize {
        match self.degraded_events.len() {
            0 if self.is_degraded => self.len(),
            listed => listed,
        }
    }

    /// Returns the mean probability that a new event of the batch is reported as a duplicate. This value is computed
    /// only if fewer positions than usual were tested, for example because slices are down. The result is 0 if all
    /// positions were tested.
    pub fn expected_rate(&self) -> f32 {
        self.expected_rate
    }

    /// Returns the verdicts, and where the events were found. The second list is empty outside of trees.
    pub fn into_verdicts(self) -> (Vec<Decision>, Vec<Seen>) {
        (self.decisions, self.seen)
    }

    /// Appends the answers for the next run of events of the same batch. In a filter tree, the answers of the run state
    /// at which level each duplicate was found. If `wants_seen` is set, this information is kept for each event. The
    /// number of duplicates that each level has found is always kept.
    pub fn append(&mut self, run: &Self, wants_seen: bool) {
        let before = self.len();
        self.append_degraded(run);
        self.decisions.extend_from_slice(&run.decisions);
        extend(&mut self.estimates, &run.estimates, before, run.len());
        extend(&mut self.holds, &run.holds, before, run.len());
        if wants_seen {
            self.seen.extend_from_slice(&run.seen);
            self.seen.resize(self.decisions.len(), Seen::default());
        }
        if !run.seen.is_empty() {
            self.level_hits.resize(TREE_LEVELS_MAX, 0);
        }
        for (decision, seen) in run.decisions.iter().zip(&run.seen) {
            if let (Decision::Duplicate, Some(hits)) = (decision, self.level_hits.get_mut(usize::from(seen.level))) {
                *hits += 1;
            }
        }
        self.clock_ms = self.clock_ms.max(run.clock_ms);
        self.expected_rate = self.expected_rate.max(run.expected_rate);
    }

    /// Notes which events of the next run are degraded. If the runs differ, the degraded events are listed.
    fn append_degraded(&mut self, run: &Self) {
        let are_all = (self.is_empty() || self.is_degraded && self.degraded_events.is_empty())
            && run.is_degraded
            && run.degraded_events.is_empty();
        let before = self.len() as u32;
        if !are_all {
            if self.is_degraded && self.degraded_events.is_empty() {
                self.degraded_events.extend(0..before);
            }
            let degraded = (0..run.len()).filter(|event| run.is_event_degraded(*event));
            self.degraded_events.extend(degraded.map(|event| before + event as u32));
        }
        self.is_degraded |= run.is_degraded;
    }

    /// Withdraws all verdicts, because the cells on which they are based may have been lost. Afterwards all events are
    /// undecided:
    /// - An event that had a verdict gets the reason [`Reason::Unknown`].
    /// - If a claim was granted on an event, the claim is revoked, and the event gets the reason [`Reason::NotReady`].
    /// - Any other event was undecided before, and keeps its reason.
    pub fn abandon(&mut self) {
        make_unknown(&mut self.decisions);
        for (hold, decision) in self.holds.iter_mut().zip(&mut self.decisions) {
            if let Hold::Own(_) = hold {
                *hold = Hold::None;
                *decision = Decision::Undecided(Reason::NotReady);
            }
        }
    }
}

/// Appends entries to a list of optional information about the events of a batch, such as frequency estimates. So far,
/// the list covers the first `before` events. `run` contains the entries for the next `events` events.
///
/// Each of the two lists may be empty, which means that the information is missing for its events. If only one of them
/// is empty, the default value is used for the missing entries.
fn extend<T: Clone + Default>(list: &mut Vec<T>, run: &[T], before: usize, events: usize) {
    if list.is_empty() && run.is_empty() {
        return;
    }
    list.resize(before, T::default());
    list.extend_from_slice(run);
    list.resize(before + events, T::default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(level: u8) -> Seen {
        Seen { unit: None, level }
    }

    #[test]
    fn lists_of_some_runs_are_lists_of_the_batch() {
        let refused = Answers::undecided(2, Reason::Full).with_clock(Some(5));
        let counted = Answers::new(vec![Decision::FirstSeen]).with_estimates(vec![3.0]).with_quality(true, 0.5);
        let mut answers = Answers::default();
        [&refused, &counted, &refused].into_iter().for_each(|run| answers.append(run, false));
        assert_eq!(answers.estimates(), [0.0, 0.0, 3.0, 0.0, 0.0]);
        assert_eq!((answers.len(), answers.holds(), answers.clock_ms()), (5, &[][..], Some(5)));
        assert!(answers.is_degraded() && answers.expected_rate() == 0.5);
        assert_eq!((answers.degraded_events(), answers.degraded_count()), (&[2][..], 1));
    }

    #[test]
    fn degraded_runs_are_degraded_events_of_the_batch() {
        let whole = Answers::undecided(2, Reason::Full).with_quality(true, 0.0);
        let partly = Answers::undecided(3, Reason::Full).with_degraded_events(vec![1]);
        let sound = Answers::undecided(1, Reason::Full);
        for (runs, expected, count) in [
            (vec![&whole, &whole], vec![], 4),
            (vec![&sound, &sound], vec![], 0),
            (vec![&whole, &sound], vec![0, 1], 2),
            (vec![&sound, &whole], vec![1, 2], 2),
            (vec![&partly, &whole, &partly], vec![1, 3, 4, 6], 4),
        ] {
            let mut answers = Answers::default();
            runs.iter().for_each(|run| answers.append(run, false));
            assert_eq!((answers.degraded_events(), answers.degraded_count()), (&expected[..], count), "{runs:?}");
            let degraded = (0..answers.len()).filter(|event| answers.is_event_degraded(*event));
            assert_eq!(degraded.count(), count, "{runs:?}");
        }
    }

    #[test]
    fn a_producer_learns_how_many_and_a_level_learns_which() {
        let found = Answers::new(vec![Decision::Duplicate, Decision::FirstSeen]).with_seen(vec![seen(1), seen(0)]);
        let refused = Answers::undecided(1, Reason::Full);
        for (wants_seen, expected) in [(false, vec![]), (true, vec![seen(0), seen(1), seen(0)])] {
            let mut answers = Answers::default();
            answers.append(&refused, wants_seen);
            answers.append(&found, wants_seen);
            assert_eq!((answers.seen(), &answers.level_hits()[..2]), (&expected[..], &[0, 1][..]));
        }
    }
}
