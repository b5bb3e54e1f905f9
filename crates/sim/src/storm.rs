//! A storm: faults of every kind, two at a time, on machines and on links. After the storm everything recovers.
//!
//! The seed and the cluster map at the time of each fault determine which fault happens. The cluster cannot repair
//! every fault on its own: for example, a disk stays full until somebody makes room on it. The storm undoes such faults
//! at its end, so the cluster must then recover completely.

mod disks;
mod full_disks;
mod standing_still;

use std::time::Duration;

use firstseen_checker::history::{Healed, Loss, Outage};
use firstseen_routing::Durability;

use crate::clock::{CLOCK_SKEW_MS_MAX, now_us};
use crate::cluster::{self, FILTER, Machine, node_name};
use crate::fault_injector::{FaultInjector, Order};
use crate::faults::{Fault, Fired};
use crate::map_checks::{incomplete, index_of, lacks_throughout, missing};
use crate::moves;
use crate::net::{SimConnector, addresses, links};
use crate::principals::producer_name;
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};

/// The faults of machines, which happen one after the other.
const OF_MACHINES: [Fault; 12] = [
    Fault::Kill,
    Fault::PowerCut,
    Fault::AgreementTorn,
    Fault::Blackout,
    Fault::RollingRestart,
    Fault::LeaderLoss,
    Fault::DiskFull,
    Fault::DiskHang,
    Fault::BitRot,
    Fault::Pause,
    Fault::ClockForward,
    Fault::ClockBack,
];
/// The faults of links, which happen at the same time as faults of machines.
const OF_LINKS: [Fault; 6] =
    [Fault::Partition, Fault::OneWayPartition, Fault::Loss, Fault::Delay, Fault::Reorder, Fault::Reset];
/// Seeds of the random numbers for machines and for links, which are independent of each other.
const DICE_OF_MACHINES: u64 = 0x3AC_417E << 32;
const DICE_OF_LINKS: u64 = 0x11_4C5 << 32;
/// Time in milliseconds after which a node that the others cannot reach may be marked down without knowing it.
const UNHEARD_MS: u64 = 900;
/// Maximum time until a node is back, before the next node is restarted.
const BACK_MAX: Duration = Duration::from_secs(6);
const LOOK: Duration = Duration::from_millis(200);
/// Maximum time that the cluster may take to recover from the faults of a storm. The time begins when all nodes run and
/// all links work again. When it ends, every copy must be complete.
///
/// The slowest recovery takes about 150 s: a node fetches three slices one after the other, each slice needs 500
/// requests of 1 KiB, and a request takes a tenth of a second. The limit leaves some room beyond that.
const HEAL_MAX: Duration = Duration::from_secs(240);

/// Time after which all nodes know a new map.
const MAP_DELAY_MAX: Duration = Duration::from_secs(1);

/// Maximum amount in milliseconds by which a storm sets a clock wrong. It is half of the allowed difference between
/// clocks. Two clocks that are wrong in opposite directions then still differ by no more than the allowed difference.
const CLOCK_AHEAD_MS_MAX: u64 = CLOCK_SKEW_MS_MAX / 2;

/// The nemesis of a storm.
pub(crate) struct Storm<'a> {
    pub(crate) torment: &'a FaultInjector,
    pub(crate) connector: &'a SimConnector,
    pub(crate) fired: &'a Fired,
    pub(crate) history: &'a SharedHistory,
}

