//! A run: nodes, producers and a nemesis in one simulated network.
//!
//! Promises: the same scenario gives the same trace and the same history. Must not know: what the history must keep.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use firstseen_routing::{Durability, WhenLost};
use firstseen_wire::watch;
use xxhash_rust::xxh3::Xxh3;

use crate::audit::audit;
use crate::cells;
use crate::cluster::{self, Disks, EPOCH_MS, NodeEvents, node_name, now_us};
use crate::moves;
use crate::net::{Breaker, SimConnector, Streams};
use crate::producers::{SharedHistory, produce};
use crate::scenario::{Dice, Nemesis, Scenario};
use crate::trace::{Recorder, Trace};
use firstseen_checker::history::{History, Loss, Outage, REJOINED_US};

/// A run that takes longer has hung.
const DURATION_MAX: Duration = Duration::from_secs(300);
const TICK: Duration = Duration::from_millis(1);
/// The same where little happens for long.
const COARSE_TICK: Duration = Duration::from_millis(5);
/// How long a site is cut off.
const PARTITION: Duration = Duration::from_secs(10);

/// After so long the others go on without a node.
const OUTAGE_MIN_MS: u64 = 2_500;

/// Between two moments at which what it lacks counts as lost.
const LOSS_STEP_US: usize = 250_000;

/// What is done to a node's process between two steps of the simulation.
#[derive(Clone, Copy, Debug)]
enum Order {
    /// It ends without notice.
    Kill(usize),
    /// The same, with what its disk had not synced, or a part of that, as dice of this seed fall.
    CutPower(usize, u64),
    /// Another one starts.
    Start(usize),
}

/// What the operator has ordered and is not done yet.
type Orders = Arc<Mutex<Vec<Order>>>;

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

/// Nothing has been called yet; what laws must know of the filter.
fn no_calls(scenario: &Scenario) -> Result<History, String> {
    let definition = cluster::definition(scenario).map_err(|error| error.to_string())?;
    let rule = definition.group.rule;
    let unit_ms = match definition.group.unit {
        firstseen_filter::Unit::Milliseconds(unit_ms) => unit_ms,
        _ => u64::MAX,
    };
    Ok(History {
        window_ms: if unit_ms == u64::MAX { u64::MAX } else { scenario.window_ms },
        tells_alone: scenario.tells_alone(),
        told_when_set: scenario.safe
            || scenario.copies > 0
            || scenario.slicing.starts_with("horizontal:") && scenario.tree.is_none(),
        never_forgets: scenario.when_lost == WhenLost::Undecided,
        outlives_a_node: scenario.slicing.starts_with("vertical:"),
        window_at_most_ms: rule.span_units.saturating_add(1).saturating_mul(unit_ms),
        ..History::default()
    })
}

/// Carries `scenario` out.
///
/// # Errors
/// What kept the run from ending; that says nothing about laws.
pub fn run(scenario: &Scenario) -> Result<Run, String> {
    let history: SharedHistory = Arc::new(Mutex::new(no_calls(scenario)?));
    let mut sim = network(scenario);
    let (streams, recorder) = (Streams::default(), Recorder::default());
    let connector =
        || SimConnector { breaker: Breaker::default(), streams: streams.clone(), recorder: recorder.clone() };
    let disks = disks(scenario);
    let mut breakers = start_nodes(&mut sim, scenario, &disks, connector);
    let (ready_sender, ready) = watch::channel(false);
    let (quiet_sender, quiet) = watch::channel(false);
    let left = Arc::new(AtomicU32::new(scenario.producers));
    for number in 0..scenario.producers {
        let (scenario, history, left, mut ready) = (scenario.clone(), history.clone(), left.clone(), ready.clone());
        let connector = connector();
        breakers.push(connector.breaker.clone());
        sim.client(producer_name(number), async move {
            ready.wait_for(|ready| *ready).await?;
            let ended = produce(number, scenario, connector, history).await;
            left.fetch_sub(1, Ordering::Relaxed);
            ended
        });
    }
    for site in scenario.tree.iter().flat_map(|_| 0..scenario.nodes) {
        let (scenario, connector, history, mut quiet) = (scenario.clone(), connector(), history.clone(), quiet.clone());
        sim.client(format!("auditor-{site}"), async move {
            quiet.wait_for(|quiet| *quiet).await?;
            audit(site, scenario, connector, history).await
        });
    }
    separate_sites(&sim, scenario);
    let orders = Orders::default();
    let torment = Torment {
        scenario: scenario.clone(),
        breakers,
        disks: disks.clone(),
        streams: streams.clone(),
        left,
        orders: orders.clone(),
    };
    let (connector, faults) = (connector(), history.clone());
    sim.client("operator", async move {
        let map = cluster::set_up(&torment.scenario, &connector).await?;
        let events = cluster::events_by_node(&torment.scenario, &map)?;
        ready_sender.send(true);
        let moving = async {
            match torment.scenario.moves {
                true => moves::move_slices(&torment.scenario, &connector, &torment.left).await,
                false => Ok(0),
            }
        };
        let ((), moved) = tokio::join!(torment.run(&events, &faults), moving);
        faults.lock().unwrap_or_else(PoisonError::into_inner).moves_begun = moved?;
        if torment.scenario.copies > 0 || torment.scenario.moves {
            let lagging = cluster::lagging(&connector).await?;
            faults.lock().unwrap_or_else(PoisonError::into_inner).lagging = lagging;
        }
        if torment.scenario.tree.is_some() {
            cells::look(&torment.scenario, &cluster::map_now(&connector).await?, &connector, &faults).await?;
        }
        quiet_sender.send(true);
        Ok(())
    });
    drive(&mut sim, &orders, &streams, &disks).map_err(|error| error.to_string())?;
    drop(sim);
    let history = history.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(Run { history: history.clone(), trace: recorder.trace() })
}

