//! Renews this node's lease: leave to record, which the node asks of the cluster again and again
//! (`firstseen_routing::Lease`).
//!
//! Promises: a lease counts from the moment at which the node asked for it, and only once the node acts on all that was
//! agreed on by then. Must not know: what is recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use firstseen_meta::Meta;
use firstseen_routing::{ClusterMap, Incarnation, Lease, Moment, MonotonicMs, NodeId, leases_over_after_ms};
use firstseen_wire::watch;

use crate::clock::Clock;
use crate::config::Timing;
use crate::view::{Me, Views};

/// The node asks for a lease so many times before the last one is over.
const TRIES: u64 = 8;

/// While there is none, the node asks again after so long.
const AGAIN: Duration = Duration::from_millis(100);

/// The lease of this node, as its owners see it.
#[derive(Debug)]
pub(crate) struct SharedLease(Mutex<Held>);

#[derive(Debug)]
struct Held {
    lease: Lease,
    /// How often the machine may have stood still before the lease was asked for (`ClockWatch::standstills`).
    standstills: u64,
}

impl Default for SharedLease {
    fn default() -> Self {
        Self(Mutex::new(Held { lease: Lease::NONE, standstills: 0 }))
    }
}

impl SharedLease {
    /// One that never ends.
    #[cfg(test)]
    pub(crate) fn endless() -> Self {
        Self(Mutex::new(Held { lease: Lease::ENDLESS, standstills: 0 }))
    }

    /// The newest.
    pub(crate) fn newest(&self) -> Lease {
        self.held().lease
    }

    /// The machine may have stood still so often by now. A lease from before that may be over, whatever the clocks show.
    pub(crate) fn stood_still(&self, standstills: u64) {
        let mut held = self.held();
        if held.standstills != standstills {
            *held = Held { lease: Lease::NONE, standstills };
        }
    }

    /// A lease was granted that was asked for when the machine had stood still so often.
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
    /// How often the machine may have stood still, as that changes.
    pub(crate) standstills: watch::Receiver<u64>,
    pub(crate) views: Views,
    pub(crate) lease_ms: u64,
    /// How far the clocks of two nodes may differ.
    pub(crate) skew_max_ms: u64,
}

impl LeaseRenewal {
    /// Asks for leases, one after the other.
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
            // An answer that comes after the lease would end is of no use.
            let granted = tokio::time::timeout(limit, self.is_granted(incarnation)).await.unwrap_or(false);
            if granted {
                self.lease.grant(Lease::granted(asked, self.lease_ms, self.skew_max_ms), standstills);
            }
            log_change(&mut is_held, self.lease.newest().holds(self.clock.now()));
            let pause = if is_held { between } else { between.min(AGAIN) };
            // A lease that has ended with a standstill is asked for again at once.
            let _ = tokio::time::timeout(pause, self.standstills.changed()).await;
        }
    }

    /// Whether the cluster counts this start as up, and the node acts on all that was agreed on at the time of the
    /// question.
    async fn is_granted(&self, incarnation: Incarnation) -> bool {
        let version = match self.meta.confirm_up(incarnation).await {
            Ok(Some(version)) => version,
            Ok(None) => return false,
            Err(error) => {
                tracing::debug!(%error, "nobody says whether this node counts as up");
                return false;
            }
        };
        let mut views = self.views.clone();
        // The node may count as started anew meanwhile; the next question is about that start.
        let settled = views.wait_for(|view| !view.is_of_start(incarnation) || view.map.version >= version).await;
        settled.is_ok() && self.views.borrow().is_of_start(incarnation)
    }
}

/// Logs when the lease ends and when it begins again.
fn log_change(was_held: &mut bool, is_held: bool) {
    match (std::mem::replace(was_held, is_held), is_held) {
        (true, false) => tracing::warn!(
            "no majority of the cluster has been heard for so long that others may answer in this node's place: what is new \
             is undecided (cut_off) until one is"
        ),
        (false, true) => tracing::info!("a majority of the cluster is heard: new events are recorded"),
        _ => {}
    }
}

/// Why nothing is recorded, where that is so.
pub(crate) fn not_held(lease: Lease, now: Moment) -> Option<String> {
    let cut_off = "no majority of the cluster has been heard lately (`timing.lease_ms`), so others may answer in this \
                   node's place: new events are undecided here; bring the other nodes or the way to them back";
    (!lease.holds(now)).then(|| cut_off.to_owned())
}

/// The time since when this node knows that others are down.
#[derive(Debug, Default)]
pub(crate) struct Downs(Mutex<BTreeMap<NodeId, (Incarnation, MonotonicMs)>>);

impl Downs {
    /// The map counts, at this time.
    pub(crate) fn follow(&self, map: &ClusterMap, now_ms: MonotonicMs) {
        let mut downs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        downs.retain(|node, (incarnation, _)| {
            map.nodes.get(node).is_some_and(|record| record.is_down && record.incarnation == *incarnation)
        });
        for (node, record) in map.nodes.iter().filter(|(_, record)| record.is_down) {
            downs.entry(*node).or_insert((record.incarnation, now_ms));
        }
    }

    /// Nodes that are down, with their starts, where none of them can have a lease any more; otherwise a node that may
    /// have one, and for how many milliseconds.
    pub(crate) fn ended(
        &self,
        now_ms: MonotonicMs,
        timing: &Timing,
    ) -> Result<BTreeMap<NodeId, Incarnation>, (NodeId, u64)> {
        let downs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over_after_ms = leases_over_after_ms(timing.lease_ms, timing.clock_skew_max_ms);
        for (node, (_, since_ms)) in &*downs {
            let left_ms = since_ms.after(over_after_ms).since(now_ms);
            if left_ms > 0 {
                return Err((*node, left_ms));
            }
        }
        Ok(downs.iter().map(|(node, (incarnation, _))| (*node, *incarnation)).collect())
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
        lease.stood_still(before);
        assert!(lease.newest().holds(now), "nothing new was found");
        lease.stood_still(before + 1);
        assert!(!lease.newest().holds(now));
        lease.grant(granted, before);
        assert!(!lease.newest().holds(now), "it was asked for before the machine stood still");
        lease.grant(granted, lease.standstills());
        assert!(lease.newest().holds(now));
    }

    #[test]
    fn who_is_down_may_have_a_lease_until_that_is_over() {
        let downs = Downs::default();
        downs.follow(&map(false, 1), MonotonicMs(0));
        assert_eq!(downs.ended(MonotonicMs(0), &timing()), Ok(BTreeMap::new()));
        downs.follow(&map(true, 1), MonotonicMs(100));
        downs.follow(&map(true, 1), MonotonicMs(5_000));
        assert_eq!(downs.ended(MonotonicMs(5_100), &timing()), Err((NodeId(1), 1_500)));
        assert_eq!(downs.ended(MonotonicMs(6_600), &timing()), Ok(BTreeMap::from([(NodeId(1), Incarnation(1))])));
    }

    #[test]
    fn another_start_that_is_down_is_waited_for_anew() {
        let downs = Downs::default();
        downs.follow(&map(true, 1), MonotonicMs(0));
        downs.follow(&map(true, 2), MonotonicMs(9_000));
        assert_eq!(downs.ended(MonotonicMs(9_000), &timing()), Err((NodeId(1), 6_500)));
        downs.follow(&map(false, 3), MonotonicMs(9_001));
        assert_eq!(downs.ended(MonotonicMs(9_001), &timing()), Ok(BTreeMap::new()));
    }
}
