//! Renews the lease of this node. A lease is the permission to record events for a limited time
//! (`firstseen_routing::Lease`). Because every lease ends, the node requests a new one from the cluster again and
//! again. The time of a lease is counted from the moment at which the node sends the request. Even if the reply is
//! slow, the lease therefore does not end later than the cluster expects.
//!
//! A node with a lease must know every change of the cluster map that was made before the lease was granted. When the
//! cluster grants a lease, it therefore tells the node the current version of the cluster map. The node uses the lease
//! only when it has applied all changes up to this version.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstseen_meta::Meta;
use firstseen_routing::{ClusterMap, Incarnation, Lease, Moment, MonotonicMs, NodeId, leases_over_after_ms};
use firstseen_wire::watch;

use crate::clock::Clock;
use crate::config::Timing;
use crate::view::{Me, Views};

/// Number of times that the node requests a new lease within the duration of one lease.
const TRIES: u64 = 8;

/// Interval between two requests while the node has no lease.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The lease of this node, shared with its owners.
#[derive(Debug)]
pub(crate) struct SharedLease(Mutex<Held>);

#[derive(Debug)]
struct Held {
    lease: Lease,
    /// Number of pauses of the machine that had been detected when the lease was requested (`ClockWatch::standstills`).
    standstills: u64,
}

impl Default for SharedLease {
    fn default() -> Self {
        Self(Mutex::new(Held { lease: Lease::NONE, standstills: 0 }))
    }
}

impl SharedLease {
    /// Creates a lease that never ends.
    #[cfg(test)]
    pub(crate) fn endless() -> Self {
        Self(Mutex::new(Held { lease: Lease::ENDLESS, standstills: 0 }))
    }

    /// Returns the newest lease.
    pub(crate) fn newest(&self) -> Lease {
        self.held().lease
    }

    /// Revokes the lease if this machine was paused, for example because it slept. `standstills` is the number of
    /// pauses that have been detected since the node started. If it has increased since the last call, the lease may
    /// have ended during the new pause. The clock of the node cannot tell, because it may have stopped during the
    /// pause.
    pub(crate) fn revoke_after_suspension(&self, standstills: u64) {
        let mut held = self.held();
        if held.standstills != standstills {
            *held = Held { lease: Lease::NONE, standstills };
        }
    }

    /// Stores a granted lease. It is ignored if the machine may have been paused since the lease was requested.
    fn grant(&self, lease: Lease, standstills: u64) {
        let mut held = self.held();
        if held.standstills == standstills {
            held.lease = lease;
        }
    }

