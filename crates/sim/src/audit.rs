//! The audit at the end of a run, when faults no longer occur. At each site, an auditor looks up every event that was
//! submitted during the run. The lookups do not change any filter. The history contains them like all other calls, so
//! the checker verifies their verdicts too.

use std::time::Duration;

use firstseen_client::{Event, Filter};
use firstseen_routing::{Decision, Reason};
use futures_util::future::try_join_all;

use crate::clock::{EPOCH_MS, now_us};
use crate::net::SimConnector;
use crate::producers::connect;
use crate::scenario::Scenario;
use crate::shared_history::{SharedHistory, lock};
use firstseen_checker::history::{Call, History};

/// Maximum number of times that an undecided lookup is repeated.
const TRIES_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);
const DEADLINE_MS: u64 = 3_000;

/// Returns the producer number of the auditor at `site`. Auditors have the numbers after those of the producers.
fn auditor(scenario: &Scenario, site: usize) -> u32 {
    let sites = scenario.nodes as u32;
    scenario.producers.next_multiple_of(sites) + site as u32
}

/// Looks up all events at `site` concurrently.
pub async fn audit(
    site: usize,
    scenario: Scenario,
    connector: SimConnector,
    history: SharedHistory,
) -> turmoil::Result {
    let number = auditor(&scenario, site);
    let scenario = Scenario { deadline_ms: DEADLINE_MS, ..scenario };
    let (_client, filter) = connect(number, 0, &scenario, &connector).await.map_err(|error| error.to_string())?;
    try_join_all((0..scenario.events).map(|event| look_up(number, event, &scenario, &filter, &history))).await?;
    lock(&history).degraded_events += filter.status().degraded.events;
    Ok(())
}

async fn look_up(
    number: u32,
    event: u64,
    scenario: &Scenario,
    filter: &Filter,
    history: &SharedHistory,
) -> turmoil::Result {
    for _ in 0..TRIES_MAX {
        let began_us = now_us();
        let time_ms = EPOCH_MS + began_us / 1000;
        let call =
            Call { site: scenario.site(number), is_lookup: true, ..Call::begun(number, event, time_ms, began_us) };
        let id = lock(history).begin(call);
        let verdict = filter.test(Event::from(&event.to_le_bytes()).at(time_ms)).await?;
        lock(history).end(id, now_us(), verdict, false);
        if !matches!(verdict, Decision::Undecided(_)) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Returns the events and sites whose lookups in `history` all ended undecided.
pub fn unanswered(scenario: &Scenario, history: &History) -> Vec<(u64, usize)> {
    let all = (0..scenario.events).flat_map(|event| (0..scenario.nodes).map(move |site| (event, site)));
    all.filter(|(event, site)| !is_answered(history, *event, auditor(scenario, *site))).collect()
}

/// Returns whether a lookup of an auditor had a verdict, or could not have one.
fn is_answered(history: &History, event: u64, auditor: u32) -> bool {
    // An event with too few remaining slices stays undecided until its window has ended.
    let may_lack_slices = history.promises.never_forgets && !history.losses.is_empty();
    let mut lookups = history.calls.iter().filter(|call| call.producer == auditor && call.event == event);
    lookups.any(|call| match call.verdict {
        None => false,
        Some(Decision::Undecided(Reason::SlicesDown)) => may_lack_slices,
        Some(Decision::Undecided(_)) => false,
        Some(_) => true,
    })
}
