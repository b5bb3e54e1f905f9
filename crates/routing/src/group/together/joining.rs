//! Since when a copy that lacked something learns the replies to names: it does not know earlier ones.
//!
//! Promises: a retry that may be a duplicate only of its own first attempt is treated as that, for as long as it may be
//! sent again. Must not know: cells, other copies.

use crate::group::limits::NAMES_AWAITED_MS_MAX;
use crate::protocol::{MonotonicMs, Submission};

/// Since when a copy knows the replies to names.
pub(super) struct Joining {
    /// The retry horizon: for how long a submission may come again.
    horizon_ms: u64,
    /// In monotonic milliseconds; none where it has always known them.
    since_ms: Option<MonotonicMs>,
    /// Whether it knows them only from the next input on.
    is_due: bool,
}

impl Joining {
    pub(super) fn new(horizon_ms: u64) -> Self {
        Self { horizon_ms, since_ms: None, is_due: false }
    }

    pub(super) fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    /// From the next input on it learns the replies to names; it does not know earlier ones.
    pub(super) fn begin_at_next_input(&mut self) {
        self.is_due = true;
    }

    /// An input has ended.
    pub(super) fn end_input(&mut self, now_ms: MonotonicMs) {
        if std::mem::take(&mut self.is_due) {
            self.since_ms = Some(now_ms);
        }
    }

    /// The copy has begun to fetch what it lacks.
    pub(super) fn asked(&mut self, now_ms: MonotonicMs) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// The node that the slice comes from sends its replies to names from now on, and has said so.
    pub(super) fn note_told(&mut self, now_ms: MonotonicMs) {
        self.since_ms = Some(now_ms);
    }

    /// When all names that may come again are known, where a node sends the replies to them; 0 otherwise.
    pub(super) fn known_ms(&self, is_told: bool) -> MonotonicMs {
        let wait_ms = self.horizon_ms.min(NAMES_AWAITED_MS_MAX);
        self.since_ms.filter(|_| is_told).map_or(MonotonicMs::START, |since_ms| since_ms.after(wait_ms))
    }

    /// Whether a batch that is found may be a duplicate only of its own first attempt: one that came before this copy
    /// knew the replies.
    pub(super) fn may_be_its_own(&self, submission: &Submission, now_ms: MonotonicMs) -> bool {
        let is_young = |since_ms: MonotonicMs| now_ms.since(since_ms) < self.horizon_ms;
        (submission.again || !submission.names.is_empty()) && (self.is_due || self.since_ms.is_some_and(is_young))
    }
}
