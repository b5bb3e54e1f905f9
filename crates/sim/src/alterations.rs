//! Simulates an operator who alters the filter while producers continue to send events. An alteration replaces the
//! filter with a new one that has other properties, for example a different window. The scenario determines these
//! properties. The seed determines the time of the alteration.

use std::time::Duration;

use firstseen_routing::{FilterId, SlicedDefinition};
use firstseen_wire::map::definition_json;
use firstseen_wire::net::{Connector, admin_client};
use firstseen_wire::proto::admin::AlterFilterRequest;

use crate::alteration::Alteration;
use crate::clock::now_us;
use crate::cluster::{self, FILTER, node_address};
use crate::faults::{Fault, Fired};
use crate::net::SimConnector;
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;

/// Seed of the random numbers for the moment, which are independent of the other random numbers of a run.
const OF_TIMES: u64 = 0xA1_7E2D;
/// Maximum time that one node may take to reply.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Maximum time for which nodes may be away in a storm and just after it.
const ENDS_MAX: Duration = Duration::from_secs(90);
/// Pause between two tries, and between two checks.
const PAUSE: Duration = Duration::from_millis(300);

/// The times of an alteration, in simulated microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Altered {
    /// The predecessor.
    pub(crate) former: FilterId,
    /// The new filter has recorded no event before this time.
    pub(crate) begun_us: u64,
    /// The predecessor records no event after this time.
    pub(crate) ended_us: u64,
    /// Time at which the alteration was seen. `u64::MAX` if it was not seen: it may still happen, because a missing
    /// reply says nothing.
    pub(crate) seen_us: u64,
}

/// Returns the definition of the new filter.
pub(crate) fn definition(
    scenario: &Scenario,
    Alteration { kind, slicing, capacity_events, window_ms, .. }: Alteration,
) -> Result<SlicedDefinition, Box<dyn std::error::Error>> {
    let scenario = &Scenario { window_ms: window_ms.unwrap_or(scenario.window_ms), ..scenario.clone() };
    cluster::define(scenario, (kind.unwrap_or(scenario.kind), slicing), capacity_events)
}

/// Returns the secret material of a filter, given the first filter in `altered`.
pub(crate) fn secret(scenario: &Scenario, filter: FilterId, altered: Option<&Altered>) -> Vec<u8> {
    secret_of(scenario, altered.is_some_and(|altered| altered.former != filter))
}

/// Returns the secret material of the first filter, or of a filter that replaces another one.
pub(crate) fn secret_of(scenario: &Scenario, follows: bool) -> Vec<u8> {
    match scenario.alteration.filter(|alteration| follows && alteration.has_new_secret) {
        Some(_) => (!scenario.seed).to_le_bytes().repeat(4),
        None => cluster::secret(scenario),
    }
}

/// Alters the filter after a random delay, if the scenario contains an alteration. The request is repeated until a
/// cluster map shows the alteration, or until `until_us`. The alteration may still be in progress when this function
/// returns.
///
/// Returns the old filter and the time at which the first request was sent. The old filter is returned even if no map
/// has shown the alteration before `until_us`, because the filter may have been altered nevertheless.
pub(crate) async fn begin(
    scenario: &Scenario,
    connector: &SimConnector,
    fired: &Fired,
    until_us: u64,
) -> turmoil::Result<Option<Altered>> {
    let Some(alteration) = scenario.alteration else { return Ok(None) };
    let mut rng = SeededRng::new(scenario.seed ^ OF_TIMES);
    tokio::time::sleep(Duration::from_millis(500 + rng.below(6_000))).await;
    let map = cluster::map_now(connector, scenario.nodes).await?;
    let (former, _) = map.filter_named(FILTER).ok_or("no filter")?;
    let begun_us = now_us();
    while now_us() < until_us {
        ask(scenario, alteration, former, connector, &mut rng).await;
        // The map shows whether the filter was altered, whatever the reply was or if it is missing.
        let map = cluster::map_now(connector, scenario.nodes).await?;
        if map.filter_named(FILTER).is_some_and(|(filter, _)| filter != former) {
            fired.note(Fault::Alteration, None);
            return Ok(Some(Altered { former, begun_us, ended_us: u64::MAX, seen_us: now_us() }));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Some(Altered { former, begun_us, ended_us: u64::MAX, seen_us: u64::MAX }))
}

/// Waits until no event is in flight in the predecessor, or until the maximum time has passed.
pub(crate) async fn end(altered: &mut Altered, scenario: &Scenario, connector: &SimConnector) -> turmoil::Result {
    let end = tokio::time::Instant::now() + ENDS_MAX;
    if altered.seen_us == u64::MAX {
        return Ok(());
    }
    while tokio::time::Instant::now() < end {
        let map = cluster::map_now(connector, scenario.nodes).await?;
        let closed = map.filters.get(&altered.former).and_then(|former| former.line.closed.as_ref());
        if closed.is_none_or(|closed| closed.has_ended()) {
            altered.ended_us = now_us();
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Asks a node to alter the filter. If the node rejects the alteration, it is skipped.
async fn ask(
    scenario: &Scenario,
    alteration: Alteration,
    former: FilterId,
    connector: &SimConnector,
    rng: &mut SeededRng,
) {
    let asked = rng.below(scenario.nodes as u64) as usize;
    let Ok(channel) = connector.channel(&node_address(asked), None) else { return };
    let Ok(definition) = definition(scenario, alteration) else { return };
    let secret = if alteration.has_new_secret { (!scenario.seed).to_le_bytes().repeat(4) } else { Vec::new() };
    let request = AlterFilterRequest {
        command_id: u128::from(rng.below(u64::MAX)).to_le_bytes().to_vec().into(),
        name: FILTER.to_owned(),
        filter_id: former.0,
        definition_json: definition_json(&definition),
        new_secret: alteration.has_new_secret,
        secret: secret.into(),
        plan: false,
        forgets: alteration.forgets,
    };
    let _ = tokio::time::timeout(ANSWER_MAX, admin_client(channel).alter_filter(request)).await;
}
