//! Groups of slices that this node should hold and cannot: the other nodes go on without them. On a disk that stays
//! full this node could hold them, but would delay the others: these go on without the slices of which they have
//! complete copies.
//!
//! Promises: a report is of this start of the node. Must not know: why a group cannot be held.

use firstseen_meta::{Change, Identity, MetaError};
use firstseen_routing::NodeId;

use super::report::{AGAIN, Report, RoundStep, Wait};
use crate::group_key::GroupKey;
use crate::keeper::DiskState;
use crate::view::{Me, View};

/// Groups of which the map does not say that they are missing here.
pub(crate) struct MissingGroups;

impl Report for MissingGroups {
    async fn next(&mut self, view: &View) -> RoundStep {
        let Some(Me { identity: Identity { node, .. }, incarnation }) = view.me else {
            return RoundStep::Rest(Wait::View);
        };
        let change = if let Some(GroupKey { filter, group }) = unreported(view, node) {
            Change::SlicesMissing { filter, group, node, incarnation }
        } else if let Some(GroupKey { filter, group }) = spared(view, node) {
            Change::SlicesSpared { filter, group, node, incarnation }
        } else {
            return RoundStep::Rest(Wait::View);
        };
        RoundStep::Propose(Box::new(change))
    }

    fn proposed(&mut self, _: &Change, error: Option<&MetaError>) -> Option<Wait> {
        Some(if error.is_none() { Wait::View } else { Wait::For(AGAIN) })
    }
}

/// A group that cannot be held here, though the map does not say so.
fn unreported(view: &View, node: NodeId) -> Option<GroupKey> {
    view.faults.iter().map(|fault| fault.key).find(|GroupKey { filter, group }| {
        let record = view.map.filters.get(filter);
        record.is_some_and(|record| record.is_on(node) && !view.map.is_gone_from(record, *group, node))
    })
}

/// A group with its journal on a disk that stays full, though others have complete copies of it.
fn spared(view: &View, node: NodeId) -> Option<GroupKey> {
    if view.disk != DiskState::StaysFull {
        return None;
    }
    view.own_groups().find(|GroupKey { filter, group }| {
        view.map.filters.get(filter).is_some_and(|record| {
            record.policies.durability.keeps_journal()
                && !view.map.is_gone_from(record, *group, node)
                && view.map.can_spare(record, *group, node)
        })
    })
}