/// What each node finds when it starts again.
fn disks(scenario: &Scenario) -> Vec<Disks> {
    let disks: Vec<Disks> = (0..scenario.nodes).map(|_| Disks::default()).collect();
    disks.iter().for_each(|disks| disks.journal.set_sync_takes(Duration::from_millis(scenario.sync_ms)));
    disks
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

/// Gives links between sites their latency.
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

fn producer_name(number: u32) -> String {
    format!("producer-{number}")
}

/// The node of a site and its producers.
fn hosts_at(scenario: &Scenario, site: usize) -> Vec<String> {
    let producers = (0..scenario.producers).filter(|number| scenario.site(*number) == Some(site));
    std::iter::once(node_name(site)).chain(producers.map(producer_name)).collect()
}

/// Runs the simulation to its end, and carries out orders between its steps.
fn drive(sim: &mut turmoil::Sim<'_>, orders: &Orders, streams: &Streams, disks: &[Disks]) -> turmoil::Result {
    while !sim.step()? {
        for order in std::mem::take(&mut *orders.lock().unwrap_or_else(PoisonError::into_inner)) {
            match order {
                Order::Kill(node) => {
                    streams.end_of(sim.lookup(node_name(node)));
                    sim.crash(node_name(node));
                }
                Order::CutPower(node, seed) => {
                    streams.end_of(sim.lookup(node_name(node)));
                    sim.crash(node_name(node));
                    let mut dice = Dice::new(seed);
                    let odds = dice.below(3);
                    disks[node].journal.cut_power(|| dice.below(2) < odds);
                }
                Order::Start(node) => sim.bounce(node_name(node)),
            }
        }
    }
    Ok(())
}

/// Starts the nodes; what breaks their connections comes back.
fn start_nodes(
    sim: &mut turmoil::Sim<'_>,
    scenario: &Scenario,
    disks: &[Disks],
    connector: impl Fn() -> SimConnector,
) -> Vec<Breaker> {
    let mut breakers = Vec::new();
    for (index, disks) in disks.iter().enumerate() {
        let (disks, connector, scenario) = (disks.clone(), connector(), scenario.clone());
        let starts = AtomicU64::new(0);
        breakers.push(connector.breaker.clone());
        sim.host(node_name(index), move || {
            let start = starts.fetch_add(1, Ordering::Relaxed);
            cluster::run_node((index, start), scenario.clone(), disks.clone(), connector.clone())
        });
    }
    breakers
}

/// What goes with a node.
fn loss(node: usize, time_us: u64, events: &[NodeEvents]) -> Loss {
    let NodeEvents { any, most, .. } = &events[node];
    Loss { node, time_us, since_us: 0, events: any.clone(), most_of: most.clone() }
}

/// Makes things go wrong.
struct Torment {
    scenario: Scenario,
    breakers: Vec<Breaker>,
    disks: Vec<Disks>,
    streams: Streams,
    /// Producers that have not ended.
    left: Arc<AtomicU32>,
    orders: Orders,
}

impl Torment {
    /// Goes on until the producers have ended. `events` are those that have cells on each node.
    async fn run(&self, events: &[NodeEvents], history: &SharedHistory) {
        let mut dice = Dice::new(self.scenario.seed ^ 0x5EED);
        if self.scenario.nemesis == Nemesis::Partition {
            self.partition(&mut dice, events, history).await;
        }
        while self.left.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(50 + dice.below(400))).await;
            let node = dice.below(self.scenario.nodes as u64) as usize;
            match self.scenario.nemesis {
                Nemesis::Delay | Nemesis::Partition => {}
                Nemesis::Reset => self.breakers[dice.below(self.breakers.len() as u64) as usize].reset(),
                Nemesis::Hold => self.hold(node, &mut dice).await,
                Nemesis::Isolate => self.isolate(node, &mut dice, history).await,
                Nemesis::Restart if self.scenario.durability != Durability::Memory => {
                    self.restart(&[Order::Kill(node)], &mut dice).await;
                }
                Nemesis::PowerCut => {
                    let seed = dice.below(u64::MAX);
                    self.restart(&[Order::CutPower(node, seed)], &mut dice).await;
                }
                Nemesis::Blackout => {
                    let seed = dice.below(u64::MAX - self.scenario.nodes as u64);
                    let cuts: Vec<Order> =
                        (0..self.scenario.nodes).map(|node| Order::CutPower(node, seed + node as u64)).collect();
                    self.restart(&cuts, &mut dice).await;
                }
                Nemesis::DiskFull => {
                    self.disks[node].journal.set_room_bytes(Some(dice.below(2_000)));
                    tokio::time::sleep(Duration::from_millis(100 + dice.below(2_000))).await;
                    if dice.below(2) == 0 {
                        let seed = dice.below(u64::MAX);
                        self.restart(&[Order::CutPower(node, seed)], &mut dice).await;
                    }
                    self.disks[node].journal.set_room_bytes(None);
                }
                Nemesis::Restart | Nemesis::Outage => {
                    let loss = loss(node, now_us(), events);
                    history.lock().unwrap_or_else(PoisonError::into_inner).losses.push(loss);
                    self.restart(&[Order::Kill(node)], &mut dice).await;
                }
            }
        }
    }

    /// Holds the links of a node for a while.
    async fn hold(&self, held: usize, dice: &mut Dice) {
        let others: Vec<String> = (0..self.scenario.nodes).filter(|index| *index != held).map(node_name).collect();
        others.iter().for_each(|other| turmoil::hold(node_name(held), other.as_str()));
        tokio::time::sleep(Duration::from_millis(20 + dice.below(300))).await;
        others.iter().for_each(|other| turmoil::release(node_name(held), other.as_str()));
    }

    /// Holds the links of a node for so long that the others go on without it.
    async fn isolate(&self, held: usize, dice: &mut Dice, history: &SharedHistory) {
        let from_us = now_us();
        let others: Vec<String> = (0..self.scenario.nodes).filter(|index| *index != held).map(node_name).collect();
        others.iter().for_each(|other| turmoil::hold(node_name(held), other.as_str()));
        tokio::time::sleep(Duration::from_millis(OUTAGE_MIN_MS + dice.below(3_000))).await;
        others.iter().for_each(|other| turmoil::release(node_name(held), other.as_str()));
        let outage = Outage { site: held, from_us, until_us: now_us(), is_silent: true };
        history.lock().unwrap_or_else(PoisonError::into_inner).outages.push(outage);
        tokio::time::sleep(Duration::from_millis(1_500 + dice.below(2_000))).await;
    }

    /// Cuts a site off once. Connections outlive it, and what was sent comes through in the end; or they break, and new
    /// ones find no way.
    async fn partition(&self, dice: &mut Dice, events: &[NodeEvents], history: &SharedHistory) {
        let site = dice.below(self.scenario.nodes as u64) as usize;
        tokio::time::sleep(Duration::from_millis(1_000 + dice.below(1_000))).await;
        let here = hosts_at(&self.scenario, site);
        let elsewhere = (0..self.scenario.nodes).filter(|other| *other != site);
        let there: Vec<String> = elsewhere.flat_map(|other| hosts_at(&self.scenario, other)).collect();
        let links = || here.iter().flat_map(|here| there.iter().map(move |there| (here.as_str(), there.as_str())));
        let from_us = now_us();
        links().for_each(|(here, there)| turmoil::hold(here, there));
        let is_silent = dice.below(2) > 0;
        if !is_silent {
            let addresses =
                |hosts: &[String]| hosts.iter().map(|host| turmoil::lookup(host.as_str())).collect::<Vec<_>>();
            self.streams.cut(&addresses(&here), &addresses(&there));
        }
        tokio::time::sleep(PARTITION).await;
        let until_us = now_us();
        links().for_each(|(here, there)| turmoil::release(here, there));
        let outage = Outage { site, from_us, until_us, is_silent };
        let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
        history.outages.push(outage);
        // The others go on without its node until it is back, and it lacks what they record.
        let away = (from_us..=until_us + REJOINED_US).step_by(LOSS_STEP_US);
        history.losses.extend(away.map(|time_us| Loss { since_us: from_us, ..loss(site, time_us, events) }));
    }

    /// Ends processes of nodes, starts others, and leaves them alone for a while.
    async fn restart(&self, ends: &[Order], dice: &mut Dice) {
        ends.iter().for_each(|end| self.order(*end));
        let away_min_ms = if self.scenario.nemesis == Nemesis::Outage { OUTAGE_MIN_MS } else { 50 };
        tokio::time::sleep(Duration::from_millis(away_min_ms + dice.below(500))).await;
        for end in ends {
            if let Order::Kill(node) | Order::CutPower(node, _) = end {
                self.order(Order::Start(*node));
            }
        }
        tokio::time::sleep(Duration::from_millis(1_500 + dice.below(2_000))).await;
    }

    fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }
}
