//! The faults that happen while producers submit events. A run repeats one kind of fault, which the scenario
//! determines. The seed determines the details, such as the affected node and the time. If a fault loses events, the
//! loss is recorded in the history.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_checker::history::{Loss, Outage, REJOINED_US};
use firstseen_routing::Durability;

use crate::clock::now_us;
use crate::cluster::{Machine, node_name};
use crate::holdings::NodeEvents;
use crate::net::{Breaker, Streams, addresses, links};
use crate::principals::producer_name;
use crate::scenario::{Nemesis, Scenario};
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};

/// Time in microseconds after the start of a process within which the other nodes reach it again.
const REACHED_AGAIN_US: u64 = 1_000_000;

/// Time for which a site is cut off.
const PARTITION: Duration = Duration::from_secs(10);

/// Time in milliseconds without a node after which the other nodes continue without it.
const OUTAGE_MIN_MS: u64 = 2_500;

/// Time after which a node whose disk has hung takes part as before.
const WELL_AGAIN: Duration = Duration::from_secs(40);
/// Seed of the random numbers for the disk of the consensus log, which are independent of the others.
const OF_RESERVES: u64 = 0x2E_5E2E << 32;

/// Step in microseconds between two moments at which the events that a node lacks are recorded as lost.
const LOSS_STEP_US: usize = 250_000;

/// Interval at which the simulation checks whether a node has stopped.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// An order to the simulation about a node's process or its links. It is executed between two steps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// End the process without notice.
    Kill(usize),
    /// End the process, and lose some or all data that its disk has not synced, as determined by this seed.
    CutPower(usize, u64),
    /// Start the process.
    Start(usize),
    /// Set the range of milliseconds that messages between the node and others take.
    Latency(usize, u64, u64),
}

/// Whether a storm and the calm after it have ended. Clones share one state.
#[derive(Clone, Default)]
pub(crate) struct Stage(Arc<AtomicBool>);

impl Stage {
    /// Notes that they have ended.
    pub(crate) fn end(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether they have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The orders of the operator that have not been executed yet.
pub(crate) type Orders = Arc<Mutex<Vec<Order>>>;

/// Returns the node of a site and its producers.
pub(crate) fn hosts_at(scenario: &Scenario, site: usize) -> Vec<String> {
    let producers = (0..scenario.producers).filter(|number| scenario.site(*number) == Some(site));
    std::iter::once(node_name(site)).chain(producers.map(producer_name)).collect()
}

/// Returns a generator for this moment, independent of the one from which a run draws everything else.
pub(crate) fn dice_of_reserves(scenario: &Scenario) -> SeededRng {
    SeededRng::new(scenario.seed ^ OF_RESERVES ^ now_us())
}

/// Returns the loss of a node's memory.
pub(crate) fn loss(node: usize, time_us: u64, events: &[NodeEvents]) -> Loss {
    let NodeEvents { any, most, .. } = &events[node];
    Loss { node, time_us, since_us: 0, events: any.clone(), most_of: most.clone() }
}

/// The nemesis of all scenarios except storms and cut-offs.
pub(crate) struct FaultInjector {
    pub(crate) scenario: Scenario,
    /// The breakers of the nodes, followed by those of the producers.
    pub(crate) breakers: Vec<Breaker>,
    pub(crate) machines: Vec<Machine>,
    pub(crate) streams: Streams,
    /// Number of producers that have not ended.
    pub(crate) left: Arc<AtomicU32>,
    pub(crate) stage: Stage,
    pub(crate) orders: Orders,
}

impl FaultInjector {
    /// Causes faults until the producers have ended. `events` lists the events that have cells on each node.
    pub(crate) async fn run(&self, events: &[NodeEvents], history: &SharedHistory) {
        let mut rng = SeededRng::new(self.scenario.seed ^ 0x5EED);
        if self.scenario.nemesis == Nemesis::Partition {
            self.partition(&mut rng, events, history).await;
        }
        while self.left.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(50 + rng.below(400))).await;
            let node = rng.below(self.scenario.nodes as u64) as usize;
            match self.scenario.nemesis {
                Nemesis::Delay | Nemesis::Partition | Nemesis::Storm | Nemesis::CutOff => {}
                Nemesis::Reset => self.breakers[rng.below(self.breakers.len() as u64) as usize].reset(),
                Nemesis::Hold => self.hold(node, &mut rng).await,
                Nemesis::DiskHang => self.hang(node, &mut rng, history).await,
                Nemesis::WrongClock => self.misset(node, &mut rng, history).await,
                Nemesis::Standstill => self.suspend_machine(node, &mut rng, history).await,
                Nemesis::Stop => self.stop(node, &mut rng, history).await,
                Nemesis::Isolate => self.isolate(node, &mut rng, history).await,
                Nemesis::Restart if self.scenario.durability != Durability::Memory => {
                    self.restart(&[Order::Kill(node)], &mut rng, history).await;
                }
                Nemesis::PowerCut => {
                    let seed = rng.below(u64::MAX);
                    self.restart(&[Order::CutPower(node, seed)], &mut rng, history).await;
                }
                Nemesis::Blackout => {
                    let seed = rng.below(u64::MAX - self.scenario.nodes as u64);
                    let cuts: Vec<Order> =
                        (0..self.scenario.nodes).map(|node| Order::CutPower(node, seed + node as u64)).collect();
                    self.restart(&cuts, &mut rng, history).await;
                }
                Nemesis::DiskFull => {
                    self.machines[node].fill(rng.below(2_000), dice_of_reserves(&self.scenario).below(2) == 0);
                    tokio::time::sleep(Duration::from_millis(100 + rng.below(2_000))).await;
                    if rng.below(2) == 0 {
                        let seed = rng.below(u64::MAX);
                        self.restart(&[Order::CutPower(node, seed)], &mut rng, history).await;
                    }
                    self.machines[node].make_room();
                }
                Nemesis::Restart | Nemesis::Outage => {
                    let loss = loss(node, now_us(), events);
                    lock(history).losses.push(loss);
                    self.restart(&[Order::Kill(node)], &mut rng, history).await;
                }
            }
        }
    }

