//! Producers that submit the same few events concurrently and record their verdicts. Every call is in the history
//! before it is made.

mod consume;
mod entries;

use std::sync::Arc;
use std::time::Duration;

use firstseen_client::{Client, ConnectOptions, Event, Filter, SubmissionName};
use firstseen_routing::{Decision, Reason};

use crate::clock::{EPOCH_MS, now_us};
use crate::cluster::{FILTER, node_address};
use crate::fault_injector::Stage;
use crate::net::SimConnector;
use crate::rights::events_of_draw;
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};
use crate::tree::site_name;
use crate::workload;
use firstseen_checker::history::{Call, History};

/// Number of concurrent calls of one producer.
const AT_ONCE: u32 = 4;
/// One in this many calls is a lookup.
const LOOKUP_EVERY: u64 = 6;
/// If events are claimed, one in this many submissions is an observation.
const OBSERVE_EVERY: u64 = 5;
/// Maximum number of times that an undecided submission is sent again.
const AGAIN_MAX: u32 = 3;

/// How far a wrong clock is ahead: one hundred years in milliseconds.
const AHEAD_MS: u64 = 100 * 365 * 86_400_000;

/// First number of the events of producers with broken times. No other producer shares these events.
const OF_BROKEN: u64 = 1 << 62;
/// Seed of the random numbers of these producers, which are independent of those of other producers.
const DICE_OF_BROKEN: u64 = 0xB40_4E7 << 32;

/// Runs producer `number` to its end.
pub(crate) async fn produce(
    number: u32,
    scenario: Scenario,
    connector: SimConnector,
    history: SharedHistory,
    stage: Stage,
) -> turmoil::Result {
    let (client, filter) = connect(number, 0, &scenario, &connector).await.map_err(|error| error.to_string())?;
    let mut lanes = Vec::new();
    let mut clients = vec![(client, filter)];
    for lane in 0..AT_ONCE {
        let (mut client, mut filter) = clients[0].clone();
        // A verdict can be matched with its degraded mark only if a producer has one call in flight.
        if lane > 0 && (scenario.leaves_answer_alone() || scenario.is_staged()) {
            let own = connect(number, u32::MAX - lane, &scenario, &connector).await;
            (client, filter) = own.map_err(|error| error.to_string())?;
            clients.push((client.clone(), filter.clone()));
        }
        let lane = Lane {
            number,
            lane,
            scenario: scenario.clone(),
            connector: connector.clone(),
            history: history.clone(),
            client,
            filter,
            stage: stage.clone(),
        };
        lanes.push(tokio::spawn(lane.run()));
    }
    let broken = scenario.has_broken_times.then(|| tokio::spawn(broken(number, scenario.clone(), connector.clone())));
    for lane in lanes {
        lane.await??;
    }
    if let Some(broken) = broken {
        broken.abort();
    }
    lock(&history).degraded_events += clients.iter().map(|(_, filter)| filter.status().degraded.events).sum::<u64>();
    Ok(())
}

/// One of a producer's concurrent callers.
struct Lane {
    number: u32,
    lane: u32,
    scenario: Scenario,
    connector: SimConnector,
    history: SharedHistory,
    client: Client,
    filter: Filter,
    stage: Stage,
}

impl Lane {
    async fn run(self) -> Result<(), String> {
        let place = u64::from(self.number * AT_ONCE + self.lane);
        let mut rng = SeededRng::new(self.scenario.seed.wrapping_mul(31).wrapping_add(place));
        for call in 0.. {
            let is_over =
                if self.scenario.is_staged() { self.stage.is_over() } else { call >= self.scenario.calls / AT_ONCE };
            if is_over {
                break;
            }
            tokio::time::sleep(Duration::from_millis(rng.below(self.scenario.pause_max_ms))).await;
            let (event, time_ms) = self.draw(&mut rng);
            let is_lookup = rng.below(LOOKUP_EVERY) == 0;
            let event = self.or_one_that_was_refused(event, is_lookup, &mut rng);
            if let Some(lease_max_ms) = self.scenario.lease_max_ms
                && !is_lookup
                && rng.below(OBSERVE_EVERY) > 0
            {
                self.consume((event, time_ms), lease_max_ms, &mut rng).await?;
                continue;
            }
            // Each caller numbers its submissions separately. With common numbers, the submissions of a slow caller
            // would be older than those that the replay guard remembers of the other callers.
            let name = SubmissionName { source: u128::from(place) + 1, number: u64::from(call) };
            let name = (self.scenario.named && !is_lookup).then_some(name);
            let verdict = self.call(&self.client, &self.filter, (event, time_ms), is_lookup, name).await?;
            if let (Some(name), Decision::Undecided(_)) = (name, verdict) {
                self.again((event, time_ms), name).await?;
            }
        }
        Ok(())
    }

    /// Draws the next event and the time at which it occurred.
    fn draw(&self, rng: &mut SeededRng) -> (u64, u64) {
        let now_ms = EPOCH_MS + now_us() / 1000;
        if self.scenario.is_staged() {
            workload::draw(rng, now_ms, self.scenario.window_ms)
        } else {
            let (first, events) = events_of_draw(&self.scenario, rng);
            (first + rng.below(events), now_ms)
        }
    }

