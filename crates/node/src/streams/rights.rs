//! Checks which rights the sender of a stream has on the filters of its batches, and how much of its quota is left.
//!
//! # Guarantees
//! - Rights are looked up once for each combination of cluster map, filter and verb.
//! - The rights of an older cluster map are never used. If a right was revoked, no batch that is admitted under the
//!   newer map sets a cell.
//! - The name of a filter is revealed only to a client that may describe the filter, or that had a right on it before.
//!
//! This module does not depend on the content of batches.

use std::sync::Arc;

use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{FilterId, FilterRecord, FilterVerb, MonotonicMs, Operation, Quota};

use crate::authenticated_caller::AuthenticatedCaller;
use crate::quotas::{Quotas, Spent, Usage};
use crate::view::View;

/// Maximum number of combinations of filter and verb that are cached. A stream that uses more combinations is looked up
/// more often.
const REMEMBERED_MAX: usize = 64;

/// Rights of the sender of a stream.
pub(super) struct StreamRights {
    guest: Arc<AuthenticatedCaller>,
    rules: Rules,
    /// Version of the cluster map that the cached rights were looked up in.
    version: u64,
    allowed: Vec<(FilterId, FilterVerb)>,
    /// Filters whose names the sender may learn, because it once had a right on them.
    known: Vec<FilterId>,
    /// The last rejected filter and verb, with the version of the cluster map.
    refused: Option<(u64, (FilterId, FilterVerb))>,
    /// Quota of the sender's principal in that cluster map, and its usage.
    quota: Option<(Quota, Arc<Usage>)>,
    /// Number of unanswered batches that count towards the quota.
    open_batches: u32,
}

impl StreamRights {
    /// Creates the rights of the client `guest`.
    pub(super) fn of(guest: Arc<AuthenticatedCaller>, rules: Rules) -> Self {
        Self {
            guest,
            rules,
            version: 0,
            allowed: Vec::new(),
            known: Vec::new(),
            refused: None,
            quota: None,
            open_batches: 0,
        }
    }

    /// Charges a batch of `events` events to the quota of its principal.
    pub(super) fn take(&mut self, quotas: &Quotas, view: &View, events: u32, now_ms: MonotonicMs) -> Result<(), Spent> {
        if self.version != view.map.version || self.guest.has_expired() {
            self.follow(quotas, view, now_ms);
        }
        if let Some((quota, usage)) = &self.quota {
            usage.take(quota, events, now_ms).inspect_err(|_| self.guest.note_over_quota())?;
            self.open_batches += 1;
        }
        Ok(())
    }

    /// Notes that a batch has been answered.
    pub(super) fn answered(&mut self) {
        if self.open_batches > 0
            && let Some((_, usage)) = &self.quota
        {
            usage.give_back(1);
            self.open_batches -= 1;
        }
    }

    /// Updates the rights and the quota to the current cluster map.
    fn follow(&mut self, quotas: &Quotas, view: &View, now_ms: MonotonicMs) {
        if self.rules.keep(Rule::RightsFollowTheMap) {
            self.allowed.clear();
        }
        self.version = view.map.version;
        let quota = self.guest.quota(&view.map).map(|(name, quota)| (quota, quotas.of(name, now_ms)));
        let is_same = match (&self.quota, &quota) {
            (Some((_, former)), Some((_, new))) => Arc::ptr_eq(former, new),
            _ => false,
        };
        if !is_same {
            self.give_all_back();
        }
        self.quota = quota;
    }

    fn give_all_back(&mut self) {
        if let Some((_, usage)) = &self.quota {
            usage.give_back(self.open_batches);
        }
        self.open_batches = 0;
    }

    /// Returns an error message about a missing right for a sender that must not learn the filter's name.
    fn hidden(&self, id: FilterId, verb: FilterVerb) -> String {
        format!("`{}` has no right to {verb} filter number {id}", self.guest.caller().name())
    }

    /// Checks that the sender has the right `verb` on the filter, according to the cluster map that [`Self::take`] has
    /// seen.
    pub(super) fn must(
        &mut self,
        view: &View,
        id: FilterId,
        filter: &FilterRecord,
        verb: FilterVerb,
    ) -> Result<(), String> {
        let wanted = (id, verb);
        if self.allowed.len() >= REMEMBERED_MAX {
            self.allowed.clear();
        }
        if self.allowed.contains(&wanted) {
            return Ok(());
        }
        match self.guest.may(&view.map, verb, filter) {
            Ok(()) => {
                self.allowed.push(wanted);
                if !self.known.contains(&id) && self.known.len() < REMEMBERED_MAX {
                    self.known.push(id);
                }
            }
            Err(missing) => {
                // The next batches of the stream are rejected for the same reason, so the log has only one line.
                if self.refused != Some((self.version, wanted)) {
                    self.guest.note_refused(&missing);
                    self.refused = Some((self.version, wanted));
                }
                let may_know =
                    self.known.contains(&id) || self.guest.may(&view.map, FilterVerb::Describe, filter).is_ok();
                return Err(if may_know { missing } else { self.hidden(id, verb) });
            }
        }
        Ok(())
    }
}

impl Drop for StreamRights {
    fn drop(&mut self) {
        self.give_all_back();
    }
}

/// Returns the verb that an operation requires.
pub(super) fn verb(operation: Operation) -> FilterVerb {
    match operation {
        Operation::Observe
        | Operation::Count
        | Operation::BringUp
        | Operation::Claim { .. }
        | Operation::Confirm
        | Operation::Release => FilterVerb::Observe,
        Operation::Lookup | Operation::Estimate | Operation::Verify => FilterVerb::Lookup,
    }
}
