//! Divides a batch after a reply that left some events undecided: decided events are answered, and the other events are
//! sent again.
//!
//! An event of the batch that has its answer is not answered a second time.

use firstseen_routing::{Decision, Hold, Operation, Reason};

use super::RoutedBatch;
use crate::call::{Answer, Callers};

impl RoutedBatch {
    /// Answers the events whose verdict cannot change by a retry, and keeps all other events in the batch. Returns the
    /// number of answered events. `clock_ms` has the same meaning as in [`Self::answer`].
    pub(crate) fn answer_definite(&mut self, clock_ms: Option<u64>, answer_of: impl Fn(usize) -> Answer) -> usize {
        // Operations other than a claim or a release are sent again as a whole and may still record the event. Their
        // callers must therefore not be told that another consumer holds it.
        let may_be_held = matches!(self.operation, Operation::Claim { .. } | Operation::Release);
        self.audit(clock_ms, |event| definite(answer_of(event), may_be_held).map(|answer| answer.decision));
        self.remember(&answer_of);
        let answered = self.callers.answer_some(|event| definite(answer_of(event), may_be_held));
        self.filter.core().release(answered);
        answered
    }

    /// Reports who holds the claimed events.
    pub(crate) fn note_holds(&self, holds: &[Hold]) {
        self.callers.note_holds(holds);
    }

    /// Returns the part of the batch that must be retried. A batch of claims is reduced to the events without an
    /// answer, because a caller may release an answered event before the retry arrives, and the retry would claim that
    /// event again. Any other batch is retried as a whole, because all of its events share one idempotency key.
    pub(crate) fn into_sent_again(mut self) -> Self {
        if !matches!(self.operation, Operation::Claim { .. }) || self.awaited() == self.events() {
            return self;
        }
        let awaited: Vec<usize> = (0..self.events()).filter(|event| self.callers.awaits(*event)).collect();
        let rest = self.renamed_part(&awaited);
        self.callers = Callers::default();
        rest
    }
}

/// Returns the answer if a retry of the batch cannot change it.
fn definite(answer: Answer, may_be_held: bool) -> Option<Answer> {
    match answer.decision {
        Decision::FirstSeen | Decision::Duplicate => Some(answer),
        Decision::Undecided(Reason::Claimed) if may_be_held => Some(answer),
        Decision::Undecided(_) => None,
    }
}
