//! Checks the cells of a filter tree at the end of a run, when faults no longer occur. If an event was delivered at a
//! site, every level above that site must have the cells of the event.
//!
//! The check sends a lookup to each level separately, and the level must reply from its own cells only. Normally, a
//! level that lacks an event asks its parent level. In this check, the level replies instead that it would have to ask,
//! and the check counts the event as missing.
//!
//! A leaf that cannot reach its parent level may call an event first-seen on its own, and reports the event to the
//! levels above later. The check therefore waits before it counts the cells of an event as missing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use firstseen_client::Levels;
use firstseen_filter::{FilterSecret, Probes, Unit, UnitNumber};
use firstseen_routing::{ClusterMap, Decision, FilterId, FromLevel, LevelQuery, MonotonicMs, Operation, Times};
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::clock::{EPOCH_MS, now_us};
use crate::cluster::{self, FILTER, node_name, secret};
use crate::net::SimConnector;
use crate::scenario::Scenario;
use crate::shared_history::{SharedHistory, lock};
use firstseen_checker::history::{Call, History, Unset};

/// Time after which cells that are not there count as missing.
const SETTLING_MAX: Duration = Duration::from_secs(60);
/// Number of consecutive checks that must find all cells. A single check is not enough, because a level counts a cell
/// as set while the message that sets the cell is still in transit. All checks together take longer than any message,
/// so at the time of the last check, the messages have arrived and the cells are really set.
const LOOKS: u32 = 12;
/// Pause between two checks.
const PAUSE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(3);

/// A level above a site, or the site's leaf.
struct PathLevel {
    filter: FilterId,
    /// Nodes with cells of the level. The cells are lost if such a node ends, unless they are in a journal.
    nodes: Vec<usize>,
    keeps_journal: bool,
}

/// A delivery (a first-seen event) whose cells are checked.
struct Sought {
    call: Call,
    group: u32,
    probes: Probes,
}

/// Looks for the cells of every delivery at each level from its leaf to the root, and records missing cells.
///
/// Each check uses the present cluster map. A copy that becomes complete raises the epoch of its filter, and nodes refuse
/// lookups with an earlier epoch.
pub async fn look(scenario: &Scenario, connector: &SimConnector, history: &SharedHistory) -> turmoil::Result {
    let levels = Levels::new(Arc::new(connector.clone()), u128::from(scenario.seed) << 64 | u128::from(u32::MAX));
    let end = Instant::now() + SETTLING_MAX;
    let mut looks = 0;
    let missing = loop {
        let map = cluster::map_now(connector, scenario.nodes).await?;
        levels.follow(&map);
        let paths: Vec<Vec<PathLevel>> = (0..scenario.nodes).map(|site| path(site, scenario, &map)).collect();
        let all = lock(history).clone();
        let asked = wanted(scenario, &map, &paths, &all)?;
        let missing = join_all(asked.into_iter().map(|(filter, sought)| ask(&map, &levels, filter, sought))).await;
        let missing = missing.concat();
        looks = if missing.is_empty() { looks + 1 } else { 0 };
        if looks == LOOKS || Instant::now() > end {
            break missing;
        }
        tokio::time::sleep(PAUSE).await;
    };
    let mut history = lock(history);
    history.unset = missing;
    history.settled_us = now_us();
    Ok(())
}

/// Returns the levels that must know deliveries at a site, from its leaf up.
fn path(site: usize, scenario: &Scenario, map: &ClusterMap) -> Vec<PathLevel> {
    let leaf = map.filter_named(&format!("{FILTER}@{}", crate::tree::site_name(site))).map(|(id, _)| id);
    let ids = std::iter::successors(leaf, |id| map.filters.get(id)?.branch.as_ref()?.parent);
    ids.map(|filter| {
        let nodes = (0..scenario.nodes).filter(|node| has_slices(map, filter, *node)).collect();
        let keeps_journal = map.filters.get(&filter).is_some_and(|it| it.policies.durability.keeps_journal());
        PathLevel { filter, nodes, keeps_journal }
    })
    .collect()
}

