//! Reports to the consensus group how far this node has come in retiring closed filters. A filter is closed when an
//! altered filter has replaced it under the same name. The cluster can drop a closed filter only when no node needs it
//! any more, so each node makes two reports about it:
//!
//! - The first report says that the node has no more events of the filter in flight.
//! - The second report says that the node no longer needs the filter at all.
//!
//! The node makes the second report when all events of the closed filter have expired by its clock, and when the retry
//! horizon has passed after that. The retry horizon is the time within which a producer may send a batch again and must
//! receive the same reply. The node needs the closed filter for these replies, because its replay guard stores them.
//!
//! Each report names the incarnation of the node, a number that changes with every start. A report from before a
//! restart is therefore ignored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_filter::UnitNumber;
use firstseen_meta::{Change, MetaError};
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{Closed, Ending, FilterId, FilterRecord, MonotonicMs};

use super::report::{RETRY_PAUSE, Report, RoundStep, Wait};
use crate::clock::Clock;
use crate::owner::Owners;
use crate::view::{Me, View};

/// Interval between two checks whether the events of a closed filter have expired.
const LOOK: Duration = Duration::from_millis(500);

/// Progress of the closed filters, and of the current round of checks.
pub(crate) struct Closing {
    owners: Arc<Owners>,
    clock: Arc<dyn Clock>,
    rules: Rules,
    /// Time since when all events of a filter have expired on this node, in monotonic milliseconds.
    expired_since: BTreeMap<FilterId, MonotonicMs>,
    /// The filter that this round has checked last.
    looked_at: Option<FilterId>,
    /// Time until the next round, according to the filters that this round has checked.
    wait: Option<Duration>,
}

impl Closing {
    /// Creates the state before the first check.
    pub(crate) fn new(owners: Arc<Owners>, clock: Arc<dyn Clock>, rules: Rules) -> Self {
        Self { owners, clock, rules, expired_since: BTreeMap::new(), looked_at: None, wait: None }
    }

    /// Returns how far this node has come in retiring the slice groups of a closed filter. If this node has no slice of
    /// the filter, there are no events that it must wait for, and the result is `Some(None)`.
    ///
    /// Returns `None` if the cluster map assigns slices of the filter to this node, but the node does not know their
    /// state, for example because it has lost them. The node then cannot tell whether events are still in flight, so it
    /// makes no report.
    async fn progress(&self, view: &View, filter: FilterId) -> Option<Option<Ending>> {
        let is_here =
            view.node().is_some_and(|node| view.map.filters.get(&filter).is_some_and(|record| record.is_on(node)));
        let ending = self.owners.ending(filter).await;
        // If only the disk is the reason for a fault, the group is still in memory and its pending replies have been
        // sent. It can therefore report its progress.
        let is_lost = view.faults.iter().any(|fault| fault.key.filter == filter && !fault.is_of_disk);
        let is_known = !is_lost && (ending.is_some() || !is_here);
        is_known.then_some(ending)
    }

    async fn ended(&self, view: &View, filter: FilterId) -> Option<Change> {
        let Me { identity, incarnation } = view.me?;
        let ending = self.progress(view, filter).await?;
        let newest_unit = ending.map_or(UnitNumber::FIRST, |ending| ending.newest_unit);
        let has_ended = ending.is_none_or(|ending| ending.has_ended);
        has_ended.then_some(Change::FilterEnded { filter, node: identity.node, incarnation, newest_unit })
    }

    async fn passed(&mut self, view: &View, filter: FilterId, record: &FilterRecord) -> Option<Change> {
        let Me { identity, incarnation } = view.me?;
        let passes_at_unit = record.passes_at_unit()?;
        let ending = self.progress(view, filter).await?;
        let keeps = self.rules.keep(Rule::RetainsPredecessors);
        if keeps && ending.and_then(|ending| ending.present_unit).is_some_and(|unit| unit < passes_at_unit) {
            self.expired_since.remove(&filter);
            return None;
        }
        let now_ms = self.clock.monotonic_ms();
        let since_ms = *self.expired_since.entry(filter).or_insert(now_ms);
        let is_over = !keeps || now_ms.since(since_ms) >= u64::from(record.policies.retry_horizon_ms);
        is_over.then_some(Change::FilterPassed { filter, node: identity.node, incarnation })
    }
}

impl Report for Closing {
    async fn next(&mut self, view: &View) -> RoundStep {
        if self.looked_at.is_none() {
            self.expired_since.retain(|filter, _| view.map.filters.contains_key(filter));
        }
        let looked_at = self.looked_at;
        for (filter, record, closed) in unreported(view).filter(|(filter, ..)| Some(*filter) > looked_at) {
            self.looked_at = Some(filter);
            let is_awaited = view.node().is_some_and(|node| closed.awaited.contains(&node));
            let change =
                if is_awaited { self.ended(view, filter).await } else { self.passed(view, filter, record).await };
            self.wait = Some(if is_awaited { RETRY_PAUSE } else { self.wait.unwrap_or(LOOK) });
            if let Some(change) = change {
                return RoundStep::Propose(Box::new(change));
            }
        }
        self.looked_at = None;
        RoundStep::Rest(self.wait.take().map_or(Wait::View, Wait::ViewFor))
    }

    fn proposed(&mut self, _: &Change, _: Option<&MetaError>) -> Option<Wait> {
        None
    }
}

/// Returns the filters for which the cluster map lacks a report of this node.
fn unreported(view: &View) -> impl Iterator<Item = (FilterId, &FilterRecord, &Closed)> {
    let node = view.node();
    let closed = view.map.filters.iter().filter_map(|(id, record)| Some((*id, record, record.line.closed.as_ref()?)));
    closed.filter(move |(_, record, closed)| {
        node.is_some_and(|node| {
            let may_have_passed = record.is_on(node) && closed.has_ended() && !closed.passed.contains(&node);
            closed.awaited.contains(&node) || may_have_passed
        })
    })
}
