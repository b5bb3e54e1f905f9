//! Compares the clock of this node with the clocks of the other nodes, and decides whether the node may stamp events
//! with its time of day.
//!
//! # Guarantees
//!
//! - If the time of day of this node differs from that of more than half of the nodes (including itself) by more than
//!   the configured maximum, the node detects the difference from the times that its peers send.
//! - The node stamps no event until it has compared its clock with other nodes. If its own clock is set later, it
//!   stamps no event until it has repeated the comparison.
//! - A node that receives the times of too few peers keeps its last result for as long as its lease lasts
//!   (`group/lease.rs`).
//!
//! A paused virtual machine cannot detect the pause from its own clocks, because these clocks stop during the pause.
//! After the pause, the clocks of the node's peers are ahead by the length of the pause. The node therefore detects the
//! pause when it next receives the time of a peer ([`ClockWatch::standstills`]).
//!
//! This module is pure: callers pass the time as a parameter. It does not depend on how peers are asked for their time.

mod offsets;
mod time_of_day;

use std::collections::BTreeMap;

use crate::ids::NodeId;
use crate::protocol::{Moment, MonotonicMs};
use offsets::Offsets;
pub use offsets::{Exchange, Offset};
use time_of_day::ahead_of_monotonic;
pub use time_of_day::{Reading, TimeOfDay};

/// Time in milliseconds after which the only node of a cluster accepts a new time of day that somebody has set. Such a
/// node has no other node to compare its clock with, so the new time may be a mistake. Until the node accepts the new
/// time, it assigns no times to events. An operator who has set the clock by mistake can therefore correct it without
/// damage.
pub const BELIEVED_AFTER_MS: u64 = 10_000;

/// Maximum time in milliseconds between the end of one run of a node and the start of the next run for which the node
/// still trusts its clock. If the clock shows a longer time, or shows a time before the end of the last run, the node
/// assumes that somebody set the clock while the node was stopped.
pub const STARTED_WITHIN_MS: u64 = 60_000;

/// Minimum difference between two clocks that a node tolerates, in milliseconds. Two correct clocks can appear to
/// differ by some milliseconds, because a node reads its monotonic clock and its time of day one after the other and
/// may be interrupted between the two readings. A smaller limit would therefore cause false alarms.
const SKEW_MIN_MS: u64 = 20;

/// Result of the comparison of a node's time of day with that of the other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockStanding {
    /// Too few of the other nodes have sent their time since this node started.
    Unknown,
    /// The clock differs by at most half of the tolerated difference.
    Within,
    /// The clock differs by more than half of the tolerated difference. An operator should check it.
    Apart,
    /// The clock differs by more than the tolerated difference.
    Beyond,
    /// The clock was set by more than the tolerated difference, and no other clock has confirmed it yet.
    Stepped,
    /// The clock of a peer has gained more than the tolerated difference on the clocks of this node. Either this
    /// machine was paused, or the peer's clock was set. The node cannot tell which, so it stays in this state until a
    /// majority of the nodes has confirmed its clock.
    Stood,
}

impl ClockStanding {
    /// Returns whether events may be stamped with the time of this clock.
    pub fn is_sure(self) -> bool {
        matches!(self, Self::Within | Self::Apart)
    }
}

/// State of the comparison between the clock of a node and the clocks of its peers.
///
/// ```
/// use firstseen_routing::{ClockWatch, Exchange, Moment, MonotonicMs, NodeId, ClockStanding};
/// let others = [NodeId(2), NodeId(3)];
/// let mut watch = ClockWatch::new(1_000);
/// let (sent_ms, heard_ms) = (MonotonicMs(90), MonotonicMs(100));
/// let now = Moment { monotonic_ms: heard_ms, wall_ms: 1_790_000_000_000 };
/// assert_eq!(watch.look(now, &others), ClockStanding::Unknown);
/// watch.hear(NodeId(3), Exchange { sent_ms, heard_ms, peer_wall_ms: 1_790_000_000_007 });
/// assert_eq!(watch.look(now, &others), ClockStanding::Within, "two of three are enough");
/// ```
#[derive(Clone, Debug)]
pub struct ClockWatch {
    skew_max_ms: u64,
    peers: BTreeMap<NodeId, Offsets>,
    standing: ClockStanding,
    /// How far the time of day was ahead of the monotonic clock when the node last trusted it.
    believed_ms: Option<i64>,
    /// How far the time of day was ahead of the monotonic clock at the last comparison.
    shown_ms: Option<i64>,
    /// Time since which the time of day has differed from the trusted one.
    differs_since_ms: Option<MonotonicMs>,
    /// Time of day that the node last trusted in its former run, until the first comparison.
    ran_until_ms: Option<u64>,
    detects_suspensions: bool,
    standstills: u64,
    /// Time at which the last pause of the machine was detected. Exchanges that began before that time are ignored.
    stood_ms: Option<MonotonicMs>,
}