    /// Sends the same submission again from another incarnation of the producer, with the event's first time.
    async fn again(&self, event: (u64, u64), name: SubmissionName) -> Result<(), String> {
        let began_us = now_us();
        for start in 0..AGAIN_MAX {
            let incarnation = 1 + start + (name.number as u32 * AT_ONCE + self.lane) * AGAIN_MAX;
            let filter = connect(self.number, incarnation, &self.scenario, &self.connector).await;
            let (client, filter) = match filter {
                Err(_) if self.scenario.is_staged() || self.scenario.rights => break,
                connected => connected.map_err(|error| error.to_string())?,
            };
            // Connecting may have taken a long time.
            let age_ms = (now_us() - began_us) / 1000 + 2 * self.scenario.deadline_ms;
            if age_ms > u64::from(self.scenario.retry_horizon_ms) {
                break;
            }
            let verdict = self.call(&client, &filter, event, false, Some(name)).await?;
            lock(&self.history).degraded_events += filter.status().degraded.events;
            if !matches!(verdict, Decision::Undecided(_)) {
                break;
            }
        }
        Ok(())
    }

    /// Returns a call that begins now.
    fn new_call(&self, event: u64, time_ms: u64) -> Call {
        Call { site: self.scenario.site(self.number), ..Call::begun(self.number, event, time_ms, now_us()) }
    }

    async fn call(
        &self,
        client: &Client,
        filter: &Filter,
        (event, time_ms): (u64, u64),
        is_lookup: bool,
        name: Option<SubmissionName>,
    ) -> Result<Decision, String> {
        let id = lock(&self.history).begin(Call { is_lookup, name, ..self.new_call(event, time_ms) });
        let degraded_before = filter.status().degraded.events;
        let sent_before = self.sent(client);
        let key = event.to_le_bytes();
        let verdict = match name {
            _ if is_lookup => filter.test(Event::from(&key).at(time_ms)).await,
            Some(name) => filter.observe(Event::from(&key).named(name).at(time_ms)).await,
            None => filter.observe(Event::from(&key).at(time_ms)).await,
        };
        let verdict = verdict.map_err(|error| error.to_string())?;
        let degraded = filter.status().degraded.events > degraded_before;
        self.note_entries(id, client, &sent_before);
        lock(&self.history).end(id, now_us(), verdict, degraded);
        Ok(verdict)
    }
}

/// Sends events with broken times, which no other producer shares, until it is ended. Its verdicts are not in the
/// history.
async fn broken(number: u32, scenario: Scenario, connector: SimConnector) {
    let mut rng = SeededRng::new(scenario.seed.wrapping_mul(37).wrapping_add(number.into()) ^ DICE_OF_BROKEN);
    let ahead_ms = scenario.window_ms + scenario.window_ms / 16;
    let week_ms = 7 * 86_400_000;
    // The clock of the producer's machine agrees with the times that it sends.
    let connected = connect_ahead(AHEAD_MS, (number, u32::MAX - AT_ONCE), &scenario, &connector).await;
    let Ok((_client, filter)) = connected else { return };
    for event in 0_u64.. {
        tokio::time::sleep(Duration::from_millis(1 + rng.below(4 * scenario.pause_max_ms + 20))).await;
        let now_ms = EPOCH_MS + now_us() / 1000;
        let behind_ms = scenario.window_ms * (1 + rng.below(2));
        let time_ms = match rng.below(16) {
            0..4 => now_ms - behind_ms,
            4 => now_ms + week_ms * (1 + event),
            5 => now_ms + 2 * ahead_ms,
            _ => now_ms + ahead_ms,
        };
        let key = (OF_BROKEN | u64::from(number) << 32 | event).to_le_bytes();
        let asked = match rng.below(3) {
            0 => filter.test(Event::from(&key).at(time_ms)).await,
            _ => filter.observe(Event::from(&key).at(time_ms)).await,
        };
        // The producer may end before the cluster does.
        drop(asked);
    }
}

/// Returns a client for start number `start` of producer `number`, at its site.
pub(crate) async fn connect(
    number: u32,
    start: u32,
    scenario: &Scenario,
    connector: &SimConnector,
) -> Result<(Client, Filter), Box<dyn std::error::Error + Send + Sync>> {
    connect_ahead(0, (number, start), scenario, connector).await
}

/// Returns a client like [`connect`], on a machine whose clock is ahead by `ahead_ms`.
async fn connect_ahead(
    ahead_ms: u64,
    (number, start): (u32, u32),
    scenario: &Scenario,
    connector: &SimConnector,
) -> Result<(Client, Filter), Box<dyn std::error::Error + Send + Sync>> {
    let incarnation = u128::from(scenario.seed) << 64 | u128::from(number) << 32 | u128::from(start);
    let mut last: Box<dyn std::error::Error + Send + Sync> = "never tried".into();
    // The deadline of a call may be hardly longer than a message takes, so connecting may need several tries.
    for _ in 0..40 {
        let seeds = (0..scenario.nodes).map(|index| node_address((index + number as usize) % scenario.nodes));
        let options = ConnectOptions {
            site: scenario.site(number).map(site_name),
            connector: Some(Arc::new(connector.clone())),
            incarnation: Some(incarnation),
            wall_clock: Some(Arc::new(move || EPOCH_MS + ahead_ms + now_us() / 1000)),
            deadline_ms: scenario.deadline_ms,
            ..ConnectOptions::from(seeds)
        };
        match Client::connect(options).await {
            Ok(client) => match client.filter(FILTER).await {
                Ok(filter) => return Ok((client, filter)),
                Err(error) => last = error.into(),
            },
            Err(error) => last = error.into(),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Err(last)
}

/// Returns how many calls ended undecided, by reason.
pub fn undecided(history: &History) -> std::collections::BTreeMap<Reason, u64> {
    let mut counts = std::collections::BTreeMap::new();
    for call in &history.calls {
        if let Some(Decision::Undecided(reason)) = call.verdict {
            *counts.entry(reason).or_default() += 1;
        }
    }
    counts
}
