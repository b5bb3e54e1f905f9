//! The operator of a simulated run. The operator sets up the cluster and creates the filter, on which the producers
//! begin to send events. It then moves slices and causes faults, and checks the state of the cluster at the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use firstseen_checker::history::Forgiven;
use firstseen_wire::watch;

use crate::access::{self, SecurityAdmin};
use crate::alterations::{self, Altered};
use crate::bits;
use crate::cells;
use crate::clock::now_us;
use crate::cluster;
use crate::cut_off::Seclusion;
use crate::fault_injector::FaultInjector;
use crate::faults::Fired;
use crate::holdings::{NodeEvents, events_by_node};
use crate::moves;
use crate::net::SimConnector;
use crate::scenario::{Nemesis, Scenario};
use crate::shared_history::{SharedHistory, lock};
use crate::storm::Storm;

/// Time for which producers continue after the last fault.
const CALM: Duration = Duration::from_secs(3);

/// Maximum time for which anything is in flight once all links work and no producer sends events.
const SETTLED: Duration = Duration::from_millis(500);

/// Maximum delay in microseconds after which a node acts on a new map that another node acts on.
const MAP_DELAY_US_MAX: u64 = 1_000_000;

/// The operator of the cluster.
pub(crate) struct Operator {
    pub(crate) torment: FaultInjector,
    pub(crate) connector: SimConnector,
    pub(crate) history: SharedHistory,
    pub(crate) fired: Fired,
    /// Whether the filter exists.
    pub(crate) ready: watch::Sender<bool>,
    /// Whether producers have ended and there are no more faults.
    pub(crate) quiet: watch::Sender<bool>,
}

impl Operator {
    pub(crate) async fn operate(self) -> turmoil::Result {
        let scenario = &self.torment.scenario;
        let map = cluster::set_up(scenario, &self.connector).await?;
        let events = events_by_node(scenario, &map)?;
        let keeper = access::keep(scenario, &self.connector, &self.history).await?;
        self.ready.send(true);
        match scenario.nemesis {
            Nemesis::Storm => self.weather(scenario, keeper).await?,
            Nemesis::CutOff => self.seclude(&events, keeper).await?,
            _ => {
                let (tormented, moved, altered) = tokio::join!(
                    self.torment.run(&events, &self.history),
                    self.keep_moving(scenario, || self.torment.left.load(Ordering::Relaxed) > 0),
                    alterations::begin(scenario, &self.connector, &self.fired, u64::MAX)
                );
                let () = tormented;
                moved?;
                self.note_forgotten(altered?);
                access::end(keeper).await?;
            }
        }
        if scenario.copies > 0 || scenario.moves {
            let lagging = cluster::lagging(&self.connector, scenario.nodes).await?;
            lock(&self.history).lagging = lagging;
        }
        if scenario.tree.is_some() {
            cells::look(scenario, &self.connector, &self.history).await?;
        }
        self.quiet.send(true);
        Ok(())
    }

    /// Records that the filter forgot all earlier events in an alteration, if it did.
    fn note_forgotten(&self, altered: Option<Altered>) {
        let forgets = self.torment.scenario.alteration.is_some_and(|alteration| alteration.forgets);
        if let Some(Altered { begun_us, seen_us, .. }) = altered.filter(|_| forgets) {
            // One node has shown the new map by then. The other nodes follow within this time.
            let ended_us = seen_us.saturating_add(MAP_DELAY_US_MAX);
            lock(&self.history).forgiven.push(Forgiven { begun_us, ended_us });
        }
    }

    /// Runs a storm, and the time after it in which everything must work.
    async fn weather(&self, scenario: &Scenario, keeper: Option<SecurityAdmin>) -> turmoil::Result {
        let until_us = now_us() + scenario.storm_ms * 1000;
        let storm =
            Storm { torment: &self.torment, connector: &self.connector, fired: &self.fired, history: &self.history };
        let (raged, altered) = tokio::join!(storm.inject_faults(until_us), self.rearrange(scenario, until_us));
        raged?;
        let altered = altered?;
        access::end(keeper).await?;
        storm.heal().await?;
        tokio::time::sleep(CALM).await;
        self.end_stage().await;
        // Events with replies before their cells were set have their cells set by then.
        tokio::time::sleep(SETTLED).await;
        let map = cluster::map_now(&self.connector, scenario.nodes).await?;
        bits::look(scenario, &map, altered.as_ref(), &self.connector, &self.history).await
    }

    /// Alters the filter, if the scenario contains an alteration, and then moves slices. A filter with moving slices
    /// cannot be altered.
    async fn rearrange(&self, scenario: &Scenario, until_us: u64) -> turmoil::Result<Option<Altered>> {
        let mut altered = alterations::begin(scenario, &self.connector, &self.fired, until_us).await?;
        let ends = async {
            match &mut altered {
                Some(altered) => alterations::end(altered, scenario, &self.connector).await,
                None => Ok(()),
            }
        };
        let (ended, moved) = tokio::join!(ends, self.keep_moving(scenario, || now_us() < until_us));
        ended.and(moved)?;
        Ok(altered)
    }

    /// Cuts nodes off one after the other, and then lets the cluster recover.
    async fn seclude(&self, events: &[NodeEvents], keeper: Option<SecurityAdmin>) -> turmoil::Result {
        let seclusion =
            Seclusion { torment: &self.torment, connector: &self.connector, history: &self.history, events };
        seclusion.inject_faults().await?;
        access::end(keeper).await?;
        tokio::time::sleep(CALM).await;
        self.end_stage().await;
        Ok(())
    }

    async fn end_stage(&self) {
        self.torment.stage.end();
        while self.torment.left.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn keep_moving(&self, scenario: &Scenario, goes_on: impl Fn() -> bool) -> turmoil::Result {
        if scenario.moves {
            lock(&self.history).moves_begun = moves::move_slices(scenario, &self.connector, goes_on).await?;
        }
        Ok(())
    }
}
