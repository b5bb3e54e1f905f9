//! A run: nodes, producers and a nemesis in one simulated network.
//!
//! Promises: the same scenario gives the same trace and the same history. Must not know: what the history must keep.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use firstseen_meta::MemoryDisk;
use firstseen_wire::watch;
use xxhash_rust::xxh3::Xxh3;

use crate::cluster::{self, EPOCH_MS, node_name};
use crate::history::History;
use crate::net::{Breaker, SimConnector};
use crate::producers::{SharedHistory, produce};
use crate::scenario::{Dice, Nemesis, Scenario};
use crate::trace::{Recorder, Trace};

/// A run that takes longer has hung.
const DURATION_MAX: Duration = Duration::from_secs(300);
const TICK: Duration = Duration::from_millis(1);

/// What a run leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What producers asked and were told.
    pub history: History,
    /// What was delivered.
    pub trace: Trace,
}

impl Run {
    /// All of it in 64 bits: two runs that differ anywhere differ here.
    pub fn hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        self.trace.hash_into(&mut hasher);
        hasher.update(self.history.to_string().as_bytes());
        hasher.digest()
    }
}

/// Carries `scenario` out.
///
/// # Errors
/// What kept the run from ending; that says nothing about laws.
pub fn run(scenario: &Scenario) -> Result<Run, String> {
    let definition = cluster::definition(scenario).map_err(|error| error.to_string())?;
    let rule = definition.group.rule;
    let unit_ms = match definition.group.unit {
        firstseen_filter::Unit::Milliseconds(unit_ms) => unit_ms,
        _ => u64::MAX,
    };
    let history: SharedHistory = Arc::new(Mutex::new(History {
        calls: Vec::new(),
        window_ms: if unit_ms == u64::MAX { u64::MAX } else { scenario.window_ms },
        window_at_most_ms: rule.span_units.saturating_add(1).saturating_mul(unit_ms),
    }));
    let mut sim = turmoil::Builder::new()
        .rng_seed(scenario.seed)
        .epoch(SystemTime::UNIX_EPOCH + Duration::from_millis(EPOCH_MS))
        .simulation_duration(DURATION_MAX)
        .tick_duration(TICK)
        .min_message_latency(TICK)
        .max_message_latency(Duration::from_millis(scenario.latency_max_ms))
        .tcp_capacity(1 << 16)
        .build();
    let recorder = Recorder::default();
    let connector = || SimConnector { breaker: Breaker::default(), recorder: recorder.clone() };
    let breakers = start_nodes(&mut sim, scenario, connector);
    let (ready_sender, ready) = watch::channel(false);
    let left = Arc::new(AtomicU32::new(scenario.producers));
    let mut all_breakers = breakers;
    for number in 0..scenario.producers {
        let (scenario, history, left, mut ready) = (scenario.clone(), history.clone(), left.clone(), ready.clone());
        let connector = connector();
        all_breakers.push(connector.breaker.clone());
        sim.client(format!("producer-{number}"), async move {
            ready.wait_for(|ready| *ready).await?;
            let ended = produce(number, scenario, connector, history).await;
            left.fetch_sub(1, Ordering::Relaxed);
            ended
        });
    }
    let (operator, connector) = (scenario.clone(), connector());
    sim.client("operator", async move {
        cluster::set_up(&operator, &connector).await?;
        ready_sender.send(true);
        torment(&operator, &all_breakers, &left).await;
        Ok(())
    });
    sim.run().map_err(|error| error.to_string())?;
    drop(sim);
    let history = history.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Run { history: history.clone(), trace: recorder.trace() })
}

/// Starts the nodes; what breaks their connections comes back.
fn start_nodes(sim: &mut turmoil::Sim<'_>, scenario: &Scenario, connector: impl Fn() -> SimConnector) -> Vec<Breaker> {
    let mut breakers = Vec::new();
    for index in 0..scenario.nodes {
        let (disk, connector, seed) = (MemoryDisk::default(), connector(), scenario.seed);
        breakers.push(connector.breaker.clone());
        sim.host(node_name(index), move || cluster::run_node(index, seed, disk.clone(), connector.clone()));
    }
    breakers
}

/// Makes things go wrong until the producers have ended.
async fn torment(scenario: &Scenario, breakers: &[Breaker], left: &AtomicU32) {
    let mut dice = Dice::new(scenario.seed ^ 0x5EED);
    while left.load(Ordering::Relaxed) > 0 {
        tokio::time::sleep(Duration::from_millis(50 + dice.below(400))).await;
        match scenario.nemesis {
            Nemesis::Delay => {}
            Nemesis::Reset => breakers[dice.below(breakers.len() as u64) as usize].reset(),
            Nemesis::Hold => {
                let held = dice.below(scenario.nodes as u64) as usize;
                let others: Vec<String> = (0..scenario.nodes).filter(|index| *index != held).map(node_name).collect();
                others.iter().for_each(|other| turmoil::hold(node_name(held), other.as_str()));
                tokio::time::sleep(Duration::from_millis(20 + dice.below(300))).await;
                others.iter().for_each(|other| turmoil::release(node_name(held), other.as_str()));
            }
        }
    }
}
