//! Runs a scenario: nodes, producers and a nemesis in one simulated network. The same scenario gives the same trace and
//! the same history.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use firstseen_filter::Unit;
use firstseen_routing::{ClockSource, SlicedDefinition, WhenLost};
use firstseen_wire::watch;
use xxhash_rust::xxh3::Xxh3;

use crate::acted_on::Acting;
use crate::alterations;
use crate::audit::audit;
use crate::clock::{CLOCK_SKEW_MS_MAX, EPOCH_MS};
use crate::cluster::{self, Machine, node_name};
use crate::fault_injector::{FaultInjector, Order, Orders, Stage, hosts_at};
use crate::faults::{Fault, Fired, Happened};
use crate::holdings::whole_events;
use crate::net::{Breaker, SimConnector, Streams};
use crate::operator::Operator;
use crate::principals::producer_name;
use crate::producers::produce;
use crate::real_time::standing_still;
use crate::redis_clients::ask_endpoints;
use crate::scenario::{Nemesis, Scenario};
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};
use crate::trace::Trace;
use crate::views::Views;
use firstseen_checker::history::{EndOnFullDisk, History, Promises, Stamped};

/// Maximum duration of a run. A run that takes longer is treated as hung. The limit is generous, because many copies
/// need minutes to recover over slow links, and the comparison of their cells at the end takes further minutes.
const DURATION_MAX: Duration = Duration::from_secs(600);
const TICK: Duration = Duration::from_millis(1);
/// Step of scenarios that last long and have few messages.
const COARSE_TICK: Duration = Duration::from_millis(5);

/// The results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The calls of producers with their verdicts.
    pub history: History,
    /// Everything that was delivered.
    pub trace: Trace,
    /// The faults of a storm.
    pub happened: Vec<Happened>,
    /// Duration of the run in simulated time.
    pub simulated: Duration,
}

impl Run {
    /// Returns a 64-bit hash of the whole run. Two runs that differ anywhere have different hashes.
    pub fn hash(&self) -> u64 {
        let mut hasher = Xxh3::new();
        self.trace.hash_into(&mut hasher);
        hasher.update(self.history.to_string().as_bytes());
        hasher.digest()
    }
}

/// Returns a history without calls, with the facts about the filter that laws need.
fn no_calls(scenario: &Scenario) -> Result<History, String> {
    let definition = cluster::definition(scenario).map_err(|error| error.to_string())?;
    let altered = scenario.alteration.map(|alteration| alterations::definition(scenario, alteration));
    let altered = altered.transpose().map_err(|error| error.to_string())?;
    // Clients state that an event lives at most two units longer than its own time.
    let ttl_rounding_ms = altered.iter().chain([&definition]).map(|filter| unit_ms(filter).saturating_mul(2)).max();
    let promises = Promises {
        window_ms: if unit_ms(&definition) == u64::MAX { u64::MAX } else { scenario.window_ms },
        leaves_answer_alone: scenario.leaves_answer_alone(),
        keeps_events_of_leaves: scenario.is_lasting_tree(),
        levels_refute: scenario.tree.as_ref().is_some_and(|tree| tree.top_down > 0),
        answers_when_set: scenario.safe
            || scenario.copies > 0
            || scenario.slicing.starts_with("horizontal:") && scenario.tree.is_none(),
        has_copies: scenario.copies > 0,
        never_forgets: scenario.when_lost == WhenLost::Undecided,
        outlives_a_node: scenario.slicing.starts_with("vertical:"),
        window_at_most_ms: altered.iter().chain([&definition]).map(window_at_most_ms).max().unwrap_or(u64::MAX),
        ttl_rounding_ms: ttl_rounding_ms.unwrap_or_default(),
        stamped: match scenario.clock {
            // Nodes stamp everything that arrives at their Redis endpoints. While their clocks are right, these do not
            // differ.
            _ if scenario.endpoints.is_some() => Stamped::ByNode { skew_ms: 0 },
            ClockSource::Event => Stamped::ByProducer { began_ms: EPOCH_MS, lateness_ms: scenario.lateness_ms },
            ClockSource::Wall => Stamped::ByNode { skew_ms: CLOCK_SKEW_MS_MAX },
        },
    };
    Ok(History { promises, ..History::default() })
}

/// Returns the unit of the window in milliseconds, or `u64::MAX` if units are not times.
fn unit_ms(definition: &SlicedDefinition) -> u64 {
    match definition.group.unit {
        Unit::Milliseconds(unit_ms) => unit_ms,
        _ => u64::MAX,
    }
}