    fn standstills(&self) -> u64 {
        self.held().standstills
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task that renews the node's lease.
pub(crate) struct LeaseRenewal {
    pub(crate) meta: Meta,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lease: Arc<SharedLease>,
    /// Number of times that the machine may have been paused.
    pub(crate) standstills: watch::Receiver<u64>,
    pub(crate) views: Views,
    pub(crate) lease_ms: u64,
    /// Maximum difference between the clocks of two nodes, in milliseconds.
    pub(crate) skew_max_ms: u64,
}

impl LeaseRenewal {
    /// Requests leases, one after the other.
    pub(crate) async fn run(mut self) {
        let limit = Duration::from_millis(self.lease_ms);
        let between = Duration::from_millis((self.lease_ms / TRIES).max(1));
        let mut is_held = false;
        loop {
            if self.views.wait_for(|view| view.me.is_some()).await.is_err() {
                return;
            }
            let Some(Me { incarnation, .. }) = self.views.borrow().me else { continue };
            self.standstills.mark_seen();
            let standstills = self.lease.standstills();
            let asked = self.clock.now();
            // A reply that arrives after the lease would have ended has no effect.
            let granted = tokio::time::timeout(limit, self.is_granted(incarnation)).await.unwrap_or(false);
            if granted {
                self.lease.grant(Lease::granted(asked, self.lease_ms, self.skew_max_ms), standstills);
            }
            log_change(&mut is_held, self.lease.newest().holds(self.clock.now()));
            let pause = if is_held { between } else { between.min(RETRY_PAUSE) };
            // If a pause of the machine has ended the lease, a new lease is requested at once.
            let _ = tokio::time::timeout(pause, self.standstills.changed()).await;
        }
    }

    /// Waits for the cluster's reply to a lease request, and returns whether the node may use the lease. The cluster
    /// grants the lease if its map lists this node as up, with the incarnation `incarnation`, which identifies the
    /// current start of the node.
    ///
    /// When the cluster grants the lease, its reply contains the current version of the cluster map. This method waits
    /// until the node has applied that version, so that the node does not record events according to an outdated map.
    /// If the node counts as restarted in the meantime, the lease belongs to its previous start, and the result is
    /// `false`.
    async fn is_granted(&self, incarnation: Incarnation) -> bool {
        let version = match self.meta.confirm_up(incarnation).await {
            Ok(Some(version)) => version,
            Ok(None) => return false,
            Err(error) => {
                tracing::debug!(%error, "no node could confirm that this node counts as up");
                return false;
            }
        };
        let mut views = self.views.clone();
        // The node may count as restarted in the meantime. The next request then concerns the new start.
        let settled = views.wait_for(|view| !view.is_of_start(incarnation) || view.map.version >= version).await;
        settled.is_ok() && self.views.borrow().is_of_start(incarnation)
    }
}

/// Logs when the lease ends, and when the node has a lease again.
fn log_change(was_held: &mut bool, is_held: bool) {
    match (std::mem::replace(was_held, is_held), is_held) {
        (true, false) => tracing::warn!(
            "no majority of the cluster has answered for so long that other nodes may have replaced this node: new \
             events are undecided (cut_off) until a majority answers"
        ),
        (false, true) => {
            tracing::info!("a majority of the cluster has confirmed the lease of this node: new events are recorded")
        }
        _ => {}
    }
}

/// Returns the reason why new events are not recorded. `None` means that the node has a lease.
pub(crate) fn not_held(lease: Lease, now: Moment) -> Option<String> {
    let cut_off = "no majority of the cluster has answered recently (`timing.lease_ms`), so other nodes may have \
                   replaced this node: new events are undecided here; start the other nodes, or repair the network to \
                   them";
    (!lease.holds(now)).then(|| cut_off.to_owned())
}

/// Times since when this node has known that other nodes are down.
#[derive(Debug, Default)]
pub(crate) struct DownNodes(Mutex<BTreeMap<NodeId, (Incarnation, MonotonicMs)>>);

impl DownNodes {
    /// Updates the times according to a new cluster map, which took effect at `now_ms`.
    pub(crate) fn follow(&self, map: &ClusterMap, now_ms: MonotonicMs) {
        let mut down_nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        down_nodes.retain(|node, (incarnation, _)| {
            map.nodes.get(node).is_some_and(|record| record.is_down && record.incarnation == *incarnation)
        });
        for (node, record) in map.nodes.iter().filter(|(_, record)| record.is_down) {
            down_nodes.entry(*node).or_insert((record.incarnation, now_ms));
        }
    }

    /// Returns the nodes that are marked as down, with their incarnations, if the leases of all these nodes have
    /// certainly ended. If one of these nodes may still have a lease, the method returns an error. The error contains
    /// that node, and the number of milliseconds after which its lease has certainly ended.
    pub(crate) fn ended(
        &self,
        now_ms: MonotonicMs,
        timing: &Timing,
    ) -> Result<BTreeMap<NodeId, Incarnation>, (NodeId, u64)> {
        let down_nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over_after_ms = leases_over_after_ms(timing.lease_ms, timing.clock_skew_max_ms);
        for (node, (_, since_ms)) in &*down_nodes {
            let left_ms = since_ms.after(over_after_ms).since(now_ms);
            if left_ms > 0 {
                return Err((*node, left_ms));
            }
        }
        Ok(down_nodes.iter().map(|(node, (incarnation, _))| (*node, *incarnation)).collect())
    }
}

#[cfg(test)]
mod tests {
    use firstseen_routing::NodeRecord;

    use super::*;
    use crate::sample_map::node;

    fn map(is_down: bool, incarnation: u64) -> ClusterMap {
        let record = NodeRecord { incarnation: Incarnation(incarnation), is_down, ..node(NodeId(1)) };
        ClusterMap { nodes: BTreeMap::from([(NodeId(1), record)]), ..ClusterMap::default() }
    }

    fn timing() -> Timing {
        Timing { lease_ms: 6_400, clock_skew_max_ms: 0, ..Timing::default() }
    }

    #[test]
    fn a_lease_ends_with_a_standstill_also_one_that_was_asked_for_before() {
        let lease = SharedLease::default();
        let now = Moment { monotonic_ms: MonotonicMs(500), wall_ms: 1_000_000 };
        let granted = Lease::granted(now, 10_000, 1_000);
        let before = lease.standstills();
        lease.grant(granted, before);
        assert!(lease.newest().holds(now));
        lease.revoke_after_suspension(before);
        assert!(lease.newest().holds(now), "nothing new was found");
        lease.revoke_after_suspension(before + 1);
        assert!(!lease.newest().holds(now));
        lease.grant(granted, before);
        assert!(!lease.newest().holds(now), "it was asked for before the machine stood still");
        lease.grant(granted, lease.standstills());
        assert!(lease.newest().holds(now));
    }

    #[test]
    fn who_is_down_may_have_a_lease_until_that_is_over() {
        let down_nodes = DownNodes::default();
        down_nodes.follow(&map(false, 1), MonotonicMs(0));
        assert_eq!(down_nodes.ended(MonotonicMs(0), &timing()), Ok(BTreeMap::new()));
        down_nodes.follow(&map(true, 1), MonotonicMs(100));
        down_nodes.follow(&map(true, 1), MonotonicMs(5_000));
        assert_eq!(down_nodes.ended(MonotonicMs(5_100), &timing()), Err((NodeId(1), 1_500)));
        assert_eq!(down_nodes.ended(MonotonicMs(6_600), &timing()), Ok(BTreeMap::from([(NodeId(1), Incarnation(1))])));
    }

    #[test]
    fn another_start_that_is_down_is_waited_for_anew() {
        let down_nodes = DownNodes::default();
        down_nodes.follow(&map(true, 1), MonotonicMs(0));
        down_nodes.follow(&map(true, 2), MonotonicMs(9_000));
        assert_eq!(down_nodes.ended(MonotonicMs(9_000), &timing()), Err((NodeId(1), 6_500)));
        down_nodes.follow(&map(false, 3), MonotonicMs(9_001));
        assert_eq!(down_nodes.ended(MonotonicMs(9_001), &timing()), Ok(BTreeMap::new()));
    }
}
