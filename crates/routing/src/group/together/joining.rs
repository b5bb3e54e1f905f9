//! When a copy has begun to get what it lacked: what was told before under which names, it does not know.
//!
//! Promises: a retry that may be found because of itself counts as one for as long as it may come again. Must not know: cells,
//! other copies.

use crate::group::limits::NAMES_AWAITED_MS_MAX;
use crate::protocol::Submission;

/// Since when a copy knows what is told under which name.
pub(super) struct Joining {
    /// The retry horizon: for how long a submission may come again.
    horizon_ms: u64,
    /// In monotonic milliseconds; none where it has known all along.
    since_ms: Option<u64>,
    /// It does from the next input on.
    is_due: bool,
}

impl Joining {
    pub(super) fn new(horizon_ms: u64) -> Self {
        Self { horizon_ms, since_ms: None, is_due: false }
    }

    pub(super) fn horizon_ms(&self) -> u64 {
        self.horizon_ms
    }

    /// It does from the next input on.
    pub(super) fn begin_at_next_input(&mut self) {
        self.is_due = true;
    }

    /// An input is at its end.
    pub(super) fn end_input(&mut self, now_ms: u64) {
        if std::mem::take(&mut self.is_due) {
            self.since_ms = Some(now_ms);
        }
    }

    /// It has asked for what it lacks.
    pub(super) fn asked(&mut self, now_ms: u64) {
        self.since_ms.get_or_insert(now_ms);
    }

    /// Whoever has said so tells this copy what it tells under which name, by now.
    pub(super) fn is_told(&mut self, now_ms: u64) {
        self.since_ms = Some(now_ms);
    }

    /// When the names that may come again are known, where somebody tells them.
    pub(super) fn known_ms(&self, is_told: bool) -> u64 {
        let wait_ms = self.horizon_ms.min(NAMES_AWAITED_MS_MAX);
        self.since_ms.filter(|_| is_told).map_or(0, |since_ms| since_ms + wait_ms)
    }

    /// Whether a batch that is found may be found because of itself: it came before this copy knew what was told.
    pub(super) fn may_be_its_own(&self, submission: &Submission, now_ms: u64) -> bool {
        let is_young = |since_ms: u64| now_ms.saturating_sub(since_ms) < self.horizon_ms;
        (submission.again || !submission.names.is_empty()) && (self.is_due || self.since_ms.is_some_and(is_young))
    }
}