impl Storm<'_> {
    /// Causes faults until `until_us`.
    pub(crate) async fn inject_faults(&self, until_us: u64) -> turmoil::Result {
        let (machines, links, (), ()) = tokio::join!(
            self.on_machines(until_us),
            self.on_links(until_us),
            self.on_full_disks(until_us),
            standing_still::on_standstills(self.torment, self.fired, self.history, until_us)
        );
        machines.and(links)
    }

    fn scenario(&self) -> &Scenario {
        &self.torment.scenario
    }

    fn nodes(&self) -> usize {
        self.scenario().nodes
    }

    async fn on_machines(&self, until_us: u64) -> turmoil::Result {
        let mut rng = SeededRng::new(self.scenario().seed ^ DICE_OF_MACHINES);
        let possible: Vec<Fault> = OF_MACHINES.into_iter().filter(|fault| self.scenario().allows(*fault)).collect();
        for node in &self.torment.machines {
            node.clock.set_ahead_ms(ahead_ms(&mut rng));
        }
        let mut hangs_until_us = 0;
        while now_us() < until_us {
            pause(100, 1_200, &mut rng).await;
            self.lose_quorum_beside_full_disk().await;
            let fault = rng.pick(&possible);
            let node = rng.below(self.nodes() as u64) as usize;
            match fault {
                Fault::Blackout => self.blackout(&mut rng).await,
                Fault::RollingRestart => self.restart_all(&mut rng).await?,
                Fault::LeaderLoss => self.lose_leader(&mut rng).await?,
                Fault::DiskFull => self.fill_disk(node, &mut rng).await,
                Fault::DiskHang => hangs_until_us = self.hang_disk(node, &mut rng).await.max(hangs_until_us),
                Fault::AgreementTorn => self.tear_agreement(node, &mut rng).await,
                Fault::BitRot => self.rot(node, &mut rng).await?,
                Fault::Pause => self.pause(node, &mut rng).await,
                Fault::ClockForward | Fault::ClockBack => self.set_clock(node, &mut rng),
                Fault::PowerCut => self.end(&[Order::CutPower(node, rng.below(u64::MAX))], fault, &mut rng).await,
                _ => self.end(&[Order::Kill(node)], fault, &mut rng).await,
            }
        }
        tokio::time::sleep(Duration::from_micros(hangs_until_us.saturating_sub(now_us()))).await;
        Ok(())
    }

    /// Ends processes, and starts others after a short or long pause.
    async fn end(&self, ends: &[Order], fault: Fault, rng: &mut SeededRng) {
        let node = match ends {
            [Order::Kill(node) | Order::CutPower(node, _)] => Some(*node),
            _ => None,
        };
        self.fired.note(fault, node);
        for end in ends {
            self.torment.order(*end);
            if let Order::Kill(node) | Order::CutPower(node, _) = end {
                self.note_loss(*node);
            }
        }
        match rng.below(3) {
            0 => pause(2_000, 2_000, rng).await,
            _ => pause(50, 500, rng).await,
        }
        for end in ends {
            if let Order::Kill(node) | Order::CutPower(node, _) = end {
                self.torment.order(Order::Start(*node));
            }
        }
    }

    /// Records that a node has lost its memory.
    fn note_loss(&self, node: usize) {
        if self.scenario().durability == Durability::Memory {
            self.lose(node);
        }
    }

    /// Records that events which only this node had may be lost.
    fn lose(&self, node: usize) {
        let (events, most_of) = Default::default();
        lock(self.history).losses.push(Loss { node, time_us: now_us(), since_us: 0, events, most_of });
    }

    async fn blackout(&self, rng: &mut SeededRng) {
        let seed = rng.below(u64::MAX - self.nodes() as u64);
        let cuts: Vec<Order> = (0..self.nodes()).map(|node| Order::CutPower(node, seed + node as u64)).collect();
        self.end(&cuts, Fault::Blackout, rng).await;
    }

    async fn restart_all(&self, rng: &mut SeededRng) -> turmoil::Result {
        let fault = match self.scenario().seed / 2 % 2 {
            0 => Fault::RollingRestart,
            _ => Fault::RestartWhenReady,
        };
        for node in 0..self.nodes() {
            self.torment.order(Order::Kill(node));
            self.note_loss(node);
            pause(20, 200, rng).await;
            self.torment.order(Order::Start(node));
            let end = tokio::time::Instant::now() + BACK_MAX;
            while tokio::time::Instant::now() < end && !self.is_back(node, fault).await? {
                tokio::time::sleep(LOOK).await;
            }
        }
        self.fired.note(fault, None);
        Ok(())
    }

    /// Returns whether the next node may be restarted.
    async fn is_back(&self, node: usize, fault: Fault) -> turmoil::Result<bool> {
        match fault {
            Fault::RestartWhenReady => self.is_ready(node).await,
            _ => self.is_whole().await,
        }
    }

    /// Returns whether the node reports that it is ready. Records a slice of which the node lacks what another copy
    /// has.
    async fn is_ready(&self, node: usize) -> turmoil::Result<bool> {
        let before = cluster::map_now(self.connector, self.nodes()).await?;
        let ready_by = self.torment.machines[node].ready_by();
        let after = cluster::map_now(self.connector, self.nodes()).await?;
        // A fact that holds by both maps holds by all maps between them.
        let is_known = ready_by.filter(|version| (before.version..=after.version).contains(version)).is_some();
        if let Some(slice) = is_known.then(|| lacks_throughout(&before, &after, node)).flatten() {
            lock(self.history).ready_without.push((now_us(), node, slice));
        }
        Ok(is_known)
    }

    /// Returns whether all nodes are up and all slices are complete.
    async fn is_whole(&self) -> turmoil::Result<bool> {
        let map = cluster::map_now(self.connector, self.nodes()).await?;
        Ok(missing(&map).or_else(|| incomplete(&map)).is_none())
    }

    async fn lose_leader(&self, rng: &mut SeededRng) -> turmoil::Result {
        moves::begin_some(self.scenario(), self.connector, rng).await?;
        let (map, leader) = cluster::status(self.connector, self.nodes()).await?;
        let Some(node) = leader.and_then(|leader| index_of(&map, leader)) else { return Ok(()) };
        let is_moving = map.filter_named(FILTER).is_some_and(|(_, record)| record.moves().next().is_some());
        let fault = if is_moving { Fault::LeaderLoss } else { Fault::Kill };
        self.end(&[Order::Kill(node)], fault, rng).await;
        Ok(())
    }

    /// Pauses a node, so that no message reaches or leaves it and its clock shows the same time during the whole pause.
    /// However, the node's timers continue, because the simulation cannot stop a host. A real process is stopped by
    /// `firstseen-lab chaos run pause`.
    async fn pause(&self, node: usize, rng: &mut SeededRng) {
        let machine = &self.torment.machines[node];
        let others: Vec<String> = self.hosts().filter(|host| *host != node_name(node)).collect();
        let from_us = now_us();
        machine.clock.stop();
        others.iter().for_each(|other| turmoil::hold(node_name(node), other.as_str()));
        pause(100, 4_000, rng).await;
        machine.clock.go_on();
        others.iter().for_each(|other| turmoil::release(node_name(node), other.as_str()));
        self.fired.note(Fault::Pause, Some(node));
        self.note_outage(node, from_us);
        // Messages that were in flight to the node arrive while its clock stands still.
        lock(self.history).periods.wrong_clocks.push((from_us, now_us()));
    }

    fn set_clock(&self, node: usize, rng: &mut SeededRng) {
        let clock = &self.torment.machines[node].clock;
        let before_ms = clock.ahead_ms();
        let after_ms = ahead_ms(rng);
        clock.set_ahead_ms(after_ms);
        self.fired.note(if after_ms < before_ms { Fault::ClockBack } else { Fault::ClockForward }, Some(node));
    }

    async fn on_links(&self, until_us: u64) -> turmoil::Result {
        let mut rng = SeededRng::new(self.scenario().seed ^ DICE_OF_LINKS);
        while now_us() < until_us {
            pause(100, 1_200, &mut rng).await;
            let fault = rng.pick(&OF_LINKS);
            let node = rng.below(self.nodes() as u64) as usize;
            let from_us = now_us();
            let name = [node_name(node)];
            let others: Vec<String> = (0..self.nodes()).filter(|other| *other != node).map(node_name).collect();
            self.fired.note(fault, Some(node));
            match fault {
                Fault::Partition => {
                    links(&name, &others).for_each(|(here, there)| turmoil::hold(here, there));
                    if rng.below(2) == 0 {
                        self.cut(&name, &others);
                    }
                    pause(100, 4_000, &mut rng).await;
                    release(&self.torment.machines, node);
                }
                Fault::OneWayPartition => {
                    links(&name, &others).for_each(|(here, there)| turmoil::partition_oneway(here, there));
                    pause(100, 3_000, &mut rng).await;
                    release(&self.torment.machines, node);
                    // Bytes that are lost in mid-stream are never sent again in this simulation, so the connections
                    // have to end.
                    self.cut(&name, &others);
                }
                Fault::Loss => {
                    links(&name, &others).for_each(|(here, there)| turmoil::partition(here, there));
                    pause(20, 300, &mut rng).await;
                    release(&self.torment.machines, node);
                    self.cut(&name, &others);
                }
                Fault::Delay | Fault::Reorder => {
                    let most_ms = 50 + rng.below(400);
                    let least_ms = if fault == Fault::Delay { most_ms } else { 1 };
                    self.torment.order(Order::Latency(node, least_ms, most_ms));
                    pause(500, 3_000, &mut rng).await;
                    self.torment.order(Order::Latency(node, 1, self.scenario().latency_max_ms));
                }
                _ => self.torment.breakers[rng.below(self.torment.breakers.len() as u64) as usize].reset(),
            }
            if matches!(fault, Fault::Partition | Fault::OneWayPartition) {
                self.note_outage(node, from_us);
            }
        }
        Ok(())
    }

    /// Breaks the connections between a node and others.
    fn cut(&self, node: &[String], others: &[String]) {
        let others = addresses(others);
        self.torment.streams.cut(&addresses(node), &others);
    }

    fn note_outage(&self, site: usize, from_us: u64) {
        let until_us = now_us();
        if until_us - from_us > UNHEARD_MS * 1000 {
            lock(self.history).outages.push(Outage { site, from_us, until_us, is_silent: true });
        }
    }

    /// Returns the hosts that send messages.
    fn hosts(&self) -> impl Iterator<Item = String> {
        let producers = (0..self.scenario().producers).map(producer_name);
        (0..self.nodes()).map(node_name).chain(producers).chain(["operator".to_owned()])
    }

    /// Waits until everything is complete again. Records since when that is so, or what is not complete.
    pub(crate) async fn heal(&self) -> turmoil::Result {
        // By then the map contains the last starts of nodes.
        tokio::time::sleep(2 * MAP_DELAY_MAX).await;
        let end = tokio::time::Instant::now() + HEAL_MAX;
        let lost = loop {
            let map = cluster::map_now(self.connector, self.nodes()).await?;
            let lost = missing(&map).or_else(|| {
                // If the window does not end, a node has permanently lost the events that it missed.
                if self.scenario().is_short() { incomplete(&map) } else { None }
            });
            if lost.is_none() || tokio::time::Instant::now() > end {
                break lost;
            }
            tokio::time::sleep(LOOK).await;
        };
        tokio::time::sleep(MAP_DELAY_MAX).await;
        if self.scenario().named {
            // If heads have changed, replies to idempotency keys are forgotten. Once no submission may be retried, that
            // no longer matters.
            tokio::time::sleep(Duration::from_millis(u64::from(self.scenario().retry_horizon_ms))).await;
        }
        let healed = Healed { at_us: now_us(), is_whole: self.scenario().is_short(), lacks: lost };
        lock(self.history).healed = Some(healed);
        Ok(())
    }
}