impl ClockWatch {
    /// Creates a watch that has no information yet. The clocks of nodes may differ by `skew_max_ms` milliseconds, but
    /// by no less than 20 ms.
    pub fn new(skew_max_ms: u64) -> Self {
        Self {
            skew_max_ms: skew_max_ms.max(SKEW_MIN_MS),
            peers: BTreeMap::new(),
            standing: ClockStanding::Unknown,
            believed_ms: None,
            shown_ms: None,
            differs_since_ms: None,
            ran_until_ms: None,
            detects_suspensions: true,
            standstills: 0,
            stood_ms: None,
        }
    }

    /// Returns a watch that never assumes that this machine was paused. Only tests use it.
    #[doc(hidden)]
    #[must_use]
    pub fn without_standstills(self) -> Self {
        Self { detects_suspensions: false, ..self }
    }

    /// Returns a watch for a node that has run before. `ran_until_ms` is the last time of day that the node trusted in
    /// its former run, in milliseconds since 1970. If the clock now shows an earlier time, or a time more than
    /// [`STARTED_WITHIN_MS`] later, the watch assumes that the clock was set while the node was stopped.
    #[must_use]
    pub fn after(self, ran_until_ms: Option<u64>) -> Self {
        Self { ran_until_ms, ..self }
    }

    /// Adds an exchange in which a peer has sent its time of day.
    pub fn hear(&mut self, peer: NodeId, exchange: Exchange) {
        if self.stood_ms.is_some_and(|stood_ms| exchange.sent_ms <= stood_ms) {
            // The peer may have read its clock before this machine was paused.
            return;
        }
        let gained_ms = self.peers.entry(peer).or_default().hear(exchange);
        if gained_ms > self.skew_max_ms && self.detects_suspensions {
            self.peers.retain(|other, _| *other == peer);
            self.find_standstill(exchange.heard_ms);
            self.standing = ClockStanding::Stood;
        }
    }

    /// Returns how often this machine may have been paused together with its clocks, for example because its virtual
    /// machine was suspended. The clocks do not advance during such a pause. A duration that was measured across a
    /// pause is therefore too short.
    ///
    /// A caller that sees a higher number than before must discard the durations that it has measured. It must also
    /// assume that leases which were granted before the pause, such as the node's `Lease`, have ended.
    ///
    /// ```
    /// use firstseen_routing::{ClockStanding, ClockWatch, Exchange, Moment, MonotonicMs, NodeId};
    /// let others = [NodeId(2), NodeId(3)];
    /// let at = |ms| Moment { monotonic_ms: MonotonicMs(ms), wall_ms: 1_790_000_000_000 + ms };
    /// let sent = |ms, later_ms| Exchange {
    ///     sent_ms: MonotonicMs(ms - 2),
    ///     heard_ms: MonotonicMs(ms),
    ///     peer_wall_ms: at(ms - 1).wall_ms + later_ms,
    /// };
    /// let mut watch = ClockWatch::new(1_000);
    /// others.iter().for_each(|peer| watch.hear(*peer, sent(100, 0)));
    /// assert_eq!(watch.look(at(100), &others), ClockStanding::Within);
    /// // Twelve seconds pass, but the clocks of this node do not advance.
    /// watch.hear(NodeId(2), sent(350, 12_000));
    /// assert_eq!((watch.look(at(350), &others), watch.standstills()), (ClockStanding::Stood, 1));
    /// ```
    pub fn standstills(&self) -> u64 {
        self.standstills
    }

    fn find_standstill(&mut self, now_ms: MonotonicMs) {
        self.standstills += 1;
        self.stood_ms = Some(now_ms);
    }

    /// Compares the clock of this node with the clocks of `others`, which are the nodes that are not marked down, and
    /// returns the result.
    pub fn look(&mut self, now: Moment, others: &[NodeId]) -> ClockStanding {
        self.peers.retain(|peer, _| others.contains(peer));
        let shown_ms = ahead_of_monotonic(now);
        if let Some(ran_until_ms) = self.ran_until_ms.take().filter(|ran_until_ms| !self.follows(*ran_until_ms, now)) {
            self.believed_ms = Some(ahead_of_monotonic(Moment { wall_ms: ran_until_ms, ..now }));
        }
        let has_stepped = self.shown_ms.is_some_and(|before_ms| self.differ(before_ms, shown_ms));
        self.shown_ms = Some(shown_ms);
        if has_stepped {
            // The monotonic clock of a machine stops while the machine sleeps, so measurements from before are invalid.
            self.peers.clear();
        }
        let differs = self.believed_ms.is_some_and(|believed_ms| self.differ(believed_ms, shown_ms));
        let since_ms = self.differs_since_ms.filter(|_| !has_stepped).unwrap_or(now.monotonic_ms);
        self.differs_since_ms = differs.then_some(since_ms);
        let before = self.standing;
        self.standing = self.judge(now, others);
        let is_behind = self.standing == ClockStanding::Beyond && self.ahead_ms(now) < 0;
        if is_behind && before.is_sure() && self.detects_suspensions {
            // The machine may have been paused several times, each time too briefly to be detected.
            self.find_standstill(now.monotonic_ms);
        }
        if self.standing.is_sure() {
            self.believed_ms = Some(shown_ms);
            self.differs_since_ms = None;
        }
        self.standing
    }

