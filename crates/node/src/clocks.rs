//! The knowledge of a node about its own clock and the clocks of other nodes. Links between nodes measure how far the
//! clocks differ. Owner threads use the result to assign correct times to events, and the console uses it to warn
//! operators of wrong clocks. The rules for deciding which clock is wrong are in `firstseen_routing::ClockWatch`.
//!
//! # Guarantees
//! - Owners use the time of day as of the last comparison of clocks. The clocks are compared when a peer sends its
//!   time, when the cluster map changes, and at regular intervals.
//! - The log reports when the clock of this node becomes wrong, and when it is correct again.
//!
//! This module does not depend on the events whose times the clock determines.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use firstseen_filter::duration;
use firstseen_routing::rules::{Rule, Rules};
use firstseen_routing::{
    ClockStanding, ClockWatch, Exchange, Incarnation, Moment, MonotonicMs, NodeId, Offset, Reading, TimeOfDay,
};
use firstseen_wire::proto::admin::NodeClock;
use firstseen_wire::watch;

use crate::clock::Clock;
use crate::last_time::LastTime;
#[cfg(test)]
use crate::last_time::NoLastTime;
use crate::lease::SharedLease;
use crate::view::{View, Views};

/// Maximum interval between two comparisons of the clocks.
const LOOK: Duration = Duration::from_millis(250);
/// Interval at which the node stores the time of day, in milliseconds. When the node starts again, it compares its
/// clock with the stored time, to detect that its clock was set to a wrong time in the meantime. The stored time may be
/// up to one interval old. This does no harm, because only differences that are much longer than the interval are
/// treated as errors.
const KEEP_EVERY_MS: u64 = 10_000;

/// Problems of this node's clock that operators should know about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockAlarms {
    /// The clock is wrong, so no event receives its time from it.
    pub(crate) is_wrong: bool,
    /// The clock differs from the others, so that an operator should at least check it.
    pub(crate) is_apart: bool,
}

/// State of the clocks of this node and its peers.
pub(crate) struct Clocks {
    skew_max_ms: u64,
    is_checked: bool,
    watch: Mutex<ClockWatch>,
    time: Mutex<TimeOfDay>,
    last_time: Arc<dyn LastTime>,
    lease: Arc<SharedLease>,
    /// Number of times that this machine may have been paused.
    standstills: watch::Sender<u64>,
}

impl Clocks {
    /// Creates the clock state of a node that has just started and has not received the time of another node yet. Until
    /// the node receives such a time, it compares its clock with `last_time`, the time of day that it stored before the
    /// restart. If the two differ by more than `skew_max_ms`, the node treats its clock as wrong.
    ///
    /// The node revokes `lease` when this machine may have been paused, because the lease may have ended during the
    /// pause.
    pub(crate) fn new(skew_max_ms: u64, rules: Rules, last_time: Arc<dyn LastTime>, lease: Arc<SharedLease>) -> Self {
        let is_checked = rules.keep(Rule::MeasuresClocks);
        let time = if is_checked { TimeOfDay::UNKNOWN } else { TimeOfDay::UNCHECKED };
        let ran_until_ms = last_time.read().filter(|_| rules.keep(Rule::ChecksClockAtStart));
        let watch = ClockWatch::new(skew_max_ms).after(ran_until_ms);
        let watch = if rules.keep(Rule::DetectsSuspensions) { watch } else { watch.without_standstills() };
        let watch = Mutex::new(watch);
        let time = Mutex::new(time);
        Self { skew_max_ms, is_checked, watch, time, last_time, lease, standstills: watch::Sender::new(0) }
    }

    /// Creates the state of a node whose clock is not compared with others.
    #[cfg(test)]
    pub(crate) fn unchecked() -> Self {
        Self {
            skew_max_ms: 0,
            is_checked: false,
            watch: Mutex::new(ClockWatch::new(0)),
            time: Mutex::new(TimeOfDay::UNCHECKED),
            last_time: Arc::new(NoLastTime),
            lease: Arc::default(),
            standstills: watch::Sender::new(0),
        }
    }

