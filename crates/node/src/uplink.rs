//! Climbs (questions to the level above) of this node's groups, on their way.
//!
//! Promises: climbs of a group leave in order; every climb is answered by its deadline; a climb to a level with slices
//! out of reach is answered at once, also where these go out of reach while it is on its way. Must not know: what
//! climbs, how it is routed there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::Climbed;
use firstseen_routing::{Climb, Decision, FilterId, Operation, Reason, SliceOwner};
use tokio::sync::mpsc;

use crate::group_key::GroupKey;
use crate::metrics::ClimbMeter;
use crate::owner::Work;
use crate::shared::Shared;
use crate::view::View;

/// Climbs of all groups that may wait to be taken up; the groups bound those under way.
pub(crate) const CLIMBS_WAITING_MAX: usize = 4096;

/// Takes climbs up until the node stops.
pub(crate) async fn bring_up(shared: Arc<Shared>, mut climbs: mpsc::Receiver<Climb>) {
    let mut meters = BTreeMap::new();
    while let Some(climb) = climbs.recv().await {
        // Checks in the levels below, and events that climb later, are counted elsewhere.
        let is_counted = matches!(climb.operation, Operation::Observe | Operation::Lookup);
        let meter = is_counted.then(|| meter(&mut meters, &shared, climb.from.filter));
        let climbing = begin(shared.clone(), climb, meter);
        tokio::spawn(shared.departure.stopping.clone().run_until_cancelled_owned(climbing));
    }
}

/// The meter of a filter, kept for its next climb.
fn meter(meters: &mut BTreeMap<FilterId, ClimbMeter>, shared: &Shared, filter: FilterId) -> ClimbMeter {
    if let Some(meter) = meters.get(&filter) {
        return meter.clone();
    }
    let view = shared.view();
    meters.retain(|known, _| view.map.filters.contains_key(known));
    let name = view.map.filters.get(&filter).map_or("", |filter| &filter.name);
    meters.entry(filter).or_insert_with(|| shared.metrics.climbs(name)).clone()
}

/// Sends a climb on its way, behind those before it; the future hands its answer to the group.
fn begin(shared: Arc<Shared>, climb: Climb, meter: Option<ClimbMeter>) -> impl Future<Output = ()> {
    let key = GroupKey { filter: climb.from.filter, group: climb.group };
    let target = AskedLevel(GroupKey { filter: climb.to, ..key });
    let lost = undecided(&climb, Reason::Unknown);
    let begun_us = shared.clock.monotonic_us();
    let climbing = if target.is_out_of_reach(&shared.view()) {
        Err(undecided(&climb, Reason::SlicesDown))
    } else {
        let left_ms = climb.deadline_ms.since(shared.clock.monotonic_ms());
        meter.iter().for_each(|meter| meter.sent(climb.probes.len()));
        Ok(shared.levels.climb(climb, Duration::from_millis(left_ms)))
    };
    async move {
        let climbed = match climbing {
            Ok(climbing) => {
                let mut views = shared.views.clone();
                let climbed = tokio::select! {
                    biased;
                    climbed = climbing => climbed,
                    _ = views.wait_for(|view| target.is_out_of_reach(view)) => lost,
                };
                let elapsed_us = shared.clock.monotonic_us().saturating_sub(begun_us);
                meter.iter().for_each(|meter| meter.answered(elapsed_us));
                climbed
            }
            Err(climbed) => climbed,
        };
        meter.iter().for_each(|meter| meter.decided(&climbed));
        shared.owners.of(key).hand(Work::Climbed { key, climbed }).await;
    }
}

/// The group of the level that is asked.
#[derive(Clone, Copy)]
struct AskedLevel(GroupKey);

impl AskedLevel {
    /// Whether the level cannot answer: a node that serves slices of it is out of reach, or no node serves any.
    fn is_out_of_reach(self, view: &View) -> bool {
        let Some(record) = view.map.filters.get(&self.0.filter) else { return false };
        let slices = || record.definition.slicing.slices_of(self.0.group);
        let stalls = |owner: &SliceOwner| view.unreachable.contains(&owner.node) && !view.map.is_gone(owner);
        let is_gone = |owner: &SliceOwner| stalls(owner) || view.map.is_gone(owner);
        slices().flat_map(|slice| record.copies_of(slice)).any(stalls)
            || slices().all(|slice| record.copies_of(slice).all(is_gone))
    }
}

/// The answer to a climb that was not made.
pub(crate) fn undecided(climb: &Climb, reason: Reason) -> Climbed {
    let decisions = vec![Decision::Undecided(reason); climb.probes.len()];
    Climbed { number: climb.number, decisions, ..Climbed::default() }
}
