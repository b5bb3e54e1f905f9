//! What this node knows of its own clock and of other nodes' clocks, for its links, its owners and its operators
//! (`firstseen_routing::ClockWatch`).
//!
//! Promises: owners go by the time of day of the last look, and a look follows each time that a peer sends, each map,
//! and each tick; the log says when the clock begins to be wrong and when that ends. Must not know: what is stamped.

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

/// The time between two looks at the clocks where nothing else calls for one.
const LOOK: Duration = Duration::from_millis(250);
/// The time is kept for the next start this often: much more often than what a start takes for a step.
const KEEP_EVERY_MS: u64 = 10_000;

/// What operators are to know of the clock of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockAlarms {
    /// No event is stamped by it.
    pub(crate) is_wrong: bool,
    /// An operator should look after it at least.
    pub(crate) is_apart: bool,
}

/// What is known of the clocks of this node and its peers.
pub(crate) struct Clocks {
    skew_max_ms: u64,
    is_checked: bool,
    watch: Mutex<ClockWatch>,
    time: Mutex<TimeOfDay>,
    last_time: Arc<dyn LastTime>,
    lease: Arc<SharedLease>,
    /// How often this machine may have stood still.
    standstills: watch::Sender<u64>,
}

impl Clocks {
    /// Creates the state of a node that has not heard from its peers. It starts from the time of day that the node relied on before its
    /// restart (`last_time`). Clocks that differ by more than `skew_max_ms` are wrong. `lease` ends when this machine may have been
    /// paused.
    pub(crate) fn new(skew_max_ms: u64, rules: Rules, last_time: Arc<dyn LastTime>, lease: Arc<SharedLease>) -> Self {
        let is_checked = rules.keep(Rule::MeasuresClocks);
        let time = if is_checked { TimeOfDay::UNKNOWN } else { TimeOfDay::UNCHECKED };
        let ran_until_ms = last_time.read().filter(|_| rules.keep(Rule::ComparesFirstLook));
        let watch = ClockWatch::new(skew_max_ms).after(ran_until_ms);
        let watch = if rules.keep(Rule::MindsStandstills) { watch } else { watch.without_standstills() };
        let watch = Mutex::new(watch);
        let time = Mutex::new(time);
        Self { skew_max_ms, is_checked, watch, time, last_time, lease, standstills: watch::Sender::new(0) }
    }

    /// The clocks of a node that are not compared with others.
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

    /// The rule by which the clocks are to be read now.
    pub(crate) fn time_of_day(&self) -> TimeOfDay {
        *self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of day, where it may be relied on.
    pub(crate) fn sure_wall_ms(&self, now: Moment) -> Option<u64> {
        let Reading { moment, doubt } = self.time_of_day().read(now);
        doubt.is_none().then_some(moment.wall_ms)
    }

    /// How the clock stands, and how many milliseconds it is ahead of most others.
    fn standing(&self, now: Moment) -> (ClockStanding, i64) {
        let watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        (watch.standing(), watch.ahead_ms(now))
    }

    /// How far the clock of a peer is ahead of this one's.
    pub(crate) fn offset(&self, peer: NodeId, now: Moment) -> Option<Offset> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner).offset(peer, now)
    }

    /// Until when this node may record.
    pub(crate) fn lease(&self) -> &Arc<SharedLease> {
        &self.lease
    }

    /// How often this machine may have stood still with its clocks, as that changes.
    pub(crate) fn standstills(&self) -> watch::Receiver<u64> {
        self.standstills.subscribe()
    }

    /// Whether somebody should look after the clock.
    pub(crate) fn alarms(&self, now: Moment) -> ClockAlarms {
        let (standing, _) = self.standing(now);
        let is_wrong = matches!(standing, ClockStanding::Beyond | ClockStanding::Stepped | ClockStanding::Stood);
        ClockAlarms { is_wrong, is_apart: is_wrong || standing == ClockStanding::Apart }
    }

    /// How far the clocks of all nodes that are known, this one among them, are ahead of the middle one.
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

    /// A peer has sent its time of day.
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

    /// Compares the clocks, and logs what is other than it stood before.
    fn look_after(&self, before: ClockStanding, now: Moment, view: &View) {
        // The nodes to compare with are not known before the map shows this start.
        let Some(others) = others(view) else { return };
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = watch.look(now, &others);
        if self.is_checked {
            *self.time.lock().unwrap_or_else(PoisonError::into_inner) = watch.time_of_day();
        }
        self.note_standstills(watch.standstills());
        log_change(before, standing, watch.ahead_ms(now), self.skew_max_ms);
    }

    /// Tells those who rely on the clocks, if this machine may have stood still again.
    fn note_standstills(&self, found: u64) {
        self.lease.stood_still(found);
        self.standstills.send_if_modified(|known| std::mem::replace(known, found) != found);
    }

    /// Why no event is stamped, where that is so.
    pub(crate) fn not_sure(&self, now: Moment) -> Option<String> {
        let (standing, ahead_ms) = self.standing(now);
        let time = self.time_of_day();
        time.read(now).doubt?;
        Some(match standing {
            ClockStanding::Unknown => "the clocks of most other nodes have not been measured yet".to_owned(),
            ClockStanding::Beyond => format!(
                "the clock of this node is {} those of most others, and by {} at most it may be \
                 (`timing.clock_skew_max_ms`): events in windows of time are undecided here; set it right",
                difference(ahead_ms),
                duration(self.skew_max_ms)
            ),
            ClockStanding::Stood => format!(
                "the clock of another node has gained more than {} (`timing.clock_skew_max_ms`) on this one: this machine has stood \
                 still, or that clock was set; events in windows of time are undecided here until most other nodes have sent \
                 their time again",
                duration(self.skew_max_ms)
            ),
            _ => format!(
                "the clock of this node was set by more than {} (`timing.clock_skew_max_ms`), or shows a time that does not follow \
                 the last run of the node: events in windows of time are \
                 undecided here until the clocks of most other nodes confirm it, or where there is no other node, until it has \
                 stood for {} s",
                duration(self.skew_max_ms),
                firstseen_routing::BELIEVED_AFTER_MS / 1000
            ),
        })
    }
}