/// Returns the window in milliseconds, plus the maximum that rounding adds.
fn window_at_most_ms(definition: &SlicedDefinition) -> u64 {
    definition.group.rule.span_units.saturating_add(1).saturating_mul(unit_ms(definition))
}

/// Runs `scenario`.
///
/// # Errors
/// Returns the reason why the run did not end. This is not a finding about laws.
pub fn run(scenario: &Scenario) -> Result<Run, String> {
    standing_still(|| execute(scenario))
}

fn execute(scenario: &Scenario) -> Result<Run, String> {
    let history: SharedHistory = Arc::new(Mutex::new(no_calls(scenario)?));
    let mut sim = network(scenario);
    let connector = SimConnector::default();
    let views = Views::default();
    let machines = machines(scenario, &views, &Acting::noted_in(&history, scenario));
    let mut breakers = start_nodes(&mut sim, scenario, &machines, &connector);
    let (ready_sender, ready) = watch::channel(false);
    let (quiet_sender, quiet) = watch::channel(false);
    let left = Arc::new(AtomicU32::new(scenario.producers));
    let stage = Stage::default();
    let fired = Fired::default();
    for number in 0..scenario.producers {
        let scenario = scenario.clone();
        let history = history.clone();
        let left = left.clone();
        let mut ready = ready.clone();
        let stage = stage.clone();
        let connector = connector.of_another_host();
        breakers.push(connector.breaker.clone());
        sim.client(producer_name(number), async move {
            ready.wait_for(|ready| *ready).await?;
            let ended = match scenario.endpoints {
                Some(endpoint_use) => ask_endpoints(number, endpoint_use, scenario, connector, history).await,
                None => produce(number, scenario, connector, history, stage).await,
            };
            left.fetch_sub(1, Ordering::Relaxed);
            ended
        });
    }
    for site in scenario.tree.iter().flat_map(|_| 0..scenario.nodes) {
        let scenario = scenario.clone();
        let connector = connector.of_another_host();
        let history = history.clone();
        let mut quiet = quiet.clone();
        sim.client(format!("auditor-{site}"), async move {
            quiet.wait_for(|quiet| *quiet).await?;
            audit(site, scenario, connector, history).await
        });
    }
    separate_sites(&sim, scenario);
    let orders = Orders::default();
    let torment = FaultInjector {
        scenario: scenario.clone(),
        breakers,
        machines: machines.clone(),
        streams: connector.streams.clone(),
        left,
        stage,
        orders: orders.clone(),
    };
    let operator = Operator {
        torment,
        connector: connector.of_another_host(),
        history: history.clone(),
        fired: fired.clone(),
        ready: ready_sender,
        quiet: quiet_sender,
    };
    sim.client("operator", operator.operate());
    let driver = Driver {
        scenario,
        orders: &orders,
        streams: &connector.streams,
        machines: &machines,
        fired: &fired,
        history: &history,
    };
    driver.drive(&mut sim).map_err(|error| error.to_string())?;
    let simulated = sim.elapsed();
    drop(sim);
    let mut history = history.lock().unwrap_or_else(PoisonError::into_inner).clone();
    history.views = views.all();
    Ok(Run { history, trace: connector.recorder.trace(), happened: fired.all(), simulated })
}

/// Creates the machines of the nodes.
fn machines(scenario: &Scenario, views: &Views, acting: &Acting) -> Vec<Machine> {
    let machines: Vec<Machine> = (0..scenario.nodes).map(|_| Machine::seen_by(views, acting)).collect();
    machines.iter().for_each(|machine| machine.journal.set_sync_takes(Duration::from_millis(scenario.sync_ms)));
    machines
}

fn network<'a>(scenario: &Scenario) -> turmoil::Sim<'a> {
    let latency_max = Duration::from_millis(scenario.latency_max_ms);
    let (tick, latency_min, latency_max) = match scenario.between_sites_ms {
        Some(_) => (TICK, Duration::ZERO, Duration::ZERO),
        None if scenario.nemesis == Nemesis::Partition => (COARSE_TICK, COARSE_TICK, latency_max),
        None => (TICK, TICK, latency_max),
    };
    turmoil::Builder::new()
        .rng_seed(scenario.seed)
        .epoch(SystemTime::UNIX_EPOCH + Duration::from_millis(EPOCH_MS))
        .simulation_duration(DURATION_MAX)
        .tick_duration(tick)
        .min_message_latency(latency_min)
        .max_message_latency(latency_max)
        .tcp_capacity(1 << 16)
        .build()
}

