//! Tracks for how long a copy of a slice may lack replies that it still needs. A copy needs the reply to a submission
//! as long as the submission may be retried. It lacks the reply if it has forgotten the idempotency key, or if another
//! copy replied to the submission while this copy was down.
//!
//! A missing reply matters if the submission is retried and its event is found. This copy then cannot tell whether
//! another submission or the retry's own first attempt has recorded the event. The retry is therefore not called a
//! duplicate.

use crate::group::limits::NAMES_AWAITED_MS_MAX;
use crate::protocol::{MonotonicMs, Submission};

/// Time in milliseconds after which the answering copy is asked again for its replies.
const REQUEST_RETRY_MS: u64 = 1_000;

/// State of a copy's knowledge about the replies to idempotency keys.
pub(super) struct ReplyKnowledge {
    /// The retry horizon in milliseconds: how long after its first attempt a submission may be retried.
    horizon_ms: u64,
    /// The time since which the copy remembers replies, in monotonic milliseconds. `None` if it has never forgotten
    /// any.
    since_ms: Option<MonotonicMs>,
    /// Whether the copy starts to remember replies only with the next input.
    is_due: bool,
    /// Time from which this copy knows all replies of other copies that it needs, or `None` if it already knows all of
    /// them. Until that time, a producer may retry a submission that another copy has answered, and this copy may not
    /// know the reply.
    known_from_ms: Option<MonotonicMs>,
    /// Time at which the answering copy is asked for its replies. `None` if that is not necessary.
    next_ask_ms: Option<MonotonicMs>,
    /// Whether the answering copy is sending its replies, and this copy has forgotten none of them since the first.
    is_receiving: bool,
}

impl ReplyKnowledge {
    pub(super) fn new(horizon_ms: u64) -> Self {
        Self { horizon_ms, since_ms: None, is_due: false, known_from_ms: None, next_ask_ms: None, is_receiving: false }
    }

    pub(super) fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    /// Notes that the known replies are forgotten. The copy learns new ones from the next input on.
    pub(super) fn begin_at_next_input(&mut self) {
        (self.is_due, self.is_receiving) = (true, false);
        self.next_ask_ms = Some(MonotonicMs::START);
    }

    /// Notes that nothing was recorded before this process, so no reply is missing.
    pub(super) fn note_first(&mut self) {
        self.next_ask_ms = None;
    }

    /// Notes that the processing of an input has ended.
    pub(super) fn end_input(&mut self, now_ms: MonotonicMs) {
        if std::mem::take(&mut self.is_due) {
            self.begin(now_ms);
        }
    }

    /// Notes that the copy has begun to fetch the events that it lacks.
    pub(super) fn asked(&mut self, now_ms: MonotonicMs) {
        if self.since_ms.is_none() {
            self.next_ask_ms = Some(MonotonicMs::START);
            self.begin(now_ms);
        }
    }

    /// Notes that the node from which the slice moves here has announced that it sends its replies from now on.
    pub(super) fn note_told(&mut self, now_ms: MonotonicMs) {
        self.begin(now_ms);
    }

    fn begin(&mut self, now_ms: MonotonicMs) {
        self.since_ms = Some(now_ms);
        if self.next_ask_ms.is_some() {
            // The earlier replies have not been handed over yet.
            self.known_from_ms = Some(now_ms.after(self.horizon_ms));
        }
    }

    /// Returns whether the answering copy must be asked for its replies now.
    pub(super) fn asks(&mut self, now_ms: MonotonicMs) -> bool {
        let is_time = self.next_ask_ms.is_some_and(|next_ms| next_ms <= now_ms);
        if is_time {
            self.next_ask_ms = Some(now_ms.after(REQUEST_RETRY_MS));
        }
        is_time
    }

    /// Returns the time at which [`Self::asks`] may return `true`.
    pub(super) fn next_ask_ms(&self) -> Option<MonotonicMs> {
        self.next_ask_ms
    }

    /// Notes that the replies of the answering copy follow.
    pub(super) fn begin_hearing(&mut self) {
        self.is_receiving = true;
    }

    /// Notes that the answering copy has sent all replies that it knows from the last `told_for_ms` milliseconds.
    ///
    /// Even after the transfer, this copy may lack replies that it once knew and has forgotten. This happens, for
    /// example, if it was the answering copy itself, recorded the events of a submission, and forgot the reply before
    /// it sent the reply to any other copy. The present answering copy does not know such a reply either.
    pub(super) fn end_hearing(&mut self, told_for_ms: u64, now_ms: MonotonicMs) {
        if std::mem::take(&mut self.is_receiving) {
            self.next_ask_ms = None;
            let unknown_ms = self.horizon_ms.saturating_sub(told_for_ms);
            self.known_from_ms = (unknown_ms > 0).then(|| now_ms.after(unknown_ms));
        }
    }

    /// Returns for how many milliseconds back this copy knows all replies of other copies to idempotency keys that may
    /// be retried.
    pub(super) fn known_for_ms(&self, now_ms: MonotonicMs) -> u64 {
        let unknown_ms = self.known_from_ms.map_or(0, |known_from_ms| known_from_ms.since(now_ms));
        self.horizon_ms.saturating_sub(unknown_ms)
    }

    /// Returns the time until which this copy waits for missing replies. `is_told` states whether another node sends
    /// these replies. If it is `false`, this copy does not wait, because the replies would not arrive.
    pub(super) fn known_ms(&self, is_told: bool) -> MonotonicMs {
        let beyond_ms = self.horizon_ms.saturating_sub(NAMES_AWAITED_MS_MAX);
        let known_from_ms = self.known_from_ms.filter(|_| is_told);
        known_from_ms.map_or(MonotonicMs::START, |known_from_ms| MonotonicMs(known_from_ms.0.saturating_sub(beyond_ms)))
    }

    /// Returns whether this copy may find the events of a batch only because an earlier attempt of the same batch
    /// recorded them. If the method returns `true`, events that are found must not be reported as duplicates.
    ///
    /// A copy normally recognizes a retry because it remembers the reply to the first attempt. If it began to remember
    /// replies less than one retry horizon ago, the first attempt may be older than its memory. During this period, the
    /// method returns `true` for every batch that is marked as a retry or that has idempotency keys.
    pub(super) fn may_be_its_own(&self, submission: &Submission, now_ms: MonotonicMs) -> bool {
        let is_young = self.since_ms.is_some_and(|since_ms| now_ms.since(since_ms) < self.horizon_ms);
        (submission.again || !submission.names.is_empty()) && (self.is_due || is_young)
    }
}
