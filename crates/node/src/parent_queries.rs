//! Sends the queries of this node's slice groups to other levels of a filter tree. Such a query is a level query.
//!
//! # Guarantees
//! - The queries of a group leave in order.
//! - Every query receives a reply by its deadline.
//! - If slices of the other level are unreachable, or become unreachable during the query, the query is answered at
//!   once.
//! - Every reply states what this node could reach. A slice group that may decide events while it is cut off can
//!   therefore tell a parent level that is unreachable from one that was asked and cannot decide.
//!
//! This module does not depend on the reason for a query or on how it is routed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_client::Levels;
use firstseen_routing::{FilterId, LevelContact, LevelQuery, LevelReply, Operation, Reason};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::group_key::GroupKey;
use crate::metrics::{LevelQueryMeter, Metrics};
use crate::owner::{Owners, Work};
use crate::view::{View, Views};

/// Maximum number of queries of all groups that wait to be sent. The groups themselves limit the queries in progress.
pub(crate) const CLIMBS_WAITING_MAX: usize = 4096;

/// The task that sends the queries of this node's groups.
pub(crate) struct ParentQueries {
    pub(crate) levels: Arc<Levels>,
    pub(crate) owners: Arc<Owners>,
    pub(crate) views: Views,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the node stops sending queries.
    pub(crate) stopping: CancellationToken,
}

impl ParentQueries {
    /// Sends queries until the node stops.
    pub(crate) async fn run(self, mut climbs: mpsc::Receiver<LevelQuery>) {
        let uplink = Arc::new(self);
        let mut meters = BTreeMap::new();
        while let Some(climb) = climbs.recv().await {
            // Verifications in lower levels, and events that are sent to the parent later, are counted elsewhere.
            let is_counted = matches!(climb.operation, Operation::Observe | Operation::Lookup);
            let meter = is_counted.then(|| uplink.meter(&mut meters, climb.from.filter));
            let climbing = uplink.clone().begin(climb, meter);
            tokio::spawn(uplink.stopping.clone().run_until_cancelled_owned(climbing));
        }
    }

    /// Returns the meter of a filter, which is kept for its next query.
    fn meter(&self, meters: &mut BTreeMap<FilterId, LevelQueryMeter>, filter: FilterId) -> LevelQueryMeter {
        if let Some(meter) = meters.get(&filter) {
            return meter.clone();
        }
        let view = self.views.newest();
        meters.retain(|known, _| view.map.filters.contains_key(known));
        let name = view.map.filters.get(&filter).map_or("", |filter| &filter.name);
        meters.entry(filter).or_insert_with(|| self.metrics.climbs(name)).clone()
    }

    /// Starts a query after the queries before it. The returned future passes the reply to the slice group.
    fn begin(self: Arc<Self>, climb: LevelQuery, meter: Option<LevelQueryMeter>) -> impl Future<Output = ()> {
        let key = GroupKey { filter: climb.from.filter, group: climb.group };
        let asked = GroupKey { filter: climb.to, ..key };
        let lost = climb.unreachable(Reason::Unknown);
        let begun_us = self.clock.monotonic_us();
        let climbing = if is_out_of_reach(&self.views.newest(), asked) {
            Err(climb.unreachable(Reason::SlicesDown))
        } else {
            let left_ms = climb.deadline_ms.since(self.clock.monotonic_ms());
            meter.iter().for_each(|meter| meter.sent(climb.probes.len()));
            Ok(self.levels.climb(climb, Duration::from_millis(left_ms)))
        };
        async move {
            let climbed = match climbing {
                Ok(climbing) => {
                    let mut views = self.views.clone();
                    let climbed = tokio::select! {
                        biased;
                        climbed = climbing => LevelReply { contact: contact(&self.views.newest(), asked), ..climbed },
                        _ = views.wait_for(|view| is_out_of_reach(view, asked)) => lost,
                    };
                    let elapsed_us = self.clock.monotonic_us().saturating_sub(begun_us);
                    meter.iter().for_each(|meter| meter.answered(elapsed_us));
                    climbed
                }
                Err(climbed) => climbed,
            };
            meter.iter().for_each(|meter| meter.decided(&climbed));
            self.owners.of(key).hand(Work::LevelReply { key, climbed }).await;
        }
    }
}

/// Returns what this node can reach of another tree level, and of the cluster.
fn contact(view: &View, asked: GroupKey) -> LevelContact {
    if is_out_of_reach(view, asked) {
        LevelContact::Unreachable
    } else if !reaches_majority(view) {
        LevelContact::WithoutMajority
    } else {
        LevelContact::Reached
    }
}

/// Returns whether this node reaches a majority of the cluster's voters. Otherwise it cannot renew its lease.
fn reaches_majority(view: &View) -> bool {
    let voters = view.map.nodes.iter().filter(|(_, record)| record.voter).map(|(node, _)| node);
    let reached = voters.clone().filter(|voter| !view.unreachable.contains(voter));
    reached.count() * 2 > voters.count()
}

/// Returns whether it would be useless to query a slice group of another tree level at the moment. This is the case if
/// one of the nodes with slices of the group is unreachable, or if all nodes with slices of the group have failed for
/// good.
fn is_out_of_reach(view: &View, GroupKey { filter, group }: GroupKey) -> bool {
    let Some(record) = view.map.filters.get(&filter) else { return false };
    let mut serves_any = false;
    for owner in record.definition.slicing.slices_of(group).flat_map(|slice| record.copies_of(slice)) {
        if view.map.is_gone(owner) {
            continue;
        }
        if view.unreachable.contains(&owner.node) {
            return true;
        }
        serves_any = true;
    }
    !serves_any
}
