//! What of a batch is answered by a reply that leaves some events open, and what is sent again.
//!
//! Promises: an event that has its answer is not answered again. Must not know: when a batch is sent again.

use firstseen_routing::{Decision, Hold, Operation, Reason};

use super::Piece;
use crate::call::{Answer, Callers};

impl Piece {
    /// Answers the events with a definite answer, and keeps the others; `clock_ms` as in [`Self::answer`].
    pub(crate) fn answer_definite(&mut self, clock_ms: Option<u64>, answer_of: impl Fn(usize) -> Answer) -> usize {
        // All others are sent again as a whole and may be recorded then, so no caller may have been told that the event is held.
        let may_be_held = matches!(self.operation, Operation::Claim { .. } | Operation::Release);
        self.audit(clock_ms, |event| definite(answer_of(event), may_be_held).map(|answer| answer.decision));
        self.remember(&answer_of);
        let answered = self.callers.answer_some(|event| definite(answer_of(event), may_be_held));
        self.filter.core().release(answered);
        answered
    }

    /// Notes who holds events that are claimed.
    pub(crate) fn note_holds(&self, holds: &[Hold]) {
        self.callers.note_holds(holds);
    }

    /// What is sent again of a batch: of one that claims events, those without an answer, as a caller may let the others go
    /// meanwhile. All others are sent again as a whole, as they have one name.
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

/// The answer, where a batch that is sent again does not change it.
fn definite(answer: Answer, may_be_held: bool) -> Option<Answer> {
    match answer.decision {
        Decision::FirstSeen | Decision::Duplicate => Some(answer),
        Decision::Undecided(Reason::Claimed) if may_be_held => Some(answer),
        Decision::Undecided(_) => None,
    }
}
