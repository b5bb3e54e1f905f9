//! What the sender of a stream may do with the filters that its batches name.
//!
//! Promises: rights are looked up once a map, a filter and a verb, and never by the rights of an older map: a principal whose
//! right was taken away sets no cell by a batch that is admitted under the newer map. Must not know: what is in a batch.

use std::sync::Arc;

use firstseen_routing::{FilterId, FilterRecord, FilterVerb, Operation};

use crate::guest::Guest;
use crate::view::View;

/// Filters and verbs that are remembered at most; a stream that names more is looked up more often.
const REMEMBERED_MAX: usize = 64;

/// What the sender of a stream may do.
pub(super) struct StreamRights {
    guest: Arc<Guest>,
    /// The version of the map by which these are allowed.
    version: u64,
    allowed: Vec<(FilterId, FilterVerb)>,
}

impl StreamRights {
    /// The rights of `guest`.
    pub(super) fn of(guest: Arc<Guest>) -> Self {
        Self { guest, version: 0, allowed: Vec::new() }
    }

    /// Only for those who may do `operation` with the filter.
    pub(super) fn must(
        &mut self,
        view: &View,
        (id, filter): (FilterId, &FilterRecord),
        operation: Operation,
    ) -> Result<(), String> {
        let wanted = (id, verb(operation));
        if self.version != view.map.version || self.allowed.len() >= REMEMBERED_MAX {
            self.allowed.clear();
            self.version = view.map.version;
        }
        if !self.allowed.contains(&wanted) {
            self.guest.may(&view.map, wanted.1, filter)?;
            self.allowed.push(wanted);
        }
        Ok(())
    }
}

/// The verb that an operation needs.
fn verb(operation: Operation) -> FilterVerb {
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