/// Sets the latency of links between sites.
fn separate_sites(sim: &turmoil::Sim<'_>, scenario: &Scenario) {
    let Some(between_ms) = scenario.between_sites_ms else { return };
    for (first, second) in (0..scenario.nodes).flat_map(|second| (0..second).map(move |first| (first, second))) {
        for here in hosts_at(scenario, first) {
            for there in hosts_at(scenario, second) {
                sim.set_link_latency(here.as_str(), there, Duration::from_millis(between_ms));
            }
        }
    }
}

/// Runs the simulation and executes orders between its steps.
struct Driver<'a> {
    scenario: &'a Scenario,
    orders: &'a Orders,
    streams: &'a Streams,
    machines: &'a [Machine],
    fired: &'a Fired,
    history: &'a SharedHistory,
}

impl Driver<'_> {
    /// Runs the simulation to its end.
    fn drive(&self, sim: &mut turmoil::Sim<'_>) -> turmoil::Result {
        while !sim.step()? {
            for node in (0..self.machines.len()).filter(|node| self.machines[*node].agreement.has_lost_power()) {
                self.execute(sim, Order::CutPower(node, self.scenario.seed ^ sim.elapsed().as_micros() as u64))?;
            }
            for order in std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner)) {
                self.execute(sim, order)?;
            }
        }
        Ok(())
    }

    fn execute(&self, sim: &mut turmoil::Sim<'_>, order: Order) -> turmoil::Result {
        match order {
            Order::Kill(node) => self.kill(sim, node)?,
            Order::CutPower(node, seed) => {
                self.kill(sim, node)?;
                let mut rng = SeededRng::new(seed);
                let odds = rng.below(3);
                let torn = self.machines[node].cut_power(|| rng.below(2) < odds);
                let (is_journal_torn, is_agreement_torn) = torn;
                if is_journal_torn {
                    self.fired.note(Fault::TornWrite, Some(node));
                }
                if is_agreement_torn {
                    self.fired.note(Fault::AgreementTorn, Some(node));
                }
            }
            Order::Start(node) => {
                // Another process would close its connections in an order that no seed determines.
                if sim.is_host_running(node_name(node)) {
                    self.kill(sim, node)?;
                }
                sim.bounce(node_name(node));
            }
            Order::Latency(node, least_ms, most_ms) => {
                for other in (0..self.scenario.nodes).filter(|other| *other != node) {
                    let here = node_name(node);
                    let there = node_name(other);
                    sim.set_link_latency(here.as_str(), there.as_str(), Duration::from_millis(least_ms));
                    sim.set_link_max_message_latency(here, there, Duration::from_millis(most_ms));
                }
            }
        }
        Ok(())
    }

    fn kill(&self, sim: &mut turmoil::Sim<'_>, node: usize) -> turmoil::Result {
        self.streams.end_of(sim.lookup(node_name(node)));
        sim.crash(node_name(node));
        self.note_full_disk(node, sim.elapsed().as_micros() as u64)
    }

    /// Records which events a node whose process ends may have found only in memory.
    fn note_full_disk(&self, node: usize, until_us: u64) -> turmoil::Result {
        let Some((from_us, maps)) = self.machines[node].lose_process(until_us) else { return Ok(()) };
        let mut events = BTreeSet::new();
        for map in maps {
            events.append(&mut whole_events(self.scenario, &map, node)?);
        }
        lock(self.history).lost_while_full.push(EndOnFullDisk { node, from_us, until_us, events });
        Ok(())
    }
}

/// Starts the nodes. Returns the breakers of their connections.
fn start_nodes(
    sim: &mut turmoil::Sim<'_>,
    scenario: &Scenario,
    machines: &[Machine],
    connector: &SimConnector,
) -> Vec<Breaker> {
    let mut breakers = Vec::new();
    for (index, machine) in machines.iter().enumerate() {
        let machine = machine.clone();
        let connector = connector.of_another_host();
        let scenario = scenario.clone();
        let starts = AtomicU64::new(0);
        breakers.push(connector.breaker.clone());
        sim.host(node_name(index), move || {
            let start = starts.fetch_add(1, Ordering::Relaxed);
            cluster::run_node(index, start, scenario.clone(), machine.clone(), connector.clone())
        });
    }
    breakers
}
