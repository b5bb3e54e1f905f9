//! Climbs of this node's groups on their way to the level above.
//!
//! Promises: every climb is answered, by its deadline; one whose level has slices out of reach at once. Must not know:
//! what climbs, how it is routed there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_routing::divided::Climbed;
use firstseen_routing::{Climb, Decision, FilterId, Reason};
use tokio::sync::mpsc;

use crate::metrics::ClimbMeter;
use crate::owner::Work;
use crate::shared::Shared;
use crate::view::View;

/// Climbs of all groups that may wait to be taken up; the groups bound what is under way.
pub(crate) const CLIMBS_WAITING_MAX: usize = 4096;

/// Takes climbs up until the node stops.
pub(crate) async fn bring_up(shared: Arc<Shared>, mut climbs: mpsc::Receiver<Climb>) {
    let mut meters = BTreeMap::new();
    while let Some(climb) = climbs.recv().await {
        let meter = meter(&mut meters, &shared, climb.from.filter);
        tokio::spawn(shared.stopping.clone().run_until_cancelled_owned(climb_once(shared.clone(), climb, meter)));
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

async fn climb_once(shared: Arc<Shared>, climb: Climb, meter: ClimbMeter) {
    let (filter, group) = (climb.from.filter, climb.group);
    let left_ms = climb.deadline_ms.saturating_sub(shared.clock.monotonic_ms());
    let climbed = match is_out_of_reach(&shared.view(), &climb) {
        true => undecided(&climb, Reason::SlicesDown),
        false => {
            let begun_us = shared.clock.monotonic_us();
            meter.sent(climb.probes.len());
            let climbed = shared.levels.climb(climb, Duration::from_millis(left_ms)).await;
            meter.answered(shared.clock.monotonic_us().saturating_sub(begun_us));
            climbed
        }
    };
    meter.told(&climbed);
    shared.owners.of(filter, group).hand(Work::Climbed { filter, group, climbed }).await;
}

/// Whether a node that owns slices of the group above is out of reach.
fn is_out_of_reach(view: &View, climb: &Climb) -> bool {
    let Some(parent) = view.map.filters.get(&climb.to) else { return false };
    let per_group = parent.definition.slicing.slices_per_group().max(1) as usize;
    let owners = parent.owners.chunks(per_group).nth(climb.group as usize).unwrap_or_default();
    owners.iter().any(|owner| view.unreachable.contains(&owner.node))
}

/// The answer to a climb that was not made.
pub(crate) fn undecided(climb: &Climb, reason: Reason) -> Climbed {
    let decisions = vec![Decision::Undecided(reason); climb.probes.len()];
    Climbed { number: climb.number, decisions, ..Climbed::default() }
}
