//! The answers to the events of a batch, from the machine of a group to the client.
//!
//! Promises: each list has an entry for every event or none at all. Must not know: how answers come about, how they
//! travel.

use super::hold::Hold;
use crate::map::TREE_LEVELS_MAX;
use crate::verdict::{Decision, Reason, Seen, make_unknown};

/// The answers to the events of a batch, or of a run of one, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    decisions: Vec<Decision>,
    estimates: Vec<f32>,
    seen: Vec<Seen>,
    holds: Vec<Hold>,
    level_hits: Vec<u32>,
    clock_ms: Option<u64>,
    is_degraded: bool,
    expected_rate: f32,
}

impl Answers {
    /// Answers with these verdicts, and nothing else.
    pub fn new(decisions: Vec<Decision>) -> Self {
        Self { decisions, ..Self::default() }
    }

    /// The same reason for all of `events` events.
    pub fn undecided(events: usize, reason: Reason) -> Self {
        Self::new(vec![Decision::Undecided(reason); events])
    }

    /// Adds the frequency of each event. An empty list stands for none.
    pub fn with_estimates(mut self, estimates: Vec<f32>) -> Self {
        self.check_length(estimates.len());
        self.estimates = estimates;
        self
    }

    /// Adds where each event was found in a tree. An empty list stands for none.
    pub fn with_seen(mut self, seen: Vec<Seen>) -> Self {
        self.check_length(seen.len());
        self.seen = seen;
        self
    }

    /// Adds who holds each event. An empty list stands for none.
    pub fn with_holds(mut self, holds: Vec<Hold>) -> Self {
        self.check_length(holds.len());
        self.holds = holds;
        self
    }

    /// Adds how many duplicates each level of a tree has found, from the root on.
    pub fn with_level_hits(mut self, level_hits: Vec<u32>) -> Self {
        self.level_hits = level_hits;
        self
    }

    /// Adds the owner's clock in milliseconds since 1970. `None` means that it shows none.
    pub fn with_clock(mut self, clock_ms: Option<u64>) -> Self {
        self.clock_ms = clock_ms;
        self
    }

    /// Adds whether verdicts rest on fewer positions than usual, or on slices that have lost something, and the mean
    /// chance that a new event is called a duplicate for that reason, or 0.
    pub fn with_quality(mut self, is_degraded: bool, expected_rate: f32) -> Self {
        self.is_degraded = is_degraded;
        self.expected_rate = expected_rate;
        self
    }

    fn check_length(&self, length: usize) {
        debug_assert!(length == 0 || length == self.len(), "{length} entries for {} events", self.len());
    }

    /// Events.
    pub fn len(&self) -> usize {
        self.decisions.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// The verdicts, one an event.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The frequency of an event; 0 where frequencies were not asked for.
    pub fn estimate(&self, event: usize) -> f32 {
        self.estimates.get(event).copied().unwrap_or(0.0)
    }

    /// One frequency an event where frequencies were asked for; otherwise none.
    pub fn estimates(&self) -> &[f32] {
        &self.estimates
    }

    /// One entry an event where the filter is in a tree, and the sender wants them; otherwise none.
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// One entry an event where events are claimed; otherwise none.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Duplicates found at each level of a tree, from the root on; empty outside of trees.
    pub fn level_hits(&self) -> &[u32] {
        &self.level_hits
    }

    /// The owner's clock in milliseconds since 1970; none where it shows none.
    pub fn clock_ms(&self) -> Option<u64> {
        self.clock_ms
    }

    /// Whether verdicts rest on fewer positions than usual, or on slices that have lost something.
    pub fn is_degraded(&self) -> bool {
        self.is_degraded
    }

    /// The mean chance that a new event of the batch is called a duplicate, where verdicts rest on fewer positions; 0
    /// where none does.
    pub fn expected_rate(&self) -> f32 {
        self.expected_rate
    }

    /// Takes the verdicts and where events were found, which is empty outside of trees.
    pub fn into_verdicts(self) -> (Vec<Decision>, Vec<Seen>) {
        (self.decisions, self.seen)
    }

    /// Appends the answers of another run of the batch. `wants_seen` says whether the sender is to learn where each event
    /// was found; without it, it learns only how many duplicates each level of a tree has found.
    pub fn append(&mut self, run: &Self, wants_seen: bool) {
        let before = self.len();
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
        self.is_degraded |= run.is_degraded;
        self.expected_rate = self.expected_rate.max(run.expected_rate);
    }

    /// What the answers rest on may be nowhere: verdicts become unknown, and nothing is granted. Undecided events stay as
    /// they are.
    pub fn give_up(&mut self) {
        make_unknown(&mut self.decisions);
        for (hold, decision) in self.holds.iter_mut().zip(&mut self.decisions) {
            if let Hold::Own(_) = hold {
                *hold = Hold::None;
                *decision = Decision::Undecided(Reason::NotReady);
            }
        }
    }
}

/// Appends the entries of a run of `events` events to a list with entries for the `before` events ahead of them. Where
/// only some runs have entries, the other events get the default.
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