    fn judge(&self, now: Moment, others: &[NodeId]) -> ClockStanding {
        if others.is_empty() {
            return match self.differs_since_ms {
                Some(since_ms) if now.monotonic_ms.since(since_ms) < BELIEVED_AFTER_MS => ClockStanding::Stepped,
                _ => ClockStanding::Within,
            };
        }
        let offsets: Vec<Offset> = others.iter().filter_map(|peer| self.peers.get(peer)?.of(now)).collect();
        let is_beyond = self.standing == ClockStanding::Beyond;
        let is_apart = is_beyond || self.standing == ClockStanding::Apart;
        let within_half = count_within(&offsets, self.skew_max_ms / 2, is_apart);
        let within_all = count_within(&offsets, self.skew_max_ms, is_beyond);
        let silent = others.len() - offsets.len();
        // Number of nodes that are more than half of all nodes.
        let most = others.len().div_ceil(2) + 1;
        match () {
            () if within_half >= most => ClockStanding::Within,
            () if within_all >= most => ClockStanding::Apart,
            () if within_all + silent < most => ClockStanding::Beyond,
            () if self.differs_since_ms.is_some() => ClockStanding::Stepped,
            // Too few peers have sent their time recently, and the clocks of those few may be the wrong ones.
            () => self.standing,
        }
    }

    /// Returns whether it is plausible that a node starts at `now`, if it last trusted the time `ran_until_ms` in its
    /// former run.
    fn follows(&self, ran_until_ms: u64, now: Moment) -> bool {
        let is_back = now.wall_ms.saturating_add(self.skew_max_ms) < ran_until_ms;
        !is_back && now.wall_ms <= ran_until_ms.saturating_add(STARTED_WITHIN_MS)
    }

    fn differ(&self, one_ms: i64, other_ms: i64) -> bool {
        one_ms.abs_diff(other_ms) > self.skew_max_ms
    }

    /// Returns the result of the last comparison.
    pub fn standing(&self) -> ClockStanding {
        self.standing
    }

    /// Returns the rule for the time of day that the node uses until the next comparison.
    pub fn time_of_day(&self) -> TimeOfDay {
        TimeOfDay::new(self.standing, self.believed_ms, self.skew_max_ms)
    }

    /// Returns how far the clock of a peer is ahead of the clock of this node. `None` means that the peer has not sent
    /// its time recently.
    pub fn offset(&self, peer: NodeId, now: Moment) -> Option<Offset> {
        self.peers.get(&peer)?.of(now)
    }

    /// Returns by how many milliseconds the clock of this node is ahead of the median of all known clocks, including
    /// its own. If the number of clocks is even, two clocks are in the middle. In that case, the one that is nearer to
    /// the clock of this node counts as the median.
    pub fn ahead_ms(&self, now: Moment) -> i64 {
        let mut all: Vec<i64> = self.peers.values().filter_map(|peer| Some(peer.of(now)?.ahead_ms)).collect();
        all.push(0);
        all.sort_unstable();
        let low = all[(all.len() - 1) / 2];
        let high = all[all.len() / 2];
        let middle = if low.unsigned_abs() <= high.unsigned_abs() { low } else { high };
        middle.saturating_neg()
    }
}

/// Returns how many clocks differ from this node's clock by at most `limit_ms`. The clock of this node is included in
/// the count.
///
/// If the last comparison found this node's clock outside of the limit, the limit is reduced by an eighth. For example,
/// a clock that has exceeded a limit of 800 ms must come within 700 ms before it counts as correct again. Without this
/// hysteresis, a clock with a difference of about 800 ms would change its state, and cause a report, again and again.
fn count_within(offsets: &[Offset], limit_ms: u64, is_past: bool) -> usize {
    let limit_ms = if is_past { limit_ms - limit_ms / 8 } else { limit_ms };
    1 + offsets.iter().filter(|offset| offset.may_be_within(limit_ms)).count()
}
