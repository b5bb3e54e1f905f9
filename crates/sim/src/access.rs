//! Simulates an operator who changes access rights during a run. The operator first grants every producer its rights.
//! Then it repeatedly revokes the rights of one producer and restores them.
//!
//! The operator never grants a producer exactly the same rights twice. From the rights in a cluster map, the simulation
//! can therefore tell which of the operator's changes the map contains. At the end of the run, every producer has all
//! the rights again that it needs.

use std::time::Duration;

use firstseen_wire::net::{Connector, admin_client};
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::proto::admin::{ChangeAccessRequest, Grant, Rights, Verb};
use tokio::task::JoinHandle;

use crate::cluster::{FILTER, node_address};
use crate::fault_injector::Stage;
use crate::net::SimConnector;
use crate::principals::{HOLDER, producer_name};
use crate::scenario::Scenario;
use crate::seeded_rng::SeededRng;
use crate::shared_history::{SharedHistory, lock};

/// Seed of the random numbers for rights, which are independent of the other random numbers of a run.
const OF_RIGHTS: u64 = 0x21_6875 << 32;
/// Maximum number of times that the operator revokes the rights of one producer. Each time, the producer also loses a
/// right on a filter that does not exist, and never gets this right back. The only purpose of these additional rights
/// is that the producer's set of rights is different after each change.
const LOSSES_MAX: usize = 8;
/// Maximum time that one node may take to reply.
const ANSWER_MAX: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(100);

/// Handle of the running operator.
pub(crate) struct SecurityAdmin {
    over: Stage,
    keeping: JoinHandle<()>,
}

/// Enables access control in the cluster and starts to revoke rights. Does nothing if the scenario has no rights.
pub(crate) async fn keep(
    scenario: &Scenario,
    connector: &SimConnector,
    history: &SharedHistory,
) -> turmoil::Result<Option<SecurityAdmin>> {
    if !scenario.rights {
        return Ok(None);
    }
    let over = Stage::default();
    let mut changes = Changes {
        scenario: scenario.clone(),
        connector: connector.clone(),
        history: history.clone(),
        rng: SeededRng::new(scenario.seed ^ OF_RIGHTS),
        over: over.clone(),
    };
    changes.begin().await;
    Ok(Some(SecurityAdmin { over, keeping: tokio::spawn(changes.go_on()) }))
}

/// Waits until every producer has its rights permanently.
pub(crate) async fn end(keeper: Option<SecurityAdmin>) -> turmoil::Result {
    let Some(SecurityAdmin { over, keeping }) = keeper else { return Ok(()) };
    over.end();
    Ok(keeping.await?)
}

/// The changes of access rights.
struct Changes {
    scenario: Scenario,
    connector: SimConnector,
    history: SharedHistory,
    rng: SeededRng,
    over: Stage,
}

impl Changes {
    async fn begin(&mut self) {
        for number in 0..self.scenario.producers {
            let spares = (0..LOSSES_MAX).map(spare);
            // A producer with no right left does not see the filter and sends nothing. A producer with a remaining
            // right still tries.
            let left = self.rng.pick(&[None, Some(Verb::Describe), Some(Verb::Lookup)]);
            let left = left.map(|verb| right(verb, FILTER));
            let grants = [right(Verb::Observe, FILTER)].into_iter().chain(left).chain(spares).collect();
            self.change(Change::Grant(Rights { principal: producer_name(number), grants })).await;
        }
        let auditors = if self.scenario.tree.is_some() { self.scenario.nodes } else { 0 };
        for site in 0..auditors {
            let grants = vec![right(Verb::Lookup, FILTER)];
            self.change(Change::Grant(Rights { principal: format!("auditor-{site}"), grants })).await;
        }
        let grants = vec![right(Verb::Security, "")];
        self.change(Change::Grant(Rights { principal: "keeper".to_owned(), grants })).await;
        self.change(Change::Enable(true)).await;
    }

    async fn go_on(mut self) {
        let mut losses = vec![0; self.scenario.producers as usize];
        // By then all producers have connected.
        self.waits(1_000, 1_000).await;
        while !self.waits(200, 1_500).await {
            let number = HOLDER + 1 + self.rng.below(u64::from(self.scenario.producers) - 1) as u32;
            let lost = &mut losses[number as usize];
            if *lost == LOSSES_MAX {
                continue;
            }
            let principal = producer_name(number);
            let grants = vec![right(Verb::Observe, FILTER), spare(*lost)];
            *lost += 1;
            lock(&self.history).rights.revoked.insert(number);
            self.change(Change::Revoke(Rights { principal: principal.clone(), grants })).await;
            self.waits(300, 3_000).await;
            let grants = vec![right(Verb::Observe, FILTER)];
            self.change(Change::Grant(Rights { principal, grants })).await;
        }
    }

    /// Waits, but not beyond the end of the changes. Returns whether the end has come.
    async fn waits(&mut self, least_ms: u64, below_ms: u64) -> bool {
        let end = tokio::time::Instant::now() + Duration::from_millis(least_ms + self.rng.below(below_ms));
        while tokio::time::Instant::now() < end && !self.over.is_over() {
            tokio::time::sleep(PAUSE).await;
        }
        self.over.is_over()
    }

    /// Asks one node after the other until one reports that the change is agreed on.
    async fn change(&mut self, change: Change) {
        let command_id = u128::from(self.rng.below(u64::MAX)).to_le_bytes().to_vec();
        let request = ChangeAccessRequest { command_id: command_id.into(), change: Some(change) };
        loop {
            let asked = self.rng.below(self.scenario.nodes as u64) as usize;
            if let Ok(channel) = self.connector.channel(&node_address(asked), None) {
                let mut client = admin_client(channel);
                let answer = tokio::time::timeout(ANSWER_MAX, client.change_access(request.clone())).await;
                if matches!(answer, Ok(Ok(_))) {
                    return;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

fn right(verb: Verb, filters: &str) -> Grant {
    Grant { verb: verb.into(), filters: filters.to_owned() }
}

/// Returns a right on a filter that does not exist.
fn spare(number: usize) -> Grant {
    right(Verb::Describe, &format!("spare-{number}"))
}
