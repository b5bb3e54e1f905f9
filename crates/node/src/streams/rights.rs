//! What the sender of a stream may do with the filters that its batches name, and how much of it.
//!
//! Promises: rights are looked up once a map, a filter and a verb, and never by the rights of an older map: a principal whose
//! right was taken away sets no cell by a batch that is admitted under the newer map; the name of a filter is told to those alone
//! who may describe it, or might do something with it before. Must not know: what is in a batch.

use std::sync::Arc;

use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{FilterId, FilterRecord, FilterVerb, MonotonicMs, Operation, Quota};

use crate::guest::Guest;
use crate::quotas::{Quotas, Spent, Usage};
use crate::view::View;

/// Filters and verbs that are remembered at most; a stream that names more is looked up more often.
const REMEMBERED_MAX: usize = 64;

/// What the sender of a stream may do.
pub(super) struct StreamRights {
    guest: Arc<Guest>,
    rules: Rules,
    /// The version of the map by which these are allowed.
    version: u64,
    allowed: Vec<(FilterId, FilterVerb)>,
    /// Filters of which it knows, as it was once allowed something with them.
    known: Vec<FilterId>,
    /// What was refused last, by which map.
    refused: Option<(u64, (FilterId, FilterVerb))>,
    /// What its principal may ask by that map, and has asked.
    quota: Option<(Quota, Arc<Usage>)>,
    /// Batches that count towards the quota and are not answered.
    open_batches: u32,
}

impl StreamRights {
    /// The rights of `guest`.
    pub(super) fn of(guest: Arc<Guest>, rules: Rules) -> Self {
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

    /// Takes a batch of so many events from the quota of its principal.
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

    /// A batch is answered.
    pub(super) fn answered(&mut self) {
        if self.open_batches > 0
            && let Some((_, usage)) = &self.quota
        {
            usage.give_back(1);
            self.open_batches -= 1;
        }
    }

    /// Goes by a newer map.
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

    /// The right that is missing, for who must not learn the filter's name.
    fn hidden(&self, id: FilterId, verb: FilterVerb) -> String {
        format!("`{}` has no right to {verb} filter number {id}", self.guest.caller().name())
    }

    /// Only for those who may do `operation` with the filter, by the map that [`Self::take`] has seen.
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
                // The next batches of the stream are refused for the same reason.
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

/// The verb that an operation needs.
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
