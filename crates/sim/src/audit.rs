//! At the end, when there are no more faults, an auditor at each site asks about every event.
//!
//! Promises: the lookups change nothing, and are in the history like every other call. Must not know: the verdicts that
//! producers got.

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

/// An event whose lookup is undecided is looked up again so often.
const TRIES_MAX: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);
const DEADLINE_MS: u64 = 3_000;

/// The producer number of the auditor at `site`: the numbers after those of the producers.
fn auditor(scenario: &Scenario, site: usize) -> u32 {
    let sites = scenario.nodes as u32;
    scenario.producers.next_multiple_of(sites) + site as u32
}

/// Looks up all events at `site`, all at once.
pub async fn audit(
    site: usize,
    scenario: Scenario,
    connector: SimConnector,
    history: SharedHistory,
) -> turmoil::Result {
    let number = auditor(&scenario, site);
    let scenario = Scenario { deadline_ms: DEADLINE_MS, ..scenario };
    let (_client, filter) = connect(number, 0, &scenario, &connector).await.map_err(|error| error.to_string())?;
    let ask = |event| look_up(number, event, &scenario, &filter, &history);
    try_join_all((0..scenario.events).map(ask)).await?;
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
        let (began_us, time_ms) = (now_us(), EPOCH_MS + now_us() / 1000);
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

/// Events and sites whose lookups in `history` all ended undecided.
pub fn unanswered(scenario: &Scenario, history: &History) -> Vec<(u64, usize)> {
    let all = (0..scenario.events).flat_map(|event| (0..scenario.nodes).map(move |site| (event, site)));
    let is_answered = |(event, site): &(u64, usize)| {
        let number = auditor(scenario, *site);
        let mut lookups = history.calls.iter().filter(|call| call.producer == number && call.event == *event);
        // An event with too few slices left stays undecided until the window is over.
        let too_few_left = |verdict: Decision| {
            history.promises.never_forgets
                && !history.losses.is_empty()
                && verdict == Decision::Undecided(Reason::SlicesDown)
        };
        lookups.any(|call| {
            call.verdict.is_some_and(|verdict| !matches!(verdict, Decision::Undecided(_)) || too_few_left(verdict))
        })
    };
    all.filter(|asked| !is_answered(asked)).collect()
}
