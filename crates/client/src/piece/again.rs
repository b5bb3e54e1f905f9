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
        let is_definite = |decision| match decision {
            Decision::FirstSeen | Decision::Duplicate => true,
            Decision::Undecided(reason) => may_be_held && reason == Reason::Claimed,
        };
        let definite = |event| Some(answer_of(event)).filter(|answer| is_definite(answer.decision));
        self.audit(clock_ms, |event| definite(event).map(|answer| answer.decision));
        self.remember(&answer_of);
        let answered = self.callers.answer_some(definite);
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
        let mut rest = self.part(&awaited);
        rest.sequence = self.filter.core().next_sequence();
        rest.content = rest.packed();
        self.callers = Callers::default();
        rest
    }
}
