//! Until when a copy does not know all replies to names: it has forgotten them, or others have replied without it.
//!
//! Promises: if a retry finds its event recorded, and this copy does not know the reply to the first attempt, then the first attempt
//! itself may have recorded the event, and the retry is not called a duplicate. This module must not depend on cells or on other copies.

use crate::group::limits::NAMES_AWAITED_MS_MAX;
use crate::protocol::{MonotonicMs, Submission};

/// The copy that answers is asked for its replies again after this time.
const ASK_AGAIN_MS: u64 = 1_000;

/// What a copy knows of the replies to names.
pub(super) struct Joining {
    /// The retry horizon: for how long a submission may come again.
    horizon_ms: u64,
    /// The time from which on it remembers replies to names, in monotonic milliseconds; `None` if it has never forgotten any.
    since_ms: Option<MonotonicMs>,
    /// Whether it remembers them only from the next input on.
    is_due: bool,
    /// When the last name that another copy has answered, unknown here, may come again for the last time; none if no such name is left.
    known_from_ms: Option<MonotonicMs>,
    /// When the copy that answers is asked for its replies; none if it need not be.
    next_ask_ms: Option<MonotonicMs>,
    /// Whether the replies of the copy that answers are coming in, and none has been forgotten since the first of them.
    is_hearing: bool,
}

impl Joining {
    pub(super) fn new(horizon_ms: u64) -> Self {
        Self { horizon_ms, since_ms: None, is_due: false, known_from_ms: None, next_ask_ms: None, is_hearing: false }
    }

    pub(super) fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    /// The replies that were known are forgotten; from the next input on the copy learns new ones.
    pub(super) fn begin_at_next_input(&mut self) {
        (self.is_due, self.is_hearing) = (true, false);
        self.next_ask_ms = Some(MonotonicMs::START);
    }

    /// Nothing was ever recorded before this process: no reply is missing.
    pub(super) fn note_first(&mut self) {
        self.next_ask_ms = None;
    }

    /// An input has ended.
    pub(super) fn end_input(&mut self, now_ms: MonotonicMs) {
        if std::mem::take(&mut self.is_due) {
            self.begin(now_ms);
        }
    }

    /// The copy has begun to fetch what it lacks.
    pub(super) fn asked(&mut self, now_ms: MonotonicMs) {
        if self.since_ms.is_none() {
            self.next_ask_ms = Some(MonotonicMs::START);
            self.begin(now_ms);
        }
    }

    /// The node that the slice comes from sends its replies to names from now on, and has said so.
    pub(super) fn note_told(&mut self, now_ms: MonotonicMs) {
        self.begin(now_ms);
    }

    fn begin(&mut self, now_ms: MonotonicMs) {
        self.since_ms = Some(now_ms);
        if self.next_ask_ms.is_some() {
            // Earlier replies have not been handed over yet.
            self.known_from_ms = Some(now_ms.after(self.horizon_ms));
        }
    }

    /// Returns whether the copy that answers is to be asked for its replies now.
    pub(super) fn asks(&mut self, now_ms: MonotonicMs) -> bool {
        let is_time = self.next_ask_ms.is_some_and(|next_ms| next_ms <= now_ms);
        if is_time {
            self.next_ask_ms = Some(now_ms.after(ASK_AGAIN_MS));
        }
        is_time
    }

    /// When [`Self::asks`] may be true.
    pub(super) fn next_ask_ms(&self) -> Option<MonotonicMs> {
        self.next_ask_ms
    }

    /// The replies of the copy that answers follow.
    pub(super) fn begin_hearing(&mut self) {
        self.is_hearing = true;
    }

    /// All replies have come that the other copy knows from the last `told_for_ms`. Names that this copy has forgotten itself are not
    /// among them: it may have recorded their events, and never replied.
    pub(super) fn end_hearing(&mut self, told_for_ms: u64, now_ms: MonotonicMs) {
        if std::mem::take(&mut self.is_hearing) {
            self.next_ask_ms = None;
            let unknown_ms = self.horizon_ms.saturating_sub(told_for_ms);
            self.known_from_ms = (unknown_ms > 0).then(|| now_ms.after(unknown_ms));
        }
    }

    /// For how many milliseconds back all replies of other copies to names that may come again are known here.
    pub(super) fn known_for_ms(&self, now_ms: MonotonicMs) -> u64 {
        let unknown_ms = self.known_from_ms.map_or(0, |known_from_ms| known_from_ms.since(now_ms));
        self.horizon_ms.saturating_sub(unknown_ms)
    }

    /// When this copy need not wait any longer for names that may come again, where a node sends the replies to them; 0 otherwise.
    pub(super) fn known_ms(&self, is_told: bool) -> MonotonicMs {
        let beyond_ms = self.horizon_ms.saturating_sub(NAMES_AWAITED_MS_MAX);
        let known_from_ms = self.known_from_ms.filter(|_| is_told);
        known_from_ms.map_or(MonotonicMs::START, |known_from_ms| MonotonicMs(known_from_ms.0.saturating_sub(beyond_ms)))
    }

    /// Whether a batch that is found may be a duplicate only of its own first attempt: one that came before this copy
    /// remembered the reply.
    pub(super) fn may_be_its_own(&self, submission: &Submission, now_ms: MonotonicMs) -> bool {
        let is_young = self.since_ms.is_some_and(|since_ms| now_ms.since(since_ms) < self.horizon_ms);
        (submission.again || !submission.names.is_empty()) && (self.is_due || is_young)
    }
}