/// Returns how far a clock is set ahead of the time, or behind it if negative.
fn ahead_ms(rng: &mut SeededRng) -> i64 {
    rng.below(2 * CLOCK_AHEAD_MS_MAX + 1) as i64 - CLOCK_AHEAD_MS_MAX as i64
}

/// Ends a fault of the links between a node and the other nodes, except for links of a paused node, which stay closed.
/// The clock of a paused node does not advance. If the node received messages, it would stamp their events with the
/// time at which the pause began.
fn release(machines: &[Machine], node: usize) {
    for other in (0..machines.len()).filter(|other| *other != node) {
        if machines[node].clock.is_stopped() || machines[other].clock.is_stopped() {
            turmoil::hold(node_name(node), node_name(other));
        } else {
            turmoil::release(node_name(node), node_name(other));
        }
    }
}

async fn pause(least_ms: u64, below_ms: u64, rng: &mut SeededRng) {
    tokio::time::sleep(Duration::from_millis(least_ms + rng.below(below_ms))).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use turmoil::net::UdpSocket;

    use super::*;

    const ANY: &str = "0.0.0.0:7400";

    #[test]
    fn nothing_reaches_a_node_that_stands_still_though_another_fault_of_its_links_ends() {
        let mut sim = turmoil::Builder::new().build();
        let arrived = Arc::new(AtomicBool::new(false));
        let (machines, receives) = ([Machine::default(), Machine::default()], arrived.clone());
        sim.host(node_name(1), move || {
            let receives = receives.clone();
            async move {
                UdpSocket::bind(ANY).await?.recv_from(&mut [0; 8]).await?;
                receives.store(true, Ordering::Relaxed);
                Ok(())
            }
        });
        sim.client(node_name(0), async move {
            let is_heard = async || {
                tokio::time::sleep(LOOK).await;
                arrived.load(Ordering::Relaxed)
            };
            let socket = UdpSocket::bind(ANY).await?;
            assert!(!is_heard().await);
            turmoil::partition_oneway(node_name(1), node_name(0));
            machines[1].clock.stop();
            turmoil::hold(node_name(0), node_name(1));
            socket.send_to(b"an event", (node_name(1), 7400)).await?;
            release(&machines, 0);
            assert!(!is_heard().await, "the other stands still");
            release(&machines, 1);
            assert!(!is_heard().await, "it stands still itself");
            machines[1].clock.go_on();
            release(&machines, 1);
            assert!(is_heard().await, "it goes on");
            Ok(())
        });
        sim.run().expect("it ends");
    }
}
