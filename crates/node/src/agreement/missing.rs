//! Which groups of slices this node should hold and cannot: the others go on without them.
//!
//! Promises: what is reported is of this start of the node. Must not know: why they cannot be held.

use firstseen_meta::{Change, MetaError};
use firstseen_routing::FilterId;

use super::report::{AGAIN, Next, Report, Wait};
use crate::shared::Shared;
use crate::view::{Me, View};

/// Groups of which the map does not say that they are missing here.
pub(crate) struct Missing;

impl Report for Missing {
    async fn next(&mut self, _: &Shared, view: &View) -> Next {
        let Some((me, (filter, group))) = view.me.zip(unreported(view)) else { return Next::Rest(Wait::View) };
        let Me { identity, incarnation } = me;
        Next::Propose(Box::new(Change::SlicesMissing { filter, group, node: identity.node, incarnation }))
    }

    fn proposed(&mut self, _: &Change, error: Option<&MetaError>) -> Option<Wait> {
        Some(if error.is_none() { Wait::View } else { Wait::For(AGAIN) })
    }
}

/// A group that cannot be held here, though the map does not say so.
fn unreported(view: &View) -> Option<(FilterId, u32)> {
    let node = view.node()?;
    let is_unreported = |(filter, group): &(FilterId, u32)| {
        let record = view.map.filters.get(filter);
        record.is_some_and(|record| record.is_on(node) && !view.map.is_gone_from(record, *group, node))
    };
    view.faults.iter().map(|fault| (fault.filter, fault.group)).find(is_unreported)
}