fn has_slices(map: &ClusterMap, filter: FilterId, node: usize) -> bool {
    let record = map.filters.get(&filter);
    record.zip(map.node_named(&node_name(node))).is_some_and(|(record, (number, _))| record.is_on(number))
}

/// Returns the deliveries whose cells each level must have now.
fn wanted(
    scenario: &Scenario,
    map: &ClusterMap,
    paths: &[Vec<PathLevel>],
    history: &History,
) -> turmoil::Result<BTreeMap<FilterId, Vec<Sought>>> {
    let (_, record) = map.filter_named(FILTER).ok_or("no filter")?;
    let prober = map.prober(record)?;
    let secret = FilterSecret::from_material(&secret(scenario));
    let now_ms = EPOCH_MS + now_us() / 1000;
    let mut wanted: BTreeMap<FilterId, Vec<Sought>> = BTreeMap::new();
    let delivered = history.calls.iter().filter(|call| call.won());
    for call in delivered.filter(|call| now_ms - call.time_ms < history.promises.window_ms) {
        let digest = secret.digest(&call.event.to_le_bytes());
        let path = call.site.and_then(|site| paths.get(site)).map_or(&[][..], Vec::as_slice);
        for (steps, level) in path.iter().enumerate() {
            // An event that was claimed is recorded at the root only.
            if call.is_confirm && steps + 1 < path.len() {
                continue;
            }
            // In a durable tree, levels without a journal are caches.
            if scenario.is_lasting_tree() && !level.keeps_journal {
                continue;
            }
            // A leaf that answers alone may lose its node before it has reported the event to the levels above.
            let carriers = if call.degraded { &path[..=steps] } else { &path[steps..=steps] };
            if carriers.iter().any(|carrier| !carrier.keeps_journal && history.has_lost(call, &carrier.nodes)) {
                continue;
            }
            // An event of a leaf that answered alone reaches the parent level when that level has enough slices for a
            // verdict, which may take a window.
            let may_wait = call.degraded && steps > 0 && history.promises.never_forgets && !level.keeps_journal;
            if may_wait && history.losses.iter().any(|loss| level.nodes.contains(&loss.node)) {
                continue;
            }
            let mut probes = Probes::new(prober.shape());
            prober.push(digest, &mut probes);
            let sought = Sought { call: call.clone(), group: prober.group(digest), probes };
            wanted.entry(level.filter).or_default().push(sought);
        }
    }
    Ok(wanted)
}

/// Returns the deliveries among these whose cells the level lacks.
async fn ask(map: &ClusterMap, levels: &Levels, filter: FilterId, sought: Vec<Sought>) -> Vec<Unset> {
    let Some(record) = map.filters.get(&filter) else { return Vec::new() };
    let clock_ms = EPOCH_MS + now_us() / 1000;
    let base_unit = match record.definition.group.unit {
        Unit::Milliseconds(unit_ms) => UnitNumber(clock_ms / unit_ms),
        _ => UnitNumber::FIRST,
    };
    let place = record.branch.as_ref().map_or_else(String::new, |branch| branch.place.clone());
    let asked = sought.into_iter().map(|Sought { call, group, probes }| {
        let climb = LevelQuery {
            number: 0,
            from: FromLevel { filter, complete: true },
            group,
            to: filter,
            operation: Operation::Verify,
            probes,
            times: Times { base_unit, clock_ms: Some(clock_ms), ..Times::default() },
            deadline_ms: MonotonicMs::END,
            again: false,
            traceparent: None,
        };
        let climbing = levels.climb(climb, PATIENCE);
        let place = place.clone();
        async move {
            let answer = climbing.await;
            (answer.decisions != [Decision::Duplicate]).then_some(Unset { call: call.id, place })
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}
