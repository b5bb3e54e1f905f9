//! Reports to the consensus group which slice groups this node should hold but cannot, so that the other nodes continue
//! without these groups.
//!
//! A disk that stays full is a special case, because the node still holds its slice groups. Every event of these groups
//! would have to wait for the disk, so it is better if other nodes decide the events. That is possible only if other
//! nodes have complete copies of the slices. The node therefore reports a group only if such copies exist.
//!
//! Each report names the incarnation of this node, a number that changes with every start. A report from before a
//! restart is therefore ignored.

use firstseen_meta::{Change, Identity, MetaError};
use firstseen_routing::NodeId;

use super::report::{RETRY_PAUSE, Report, RoundStep, Wait};
use crate::group_key::GroupKey;
use crate::journal_writer::DiskState;
use crate::view::{Me, View};

/// The report of slice groups that this node cannot hold.
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
        Some(if error.is_none() { Wait::View } else { Wait::For(RETRY_PAUSE) })
    }
}

/// Returns a slice group that this node cannot hold, if the cluster map does not list it as missing yet.
fn unreported(view: &View, node: NodeId) -> Option<GroupKey> {
    view.faults.iter().map(|fault| fault.key).find(|GroupKey { filter, group }| {
        let record = view.map.filters.get(filter);
        record.is_some_and(|record| record.is_on(node) && !view.map.is_gone_from(record, *group, node))
    })
}

/// Returns a slice group whose journal is on a disk that stays full, if other nodes have complete copies of it.
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