    /// Holds the links of a node for a while.
    async fn hold(&self, held: usize, rng: &mut SeededRng) {
        let others: Vec<String> = (0..self.scenario.nodes).filter(|index| *index != held).map(node_name).collect();
        others.iter().for_each(|other| turmoil::hold(node_name(held), other.as_str()));
        tokio::time::sleep(Duration::from_millis(20 + rng.below(300))).await;
        others.iter().for_each(|other| turmoil::release(node_name(held), other.as_str()));
    }

    /// Holds the links of a node until the other nodes continue without it.
    async fn isolate(&self, held: usize, rng: &mut SeededRng, history: &SharedHistory) {
        let from_us = now_us();
        let others: Vec<String> = (0..self.scenario.nodes).filter(|index| *index != held).map(node_name).collect();
        others.iter().for_each(|other| turmoil::hold(node_name(held), other.as_str()));
        tokio::time::sleep(Duration::from_millis(OUTAGE_MIN_MS + rng.below(3_000))).await;
        others.iter().for_each(|other| turmoil::release(node_name(held), other.as_str()));
        let outage = Outage { site: held, from_us, until_us: now_us(), is_silent: true };
        lock(history).outages.push(outage);
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(2_000))).await;
    }

    /// Lets a sync of a node's disk hang, and waits until the node takes part as before.
    async fn hang(&self, node: usize, rng: &mut SeededRng, history: &SharedHistory) {
        let most_ms = rng.pick(&[9_000, 59_000]);
        let hang_ms = 1_000 + rng.below(most_ms);
        let disk = &self.machines[node].journal;
        disk.hang_next(Some(Duration::from_millis(hang_ms)));
        while disk.is_to_hang() {
            if self.left.load(Ordering::Relaxed) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let from_us = now_us();
        tokio::time::sleep(Duration::from_millis(hang_ms)).await;
        lock(history).periods.hangs.push((from_us, from_us + hang_ms * 1000));
        tokio::time::sleep(WELL_AGAIN).await;
    }

    /// Cuts a site off once. Either connections stay open and messages arrive in the end, or connections break and new
    /// ones cannot be made.
    async fn partition(&self, rng: &mut SeededRng, events: &[NodeEvents], history: &SharedHistory) {
        let site = rng.below(self.scenario.nodes as u64) as usize;
        tokio::time::sleep(Duration::from_millis(1_000 + rng.below(1_000))).await;
        let here = hosts_at(&self.scenario, site);
        let elsewhere = (0..self.scenario.nodes).filter(|other| *other != site);
        let there: Vec<String> = elsewhere.flat_map(|other| hosts_at(&self.scenario, other)).collect();
        let from_us = now_us();
        links(&here, &there).for_each(|(here, there)| turmoil::hold(here, there));
        let is_silent = rng.below(2) > 0;
        if !is_silent {
            self.streams.cut(&addresses(&here), &addresses(&there));
        }
        let ended_us = if self.scenario.durability != Durability::Memory && rng.below(2) > 0 {
            Some(self.end_in_partition(site, rng).await)
        } else {
            tokio::time::sleep(PARTITION).await;
            None
        };
        let until_us = now_us();
        links(&here, &there).for_each(|(here, there)| turmoil::release(here, there));
        // A process that starts while it is cut off answers nothing until it reaches the other nodes.
        let outage = Outage { site, from_us, until_us: ended_us.unwrap_or(until_us), is_silent };
        let mut history = lock(history);
        history.outages.push(outage);
        history.periods.unreachable.push((from_us, until_us + REJOINED_US));
        // The other nodes continue without the site's node until it is back, and it lacks the events that they record.
        let away = (from_us..=until_us + REJOINED_US).step_by(LOSS_STEP_US);
        history.losses.extend(away.map(|time_us| Loss { since_us: from_us, ..loss(site, time_us, events) }));
    }

    /// Ends the process of a node that is cut off, and starts another one before the site can be reached again. Returns
    /// the end of the process in simulated microseconds.
    async fn end_in_partition(&self, site: usize, rng: &mut SeededRng) -> u64 {
        let before = PARTITION.mul_f64(0.2 + 0.1 * rng.below(5) as f64);
        tokio::time::sleep(before).await;
        let seed = rng.below(u64::MAX);
        let ended_us = now_us();
        self.order(if rng.below(2) > 0 { Order::CutPower(site, seed) } else { Order::Kill(site) });
        let away = Duration::from_millis(50 + rng.below(500));
        tokio::time::sleep(away).await;
        self.order(Order::Start(site));
        tokio::time::sleep(PARTITION.saturating_sub(before + away)).await;
        ended_us
    }

    /// Ends processes of nodes, starts others, and then pauses for a while.
    async fn restart(&self, ends: &[Order], rng: &mut SeededRng, history: &SharedHistory) {
        let from_us = now_us();
        ends.iter().for_each(|end| self.order(*end));
        let away_min_ms = if self.scenario.nemesis == Nemesis::Outage { OUTAGE_MIN_MS } else { 50 };
        tokio::time::sleep(Duration::from_millis(away_min_ms + rng.below(500))).await;
        for end in ends {
            if let Order::Kill(node) | Order::CutPower(node, _) = end {
                self.order(Order::Start(*node));
            }
        }
        lock(history).periods.unreachable.push((from_us, now_us() + REACHED_AGAIN_US));
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(2_000))).await;
    }

    /// Stops a node as an operator does, and starts it again.
    async fn stop(&self, node: usize, rng: &mut SeededRng, history: &SharedHistory) {
        let from_us = now_us();
        let machine = &self.machines[node];
        machine.ask_to_stop();
        // A node that does not stop prevents the run from ending in time, which is an error.
        while !machine.has_stopped() {
            tokio::time::sleep(STOP_LOOK).await;
        }
        self.order(Order::Kill(node));
        tokio::time::sleep(Duration::from_millis(50 + rng.below(500))).await;
        self.order(Order::Start(node));
        lock(history).periods.unreachable.push((from_us, now_us() + REACHED_AGAIN_US));
        tokio::time::sleep(Duration::from_millis(1_500 + rng.below(4_000))).await;
    }

    pub(crate) fn order(&self, order: Order) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
    }
}
