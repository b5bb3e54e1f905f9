//! Divides a batch after a reply that left some events undecided: decided events are answered, and the other events are
//! sent again.
//!
//! An event of the batch that has its answer is not answered a second time.

use firstseen_routing::{Decision, Hold, Operation, Reason};

use super::RoutedBatch;
use crate::call::{Answer, Callers};

impl RoutedBatch {
    /// Answers the events whose verdict is final, so that a retry cannot change it, and keeps all other events in the
    /// batch. Returns the number of answered events. `clock_ms` has the same meaning as in [`Self::answer`].
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

    /// Returns the part of the batch that must be sent again, or `None` if no caller waits any more. In most cases this
    /// is the whole batch, because a node recognises a retry by the batch's sequence number, which stands for all of
    /// its events.
    ///
    /// In two cases, the batch is reduced to the events that have no answer yet:
    ///
    /// - A batch of claims. The caller of an answered event may already have released its claim, and the retry would
    ///   give the caller a claim that it does not know about.
    /// - A batch with an event that was answered as not recorded. The retry could record that event, and the next
    ///   submission of the same event would be called a duplicate although no caller has got it as first-seen.
    pub(crate) fn into_retry(mut self) -> Option<Self> {
        if self.awaited() == 0 {
            return None;
        }
        let is_reduced = matches!(self.operation, Operation::Claim { .. }) || self.tries.has_refused_events();
        if !is_reduced || self.awaited() == self.events() {
            return Some(self);
        }
        let awaited: Vec<usize> = (0..self.events()).filter(|event| self.callers.awaits(*event)).collect();
        let rest = self.split_off_renumbered(&awaited);
        self.callers = Callers::default();
        Some(rest)
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