/// The other nodes that are not down, once this node belongs to a cluster.
fn others(view: &View) -> Option<Vec<NodeId>> {
    let me = view.node()?;
    let nodes = view.map.nodes.iter();
    let up = nodes.filter(|(_, node)| !node.is_down && node.incarnation != Incarnation::default());
    Some(up.map(|(node, _)| *node).filter(|node| *node != me).collect())
}

/// Compares the clocks again and again, and keeps the time for the next start while it may be relied on.
pub(crate) async fn keep(clocks: Arc<Clocks>, clock: Arc<dyn Clock>, mut views: Views) {
    let mut next_keep_ms = MonotonicMs::START;
    loop {
        let view = views.borrow_and_update().clone();
        let now = clock.now();
        clocks.look(now, &view);
        if let Some(wall_ms) = clocks.sure_wall_ms(now).filter(|_| next_keep_ms <= now.monotonic_ms) {
            clocks.last_time.keep(wall_ms);
            next_keep_ms = now.monotonic_ms.after(KEEP_EVERY_MS);
        }
        if tokio::time::timeout(LOOK, views.changed()).await.is_ok_and(|changed| changed.is_err()) {
            return;
        }
    }
}

/// `1h ahead of`.
fn difference(ahead_ms: i64) -> String {
    let side = if ahead_ms < 0 { "behind" } else { "ahead of" };
    format!("{} {side}", duration(ahead_ms.unsigned_abs()))
}

/// Logs what has changed.
fn log_change(before: ClockStanding, now: ClockStanding, ahead_ms: i64, skew_max_ms: u64) {
    let apart = difference(ahead_ms);
    match (before, now) {
        _ if before == now => {}
        (_, ClockStanding::Beyond) => tracing::error!(
            skew_max_ms,
            "the clock of this node is {apart} those of most others: events in windows of time are undecided (clock_skew) \
             until it is set right"
        ),
        (_, ClockStanding::Stepped) => tracing::warn!(
            skew_max_ms,
            "the clock of this node was set: events in windows of time are undecided (clock_skew) until that is confirmed"
        ),
        (_, ClockStanding::Stood) => tracing::warn!(
            skew_max_ms,
            "the clock of another node has gained on this one: this machine has stood still, or that clock was set; events in windows \
             of time are undecided (clock_skew), and new ones are not recorded, until most other nodes have answered again"
        ),
        (_, ClockStanding::Apart) => {
            tracing::warn!(skew_max_ms, "the clock of this node is {apart} those of most others: look after it");
        }
        (ClockStanding::Unknown, _) => tracing::debug!("the clock of this node agrees with those of most others"),
        _ => tracing::info!("the clock of this node agrees with those of most others again"),
    }
}
