//! Cuts off a node that is the only one to answer for a slice, together with one producer. The node and the producer
//! can still reach each other, but no other host.
//!
//! The node stays cut off until the other nodes have continued without it. In some runs, it stays cut off even longer,
//! until the events that only this node has recorded have expired. The seed and the cluster map at the time of the
//! fault determine which node and which producer are cut off.

use std::time::Duration;

use firstseen_checker::history::{Forgiven, Outage};
use firstseen_routing::{ClusterMap, Durability, NodeId, SliceMove};

use crate::clock::now_us;
use crate::cluster::{self, FILTER, node_name};
use crate::fault_injector::{FaultInjector, Order, loss};
use crate::holdings::NodeEvents;
use crate::net::{SimConnector, addresses, links};
use crate::principals::producer_name;
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};

/// Seed of the random numbers for cut-offs, which are independent of the other random numbers of a run.
const OF_SECLUSIONS: u64 = 0x5EC1;
/// Number of nodes that are cut off, one after the other.
const ROUNDS: u64 = 3;
/// Time without a node after which the other nodes continue without it.
const GIVEN_UP: Duration = Duration::from_millis(2_500);
/// Time after which a node that is back has fetched what it lacks, or reports that it has not.
const REJOINED: Duration = Duration::from_secs(4);

/// The nemesis that cuts nodes off.
pub(crate) struct Seclusion<'a> {
    pub(crate) torment: &'a FaultInjector,
    pub(crate) connector: &'a SimConnector,
    pub(crate) history: &'a SharedHistory,
    pub(crate) events: &'a [NodeEvents],
}

impl Seclusion<'_> {
    /// Cuts nodes off for some rounds.
    pub(crate) async fn inject_faults(&self) -> turmoil::Result {
        let mut rng = SeededRng::new(self.scenario().seed ^ OF_SECLUSIONS);
        for _ in 0..ROUNDS {
            tokio::time::sleep(Duration::from_millis(500 + rng.below(1_000))).await;
            self.seclude(&mut rng).await?;
            tokio::time::sleep(REJOINED).await;
        }
        Ok(())
    }

    fn scenario(&self) -> &Scenario {
        &self.torment.scenario
    }

    /// Ends one of two nodes that have a slice, so that the other node answers alone. Then cuts that node off and
    /// starts the first one again.
    async fn seclude(&self, rng: &mut SeededRng) -> turmoil::Result {
        let scenario = self.scenario();
        let map = cluster::map_now(self.connector, scenario.nodes).await?;
        let Some((alone, away)) = self.pair(&map, rng) else { return Ok(()) };
        self.torment.order(Order::Kill(away));
        if scenario.durability == Durability::Memory {
            lock(self.history).losses.push(loss(away, now_us(), self.events));
        }
        tokio::time::sleep(GIVEN_UP).await;
        let producer = rng.below(u64::from(scenario.producers)) as u32;
        let inside = [node_name(alone), producer_name(producer)];
        let outside: Vec<String> = self.hosts().filter(|host| !inside.contains(host)).collect();
        let from_us = now_us();
        links(&inside, &outside).for_each(|(here, there)| turmoil::hold(here, there));
        if rng.below(2) == 0 {
            self.torment.streams.cut(&addresses(&inside), &addresses(&outside));
        }
        self.torment.order(Order::Start(away));
        let until_us = from_us + 1_000 * (5_000 + rng.below(3 * scenario.window_ms + 3_000));
        self.meddle((alone, away), until_us, rng).await?;
        tokio::time::sleep(Duration::from_micros(until_us.saturating_sub(now_us()))).await;
        links(&inside, &outside).for_each(|(here, there)| turmoil::release(here, there));
        let outage = Outage { site: alone, from_us, until_us: now_us(), is_silent: true };
        lock(self.history).outages.push(outage);
        Ok(())
    }

    /// Returns two nodes that have the same slice. If each slice has only one copy, returns two nodes with slices of
    /// the same filter.
    fn pair(&self, map: &ClusterMap, rng: &mut SeededRng) -> Option<(usize, usize)> {
        let (_, record) = map.filter_named(FILTER)?;
        let slice = rng.below(record.owners.len() as u64) as u32;
        let mut holders: Vec<usize> =
            record.copies_of(slice).filter_map(|copy| self.index_of(map, copy.node)).collect();
        let others: Vec<usize> = (0..self.scenario().nodes).filter(|node| !holders.contains(node)).collect();
        if holders.len() < 2 {
            holders.push(rng.pick(&others));
        }
        let first = rng.below(holders.len() as u64) as usize;
        Some((holders[first], holders[(first + 1) % holders.len()]))
    }

    fn index_of(&self, map: &ClusterMap, node: NodeId) -> Option<usize> {
        let name = &map.nodes.get(&node)?.name;
        (0..self.scenario().nodes).find(|index| node_name(*index) == *name)
    }

    /// Lets an operator move slices away from the node that is cut off, or forgive the filter's losses.
    async fn meddle(&self, (alone, away): (usize, usize), until_us: u64, rng: &mut SeededRng) -> turmoil::Result {
        let choice = rng.below(3);
        let after_ms = 2_500 + rng.below(2_000);
        if choice == 0 || now_us() + 1_000 * after_ms > until_us {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(after_ms)).await;
        let third = (0..self.scenario().nodes).find(|node| *node != alone && *node != away);
        let Some(third) = third else { return Ok(()) };
        if choice == 1 {
            let begun_us = now_us();
            let is_done = cluster::forgive(self.connector, third).await;
            if is_done {
                lock(self.history).forgiven.push(Forgiven { begun_us, ended_us: now_us() });
            }
            return Ok(());
        }
        let map = cluster::map_now(self.connector, self.scenario().nodes).await?;
        let Some((filter, record)) = map.filter_named(FILTER) else { return Ok(()) };
        let Some((from, _)) = map.node_named(&node_name(alone)) else { return Ok(()) };
        let Some((to, _)) = map.node_named(&node_name(third)) else { return Ok(()) };
        let slices: Vec<u32> = (0..record.owners.len() as u32)
            .filter(|slice| record.copies_of(*slice).any(|copy| copy.node == from))
            .collect();
        for slice in slices {
            cluster::begin_move(self.connector, third, filter, SliceMove { slice, from, to }).await;
        }
        Ok(())
    }

    /// Returns the hosts that send messages.
    fn hosts(&self) -> impl Iterator<Item = String> {
        let producers = (0..self.scenario().producers).map(producer_name);
        (0..self.scenario().nodes).map(node_name).chain(producers).chain(["operator".to_owned()])
    }
}