    /// Returns the rule by which the clocks must currently be read.
    pub(crate) fn time_of_day(&self) -> TimeOfDay {
        *self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time of day if it is reliable.
    pub(crate) fn reliable_wall_ms(&self, now: Moment) -> Option<u64> {
        let Reading { moment, doubt } = self.time_of_day().read(now);
        doubt.is_none().then_some(moment.wall_ms)
    }

    /// Returns the state of the clock, and how many milliseconds it is ahead of most other clocks.
    fn standing(&self, now: Moment) -> (ClockStanding, i64) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        (watch.standing(), watch.ahead_ms(now))
    }

    /// Returns how far the clock of a peer is ahead of this node's clock.
    pub(crate) fn offset(&self, peer: NodeId, now: Moment) -> Option<Offset> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).offset(peer, now)
    }

    /// Returns the lease, which says until when this node may record events.
    pub(crate) fn lease(&self) -> &Arc<SharedLease> {
        &self.lease
    }

    /// Returns a receiver of the number of times that this machine may have been paused.
    pub(crate) fn standstills(&self) -> watch::Receiver<u64> {
        self.standstills.subscribe()
    }

    /// Returns whether an operator should check the clock.
    pub(crate) fn alarms(&self, now: Moment) -> ClockAlarms {
        let (standing, _) = self.standing(now);
        let is_wrong = matches!(standing, ClockStanding::Beyond | ClockStanding::Stepped | ClockStanding::Stood);
        ClockAlarms { is_wrong, is_apart: is_wrong || standing == ClockStanding::Apart }
    }

    /// Returns how far the known clocks of all nodes, including this one, are ahead of the median clock.
    pub(crate) fn of_nodes(&self, now: Moment, view: &View) -> Vec<NodeClock> {
        let (Some(me), Some(others)) = (view.node(), others(view)) else { return Vec::new() };
        let (_, own_ms) = self.standing(now);
        let mut clocks = vec![NodeClock { node_id: me.0, ahead_ms: own_ms, uncertain_ms: 0 }];
        for peer in others {
            if let Some(Offset { ahead_ms, uncertain_ms }) = self.offset(peer, now) {
                clocks.push(NodeClock { node_id: peer.0, ahead_ms: ahead_ms.saturating_add(own_ms), uncertain_ms });
            }
        }
        clocks
    }

    /// Processes the time of day that a peer has sent.
    pub(crate) fn hear(&self, peer: NodeId, exchange: Exchange, now: Moment, view: &View) {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let before = watch.standing();
        watch.hear(peer, exchange);
        drop(watch);
        self.look_after(before, now, view);
    }

    /// Compares the clocks.
    fn look(&self, now: Moment, view: &View) {
        let before = self.standing(now).0;
        self.look_after(before, now, view);
    }

    /// Compares the clocks, and logs differences from the state `before`.
    fn look_after(&self, before: ClockStanding, now: Moment, view: &View) {
        // The nodes to compare with are unknown until the cluster map contains the current start of this node.
        let Some(others) = others(view) else { return };
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = watch.look(now, &others);
        if self.is_checked {
            *self.time.lock().unwrap_or_else(PoisonError::into_inner) = watch.time_of_day();
        }
        self.note_standstills(watch.standstills());
        log_change(before, standing, watch.ahead_ms(now), self.skew_max_ms);
    }

    /// Notifies the users of the clocks if this machine may have been paused again.
    fn note_standstills(&self, found: u64) {
        self.lease.revoke_after_suspension(found);
        self.standstills.send_if_modified(|known| std::mem::replace(known, found) != found);
    }

    /// Returns the reason why events currently receive no time. `None` means that the time of day is reliable.
    pub(crate) fn not_sure(&self, now: Moment) -> Option<String> {
        let (standing, ahead_ms) = self.standing(now);
        let time = self.time_of_day();
        time.read(now).doubt?;
        Some(match standing {
            ClockStanding::Unknown => "the clocks of most other nodes have not been measured yet".to_owned(),
            ClockStanding::Beyond => format!(
                "the clock of this node is {} those of most others, and at most {} is allowed \
                 (`timing.clock_skew_max_ms`): events in windows of time are undecided here; correct the clock",
                difference(ahead_ms),
                duration(self.skew_max_ms)
            ),
            ClockStanding::Stood => format!(
                "the clock of another node has gained more than {} (`timing.clock_skew_max_ms`) on this one, because \
                 this machine was paused or that clock was set: events in windows of time are undecided here until \
                 most other nodes have sent their time again",
                duration(self.skew_max_ms)
            ),
            _ => format!(
                "the clock of this node was set by more than {} (`timing.clock_skew_max_ms`), or does not continue \
                 from the last run of the node: events in windows of time are undecided here until the clocks of most \
                 other nodes confirm it or, without other nodes, until it has been steady for {} s",
                duration(self.skew_max_ms),
                firstseen_routing::BELIEVED_AFTER_MS / 1000
            ),
        })
    }
}

/// Returns the other nodes that are not down. Returns `None` if this node does not belong to a cluster.
fn others(view: &View) -> Option<Vec<NodeId>> {
    let me = view.node()?;
    let nodes = view.map.nodes.iter();
    let up = nodes.filter(|(_, node)| !node.is_down && node.incarnation != Incarnation::default());
    Some(up.map(|(node, _)| *node).filter(|node| *node != me).collect())
}

/// Compares the clocks at regular intervals, and stores the time of day for the next start while it is reliable.
pub(crate) async fn keep(clocks: Arc<Clocks>, clock: Arc<dyn Clock>, mut views: Views) {
    let mut next_keep_ms = MonotonicMs::START;
    loop {
        let view = views.borrow_and_update().clone();
        let now = clock.now();
        clocks.look(now, &view);
        if let Some(wall_ms) = clocks.reliable_wall_ms(now).filter(|_| next_keep_ms <= now.monotonic_ms) {
            clocks.last_time.keep(wall_ms);
            next_keep_ms = now.monotonic_ms.after(KEEP_EVERY_MS);
        }
        if tokio::time::timeout(LOOK, views.changed()).await.is_ok_and(|changed| changed.is_err()) {
            return;
        }
    }
}

/// Formats a difference of clocks, for example `1h ahead of`.
fn difference(ahead_ms: i64) -> String {
    let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
    format!("{} {side}", duration(ahead_ms.unsigned_abs()))
}

/// Logs a change of the clock's state.
fn log_change(before: ClockStanding, now: ClockStanding, ahead_ms: i64, skew_max_ms: u64) {
    let apart = difference(ahead_ms);
    match (before, now) {
        _ if before == now => {}
        (_, ClockStanding::Beyond) => tracing::error!(
            skew_max_ms,
            "the clock of this node is {apart} those of most others: events in windows of time are undecided \
             (clock_skew) until it is corrected"
        ),
        (_, ClockStanding::Stepped) => tracing::warn!(
            skew_max_ms,
            "the clock of this node was set: events in windows of time are undecided (clock_skew) until other clocks \
             confirm its time"
        ),
        (_, ClockStanding::Stood) => tracing::warn!(
            skew_max_ms,
            "the clock of another node has gained on this one, because this machine was paused or that clock was set: \
             events in windows of time are undecided (clock_skew), and new events are not recorded, until most other \
             nodes have answered again"
        ),
        (_, ClockStanding::Apart) => {
            tracing::warn!(skew_max_ms, "the clock of this node is {apart} those of most others: check it");
        }
        (ClockStanding::Unknown, _) => tracing::debug!("the clock of this node agrees with those of most others"),
        _ => tracing::info!("the clock of this node agrees with those of most others again"),
    }
}
